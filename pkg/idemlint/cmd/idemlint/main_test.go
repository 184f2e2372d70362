// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"go/token"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/lockstead/lockstead/pkg/idemlint"
)

// program builds the command once for each test that runs it.
func program(t *testing.T) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "idemlint")
	if out, err := exec.CommandContext(t.Context(), "go", "build", "-o", path, ".").CombinedOutput(); err != nil {
		t.Fatalf("go build: %v\n%s", err, out)
	}
	return path
}

// execute runs a program over the module with the real routers, and gives its exit status and output.
func execute(t *testing.T, name string, args ...string) (status int, output string) {
	t.Helper()
	command := exec.CommandContext(t.Context(), name, args...)
	command.Dir = filepath.Join("..", "..", "testdata", "routers")
	command.Env = append(os.Environ(), "GOWORK=off")
	out, err := command.CombinedOutput()
	var exit *exec.ExitError
	if err != nil && !errors.As(err, &exit) {
		t.Fatalf("%s: %v\n%s", name, err, out)
	}
	return command.ProcessState.ExitCode(), string(out)
}

func wantOutput(t *testing.T, status, wantStatus int, output string, lines ...string) {
	t.Helper()
	if status != wantStatus {
		t.Errorf("exit status %d, want %d; output:\n%s", status, wantStatus, output)
	}
	for _, line := range lines {
		if !strings.Contains(output, line) {
			t.Errorf("output lacks %q:\n%s", line, output)
		}
	}
}

func TestGoVetRunsIt(t *testing.T) {
	t.Parallel()
	status, output := execute(t, "go", "vet", "-vettool="+program(t), "./wrappers", "./clean")
	// The findings in wrappers are known by facts about wrappers/lib.
	wantOutput(t, status, 1, output, "POST /twice/e does not say what a repeated request does", "PUT /c does not say")
	if strings.Contains(output, "clean.go") {
		t.Errorf("a package without faults is reported:\n%s", output)
	}
}

func TestCommandRuns(t *testing.T) {
	t.Parallel()
	tool := program(t)
	status, output := execute(t, tool, "./missing")
	wantOutput(t, status, 2, output, "idemlint:")
	status, output = execute(t, tool, "-inventory", "inventory.json", "./clean")
	wantOutput(t, status, 0, output)
}

func finding(file, route string) idemlint.Finding {
	return idemlint.Finding{Category: "undeclared", Subject: route, Position: token.Position{Filename: file, Line: 7}, Message: route + " does not say"}
}

func wantJudgement(t *testing.T, findings []idemlint.Finding, routes []idemlint.Route, s settings, wantClean bool, lines ...string) {
	t.Helper()
	var out bytes.Buffer
	clean, err := judge(routes, findings, s, &out)
	if err != nil {
		t.Fatal(err)
	}
	if clean != wantClean {
		t.Errorf("clean %v, want %v; output:\n%s", clean, wantClean, &out)
	}
	for _, line := range lines {
		if !strings.Contains(out.String(), line) {
			t.Errorf("output lacks %q:\n%s", line, &out)
		}
	}
}

func TestBaselineOnlyShrinks(t *testing.T) {
	t.Parallel()
	old, fresh := finding("old.go", "POST /a"), finding("new.go", "POST /b")
	s := settings{baseline: filepath.Join(t.TempDir(), "baseline.json")}
	if _, err := judge(nil, []idemlint.Finding{old}, s, &bytes.Buffer{}); err == nil {
		t.Error("a baseline that does not exist was taken for an empty one")
	}
	write := s
	write.write = true
	both := []idemlint.Finding{old, old, fresh}
	wantJudgement(t, []idemlint.Finding{old, old}, nil, write, true)
	wantJudgement(t, []idemlint.Finding{old, old}, nil, s, true)
	wantJudgement(t, both, nil, s, false, "new.go:7: POST /b does not say")
	wantJudgement(t, append(both, old), nil, write, false, "new.go:7", "old.go:7")
	// A finding is gone: the baseline has to follow, and does not take it back.
	wantJudgement(t, []idemlint.Finding{old}, nil, s, false, "lists findings that are gone", `- {"file":"old.go"`)
	wantJudgement(t, []idemlint.Finding{old}, nil, write, true)
	wantJudgement(t, []idemlint.Finding{old, old}, nil, write, false, "old.go:7")
}

func TestInventoryIsCompared(t *testing.T) {
	t.Parallel()
	s := settings{inventory: filepath.Join(t.TempDir(), "inventory.json")}
	routes := []idemlint.Route{{Method: "POST", Pattern: "/a", File: "a.go", Intent: idemlint.Intent{Decision: "idempotent"}}}
	if _, err := judge(routes, nil, s, &bytes.Buffer{}); err == nil {
		t.Error("an inventory that does not exist was taken for an empty one")
	}
	write := s
	write.write = true
	wantJudgement(t, nil, routes, write, true)
	wantJudgement(t, nil, routes, s, true)
	routes[0].Intent = idemlint.Intent{Decision: "non-idempotent", Reason: "moves money"}
	wantJudgement(t, nil, routes, s, false, "is not what the code declares", `- {"method":"POST"`, `+ {"method":"POST"`)
}
