// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package state

import (
	"os"
	"os/exec"
	"testing"
)

func TestParseStatReadsPastOddProgramNames(t *testing.T) {
	const tail = " S 1 2 3 4 5 6 7 8 9 10 11 12 13 14 15 16 17 18 987654 20 21"
	for name, program := range map[string]string{
		"plain":                     "(node)",
		"spaces and parentheses":    "(a ) R (b)",
		"a name that looks like it": "(x) Z 1 2)",
	} {
		t.Run(name, func(t *testing.T) {
			got, err := parseStat("42 " + program + tail)
			if want := (stat{state: "S", threads: "17", start: "987654"}); err != nil || got != want {
				t.Errorf("parseStat = %v, %v; want %v", got, err, want)
			}
		})
	}
	for _, broken := range []string{"", "42 (x) S 1", "no name at all"} {
		if got, err := parseStat(broken); err == nil {
			t.Errorf("parseStat(%q) = %v, want an error", broken, got)
		}
	}
}

func TestEnded(t *testing.T) {
	for s, want := range map[stat]bool{
		{state: "S", threads: "1"}: false,
		{state: "R", threads: "9"}: false,
		{state: "Z", threads: "1"}: true,
		{state: "Z", threads: "2"}: false, // A thread executes another program.
		{state: "X", threads: "0"}: true,
	} {
		if got := s.ended(); got != want {
			t.Errorf("%+v has ended: %v, want %v", s, got, want)
		}
	}
}

func TestAliveTellsAProcessFromAnotherWithItsNumber(t *testing.T) {
	self, err := Identify(os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	if !self.Alive() {
		t.Error("this process is said to be dead")
	}
	earlier := self
	earlier.Start = "1"
	if earlier.Alive() {
		t.Error("a process of the same number that started earlier is said to be alive")
	}
	rebooted := self
	rebooted.Boot = "another boot"
	if rebooted.Alive() {
		t.Error("a process of another boot is said to be alive")
	}
}

func TestAliveOfAProcessThatEnded(t *testing.T) {
	cmd := exec.Command("cat")
	input, err := cmd.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	p, err := Identify(cmd.Process.Pid)
	if err != nil {
		t.Fatal(err)
	}
	if !p.Alive() {
		t.Error("the running process is said to be dead")
	}
	if err := input.Close(); err != nil {
		t.Fatal(err)
	}
	if err := cmd.Wait(); err != nil {
		t.Fatal(err)
	}
	if p.Alive() {
		t.Error("the ended process is said to be alive")
	}
}

func TestNodeRecord(t *testing.T) {
	dir := Open(t.TempDir())
	if _, ok, err := dir.Node(); ok || err != nil {
		t.Errorf("Node of an empty folder = %v, %v; want none", ok, err)
	}
	want := Process{PID: 7, Start: "8", Boot: "9"}
	if err := dir.RecordNode(want); err != nil {
		t.Fatal(err)
	}
	if got, ok, err := dir.Node(); got != want || !ok || err != nil {
		t.Errorf("Node = %v, %v, %v; want %v", got, ok, err, want)
	}
}

func TestNewRefusesNamesThatAreNoFolder(t *testing.T) {
	for _, name := range []string{"", "../x", "a/b", "A", "-a", "a-", "a b", "this-name-is-longer-than-a-host-name-may-be"} {
		if _, err := New(t.TempDir(), name); err == nil {
			t.Errorf("New accepted the name %q", name)
		}
	}
	a, err := New("/one", "same")
	if err != nil {
		t.Fatal(err)
	}
	b, err := New("/two", "same")
	if err != nil {
		t.Fatal(err)
	}
	if a.Cgroup() == b.Cgroup() {
		t.Error("clusters of the same name in two caches share a control group")
	}
}
