// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"flag"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/checker"
	"golang.org/x/tools/go/packages"

	"github.com/lockstead/lockstead/pkg/idemlint"
)

// settings are what the command line says.
type settings struct {
	inventory, baseline string
	write               bool
	patterns            []string
}

// run is the command. It reports whether nothing was found.
func run(args []string, out, diagnostics io.Writer) (clean bool, err error) {
	var s settings
	flags := flag.NewFlagSet("idemlint", flag.ContinueOnError)
	flags.SetOutput(diagnostics)
	flags.StringVar(&s.inventory, "inventory", "", "`file` that lists the routes of the packages, with what they declare; a difference is a finding")
	flags.StringVar(&s.baseline, "baseline", "", "`file` that lists findings to tolerate; it can only shrink")
	flags.BoolVar(&s.write, "write", false, "write the inventory instead of comparing it, take repaired findings off the baseline, and make a baseline that does not exist")
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return true, nil
	} else if err != nil {
		return false, err
	}
	if s.patterns = flags.Args(); len(s.patterns) == 0 {
		s.patterns = []string{"./..."}
	}
	routes, findings, err := analyse(s.patterns)
	if err != nil {
		return false, err
	}
	return judge(routes, findings, s, out)
}

// judge holds what was found against the baseline and the inventory.
func judge(routes []idemlint.Route, findings []idemlint.Finding, s settings, out io.Writer) (clean bool, err error) {
	clean = true
	if s.baseline != "" {
		if findings, clean, err = tolerate(findings, s, out); err != nil {
			return false, err
		}
	}
	for _, f := range findings {
		fmt.Fprintf(out, "%s: %s\n", f.Position, f.Message)
	}
	if s.inventory != "" {
		same, err := compare(routes, s, out)
		if err != nil {
			return false, err
		}
		clean = clean && same
	}
	return clean && len(findings) == 0, nil
}

// analyse loads the packages and collects what the analyzer knows about them, with files relative to the current folder.
func analyse(patterns []string) ([]idemlint.Route, []idemlint.Finding, error) {
	loaded, err := packages.Load(&packages.Config{Mode: packages.LoadAllSyntax | packages.NeedModule}, patterns...)
	if err != nil {
		return nil, nil, fmt.Errorf("load %s: %w", strings.Join(patterns, " "), err)
	}
	if len(loaded) == 0 {
		return nil, nil, fmt.Errorf("no packages match %s", strings.Join(patterns, " "))
	}
	for _, p := range loaded {
		if len(p.Errors) > 0 {
			return nil, nil, fmt.Errorf("package %s does not build: %w", p.PkgPath, p.Errors[0])
		}
	}
	graph, err := checker.Analyze([]*analysis.Analyzer{idemlint.Analyzer}, loaded, nil)
	if err != nil {
		return nil, nil, fmt.Errorf("analyse: %w", err)
	}
	here, err := os.Getwd()
	if err != nil {
		return nil, nil, fmt.Errorf("find the current folder: %w", err)
	}
	routes := []idemlint.Route{}
	var findings []idemlint.Finding
	for _, action := range graph.Roots {
		if action.Err != nil {
			return nil, nil, fmt.Errorf("analyse %s: %w", action.Package.PkgPath, action.Err)
		}
		result := action.Result.(*idemlint.Result)
		for _, r := range result.Routes {
			r.File = relative(here, r.File)
			routes = append(routes, r)
		}
		for _, f := range result.Findings {
			f.Position.Filename = relative(here, f.Position.Filename)
			findings = append(findings, f)
		}
	}
	idemlint.SortRoutes(routes)
	slices.SortStableFunc(findings, func(a, b idemlint.Finding) int {
		if c := strings.Compare(a.Position.Filename, b.Position.Filename); c != 0 {
			return c
		}
		return a.Position.Offset - b.Position.Offset
	})
	return routes, findings, nil
}

func relative(here, file string) string {
	path, err := filepath.Rel(here, file)
	if err != nil {
		return filepath.ToSlash(file)
	}
	return filepath.ToSlash(path)
}

// tolerate takes what the baseline allows out of the findings.
func tolerate(findings []idemlint.Finding, s settings, out io.Writer) (left []idemlint.Finding, clean bool, err error) {
	document, err := os.ReadFile(s.baseline)
	var baseline []idemlint.Tolerated
	switch {
	case errors.Is(err, fs.ErrNotExist) && s.write:
		baseline = idemlint.Count(findings)
	case err != nil:
		return nil, false, fmt.Errorf("read the baseline (-write makes a new one): %w", err)
	default:
		if baseline, err = idemlint.Decode[idemlint.Tolerated](document); err != nil {
			return nil, false, fmt.Errorf("read the baseline %s: %w", s.baseline, err)
		}
	}
	left, shrunk := idemlint.Tolerate(findings, baseline)
	want, err := idemlint.Encode(shrunk)
	if err != nil {
		return nil, false, err
	}
	if s.write {
		if err := os.WriteFile(s.baseline, want, 0o644); err != nil {
			return nil, false, fmt.Errorf("write the baseline: %w", err)
		}
		return left, true, nil
	}
	if slices.Equal(baseline, shrunk) {
		return left, true, nil
	}
	fmt.Fprintf(out, "%s lists findings that are gone; keep it from growing again: idemlint -baseline %s -write\n", s.baseline, s.baseline)
	printDifference(out, document, want)
	return left, false, nil
}

// compare holds the routes against the inventory.
func compare(routes []idemlint.Route, s settings, out io.Writer) (same bool, err error) {
	want, err := idemlint.Encode(routes)
	if err != nil {
		return false, err
	}
	if s.write {
		if err := os.WriteFile(s.inventory, want, 0o644); err != nil {
			return false, fmt.Errorf("write the inventory: %w", err)
		}
		return true, nil
	}
	document, err := os.ReadFile(s.inventory)
	if err != nil {
		return false, fmt.Errorf("read the inventory (-write makes it): %w", err)
	}
	if bytes.Equal(document, want) {
		return true, nil
	}
	fmt.Fprintf(out, "%s is not what the code declares; if the change is meant, run: idemlint -inventory %s -write\n", s.inventory, s.inventory)
	printDifference(out, document, want)
	return false, nil
}

// printDifference names the lines that only one of two lists has.
func printDifference(out io.Writer, old, current []byte) {
	before, after := entries(old), entries(current)
	for _, line := range before {
		if !slices.Contains(after, line) {
			fmt.Fprintf(out, "  - %s\n", line)
		}
	}
	for _, line := range after {
		if !slices.Contains(before, line) {
			fmt.Fprintf(out, "  + %s\n", line)
		}
	}
}

func entries(document []byte) (lines []string) {
	for line := range strings.Lines(string(document)) {
		if line = strings.Trim(line, " \t\r\n,[]"); line != "" {
			lines = append(lines, line)
		}
	}
	return lines
}
