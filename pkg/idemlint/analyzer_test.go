// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package idemlint_test

import (
	"os"
	"os/exec"
	"path/filepath"
	"testing"

	"golang.org/x/tools/go/analysis/analysistest"

	"github.com/lockstead/lockstead/pkg/idemlint"
)

// The module in testdata uses the routers themselves, and package idempotency as it is in this repository.
func routers(t *testing.T) string {
	t.Helper()
	dir, err := filepath.Abs(filepath.Join("testdata", "routers"))
	if err != nil {
		t.Fatal(err)
	}
	// The analysis may not download, so that the modules have to be there.
	download := exec.CommandContext(t.Context(), "go", "mod", "download")
	download.Dir, download.Env = dir, append(os.Environ(), "GOWORK=off")
	if out, err := download.CombinedOutput(); err != nil {
		t.Fatalf("go mod download: %v\n%s", err, out)
	}
	return dir
}

func TestRoutesMustBeDeclared(t *testing.T) {
	t.Parallel()
	analysistest.Run(t, routers(t), idemlint.Analyzer, "./...")
}

func TestFixes(t *testing.T) {
	t.Parallel()
	analysistest.RunWithSuggestedFixes(t, routers(t), idemlint.Analyzer, "./fixes")
}
