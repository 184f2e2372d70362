// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const module = `module example.org/tools

go 1.26.0

replace example.org/tool => example.org/tool v0.1.0

tool example.org/tool/cmd/tool

require (
	example.org/tool/v2 v2.0.0
	example.org/tool v1.37.2 // indirect
)
`

func TestModuleVersion(t *testing.T) {
	for name, test := range map[string]struct{ goMod, want string }{
		"in a block":        {module, "v1.37.2"},
		"on a line":         {"require example.org/tool v1.2.3\n", "v1.2.3"},
		"only replaced":     {"replace example.org/tool => example.org/tool v0.1.0\n", ""},
		"of another module": {"require example.org/tool/v2 v2.0.0\n", ""},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			if err := os.WriteFile(filepath.Join(dir, "go.mod"), []byte(test.goMod), 0o644); err != nil {
				t.Fatal(err)
			}
			got, err := target{Group: Group{Module: "example.org/tool"}, source: dir}.moduleVersion()
			if got != test.want || (err == nil) != (test.want != "") {
				t.Errorf("moduleVersion = %q, %v; want %q", got, err, test.want)
			}
		})
	}
}

func TestStampWith(t *testing.T) {
	const stamp = "pkg.version={version} {major} {minor}"
	if got, want := stampWith(stamp, "v1.37.2"), "pkg.version=v1.37.2 1 37"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestEnsure builds a small program of a group for real, with the group's files
// in a folder of the test's own.
func TestEnsure(t *testing.T) {
	source, root := t.TempDir(), t.TempDir()
	folder := filepath.Join(source, "coredns")
	if err := os.Mkdir(folder, 0o755); err != nil {
		t.Fatal(err)
	}
	write := func(name, content string) {
		t.Helper()
		if err := os.WriteFile(filepath.Join(folder, name), []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	// The requirement is not in use, so nothing is fetched for it.
	write("go.mod", "module example.org/small\n\ngo 1.26.0\n\nrequire github.com/coredns/coredns v1.0.0\n")
	write("main.go", "package main\n\nfunc main() {}\n")
	cache := NewCache(source, root)
	first, err := cache.Ensure(t.Context(), CoreDNS)
	if err != nil {
		t.Fatal(err)
	}
	program := first[CoreDNS]
	if !strings.HasPrefix(program, filepath.Join(root, "bin", "coredns-v1.0.0-")) {
		t.Errorf("the program is at %s", program)
	}
	before, err := os.Stat(program)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := cache.Ensure(t.Context(), CoreDNS); err != nil {
		t.Fatal(err)
	}
	if after, err := os.Stat(program); err != nil || !os.SameFile(before, after) {
		t.Errorf("the program was built again: %v", err)
	}
	write("main.go", "package main\n\nfunc main() { println() }\n")
	second, err := cache.Ensure(t.Context(), CoreDNS)
	if err != nil {
		t.Fatal(err)
	}
	if second[CoreDNS] == program {
		t.Error("a changed source did not change where the program is kept")
	}
	if _, err := cache.Ensure(t.Context(), "no-such-program"); err == nil {
		t.Error("an unknown program was accepted")
	}
}
