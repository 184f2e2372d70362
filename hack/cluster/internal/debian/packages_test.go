// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package debian

import (
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"
)

func TestLacking(t *testing.T) {
	dir := t.TempDir()
	there, gone := filepath.Join(dir, "there"), filepath.Join(dir, "gone")
	if err := os.WriteFile(there, []byte("#!/bin/sh\n"), 0o755); err != nil {
		t.Fatal(err)
	}
	t.Setenv("PATH", dir)
	packages := []Package{
		{"by-path", []string{there}},
		{"by-name", []string{"there"}},
		{"by-alternative", []string{gone, there}},
		{"path-missing", []string{gone}},
		{"name-missing", []string{"no-such-program-anywhere"}},
	}
	if got, want := lacking(packages), []string{"path-missing", "name-missing"}; !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
	// Without apt-get in PATH, as on another system, what is missing is named.
	err := Ensure(t.Context(), packages)
	if err == nil || !strings.Contains(err.Error(), "path-missing name-missing") {
		t.Errorf("Ensure = %v, want an error that names the packages", err)
	}
	if err := Ensure(t.Context(), packages[:3]); err != nil {
		t.Errorf("Ensure with nothing missing: %v", err)
	}
}
