// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/xml"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/lockstead/lockstead/test/bench/internal/worker"
)

func TestMain(m *testing.M) {
	// The workers of a measurement are this program, started again.
	if os.Getenv(worker.Variable) == "" {
		os.Exit(m.Run())
	}
	if err := worker.Serve(context.Background(), os.Stdin, os.Stdout); err != nil {
		fmt.Fprintln(os.Stderr, err)
		os.Exit(1)
	}
}

// It says that every scenario runs against real servers and ends up on the page. It judges no time.
func TestQuickRunWritesThePage(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), 5*time.Minute)
	defer cancel()
	dir := t.TempDir()
	measures, page := filepath.Join(dir, "performance.json"), filepath.Join(dir, "performance.md")
	var log bytes.Buffer
	if err := command(ctx, []string{"-quick", "-json", measures, "-page", page}, &log); err != nil {
		t.Fatalf("%v\n%s", err, &log)
	}
	report, err := read(measures)
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	for _, m := range report.Measures {
		for _, s := range m.Series {
			if len(s.Rounds) == 0 {
				t.Errorf("measure %s has no round of %s", m.ID, s.Subject)
			}
		}
		for _, target := range m.Targets {
			if _, ok := m.Judge(target); !ok {
				t.Errorf("measure %s has nothing to judge the target %+v by", m.ID, target)
			}
		}
		if !strings.Contains(string(text), "## "+m.Title+"\n") {
			t.Errorf("the page has no section for %q", m.Title)
		}
	}
	plots, err := filepath.Glob(filepath.Join(dir, "performance", "*.svg"))
	if err != nil || len(plots) == 0 {
		t.Fatalf("the page has no plots: %v", err)
	}
	for _, plot := range plots {
		if !strings.Contains(string(text), "performance/"+filepath.Base(plot)) {
			t.Errorf("the page does not show %s", plot)
		}
		wellFormed(t, plot)
	}
}

func wellFormed(t *testing.T, path string) {
	t.Helper()
	file, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	decoder := xml.NewDecoder(file)
	for {
		if _, err := decoder.Token(); errors.Is(err, io.EOF) {
			return
		} else if err != nil {
			t.Errorf("%s: %v", path, err)
			return
		}
	}
}

func TestCommandRefuses(t *testing.T) {
	t.Parallel()
	for name, args := range map[string][]string{
		"a page without a file": {"-page", "x.md"}, "nothing to render": {"-render"}, "a broken pattern": {"-only", "("}, "an unknown flag": {"-quik"},
	} {
		if err := command(t.Context(), args, io.Discard); err == nil {
			t.Errorf("%s was accepted", name)
		}
	}
}
