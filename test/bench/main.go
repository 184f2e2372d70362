// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Command bench measures the locks of this library beside those of others, in one run and interleaved, and writes docs/performance.md from it.
//
//	make bench        # everything: about a quarter of an hour
//	make bench-quick  # whether all of it works: under a minute
package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"regexp"
	"slices"
	"syscall"

	"github.com/lockstead/lockstead/test/bench/internal/page"
	"github.com/lockstead/lockstead/test/bench/internal/result"
	"github.com/lockstead/lockstead/test/bench/internal/rig"
	"github.com/lockstead/lockstead/test/bench/internal/scenario"
	"github.com/lockstead/lockstead/test/bench/internal/worker"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	var err error
	if os.Getenv(worker.Variable) != "" {
		err = worker.Serve(ctx, os.Stdin, os.Stdout)
	} else {
		err = command(ctx, os.Args[1:], os.Stderr)
	}
	if err != nil && !errors.Is(err, flag.ErrHelp) {
		fmt.Fprintln(os.Stderr, "bench:", err)
		stop()
		os.Exit(1)
	}
}

type options struct {
	quick  bool
	only   *regexp.Regexp
	render bool
	json   string
	page   string
}

func command(ctx context.Context, args []string, log io.Writer) error {
	var o options
	var only string
	flags := flag.NewFlagSet("bench", flag.ContinueOnError)
	flags.SetOutput(log)
	flags.BoolVar(&o.quick, "quick", false, "measure so little that it only shows that all of it works")
	flags.StringVar(&only, "only", "", "measure the scenarios whose name matches, and keep the other measures of the file")
	flags.BoolVar(&o.render, "render", false, "measure nothing: write the page from the file")
	flags.StringVar(&o.json, "json", "", "the file with the measures (default: standard output, without a page)")
	flags.StringVar(&o.page, "page", "", "the page to write, with its plots in a folder beside it (default: none)")
	if err := flags.Parse(args); err != nil {
		return err
	}
	var err error
	if o.only, err = regexp.Compile(only); err != nil {
		return fmt.Errorf("-only: %w", err)
	}
	if o.json == "" && (o.page != "" || o.render) {
		return errors.New("a page is written from a file: give -json too")
	}
	var report result.Report
	if o.render || only != "" && o.json != "" {
		if report, err = read(o.json); err != nil {
			return err
		}
	}
	if !o.render {
		if report, err = measure(ctx, o, report, log); err != nil {
			return err
		}
		if err := write(o.json, report); err != nil {
			return err
		}
	}
	if o.page == "" {
		return nil
	}
	return page.Write(o.page, report)
}

// measure runs the scenarios, and puts their measures in the place of those of the same name in the report.
func measure(ctx context.Context, o options, report result.Report, log io.Writer) (_ result.Report, err error) {
	report.Quick = o.quick
	report.Machine = machine()
	servers, err := rig.New(ctx)
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, servers.Close()) }()
	for _, s := range scenario.All() {
		if !o.only.MatchString(s.Name) {
			continue
		}
		fmt.Fprintln(log, "bench:", s.Name)
		measures, err := s.Run(ctx, scenario.Env{Rig: servers, Quick: o.quick})
		if err != nil {
			return report, fmt.Errorf("%s: %w", s.Name, err)
		}
		for _, m := range measures {
			m.Scenario, m.Load = s.Name, load()
			report.Measures = put(report.Measures, m)
		}
	}
	report.Measures = inOrder(report.Measures)
	report.Machine.Servers = servers.Versions()
	return report, nil
}

func put(measures []result.Measure, m result.Measure) []result.Measure {
	if i := slices.IndexFunc(measures, func(other result.Measure) bool { return other.ID == m.ID }); i >= 0 {
		measures[i] = m
		return measures
	}
	return append(measures, m)
}

// inOrder puts the measures in the order of the scenarios.
func inOrder(measures []result.Measure) []result.Measure {
	place := map[string]int{}
	for i, s := range scenario.All() {
		place[s.Name] = i
	}
	slices.SortStableFunc(measures, func(a, b result.Measure) int { return place[a.Scenario] - place[b.Scenario] })
	return measures
}

func read(path string) (report result.Report, err error) {
	text, err := os.ReadFile(path)
	if errors.Is(err, os.ErrNotExist) {
		return report, nil
	}
	if err != nil {
		return report, fmt.Errorf("read the measures: %w", err)
	}
	if err := json.Unmarshal(text, &report); err != nil {
		return report, fmt.Errorf("read the measures in %s: %w", path, err)
	}
	return report, nil
}

func write(path string, report result.Report) error {
	text, err := json.MarshalIndent(report, "", " ")
	if err != nil {
		return fmt.Errorf("write the measures: %w", err)
	}
	text = append(text, '\n')
	if path == "" {
		_, err = os.Stdout.Write(text)
		return err
	}
	if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
		return fmt.Errorf("write the measures: %w", err)
	}
	return os.WriteFile(path, text, 0o644)
}
