// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package page writes what was measured as a page of Markdown with plots.
package page

import (
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"

	"github.com/lockstead/lockstead/test/bench/internal/result"
)

// Write writes the page, and its plots into a folder beside it that has the page's name.
func Write(path string, report result.Report) error {
	folder := strings.TrimSuffix(path, filepath.Ext(path))
	if err := os.RemoveAll(folder); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	if err := os.MkdirAll(folder, 0o755); err != nil {
		return fmt.Errorf("write the page: %w", err)
	}
	for name, plot := range plots(report) {
		if err := os.WriteFile(filepath.Join(folder, name), []byte(plot), 0o644); err != nil {
			return fmt.Errorf("write the page: %w", err)
		}
	}
	return os.WriteFile(path, []byte(markdown(report, filepath.Base(folder))), 0o644)
}

// plots are the drawings by file name: bars for each measure, or a line for each subject of a curve.
func plots(report result.Report) map[string]string {
	drawn := map[string]string{}
	for _, m := range report.Measures {
		switch {
		case len(m.Metrics) == 0:
		case m.Curve != "":
			drawn[m.Curve+".svg"] = lines(curve(report, m.Curve))
		default:
			drawn[m.ID+".svg"] = bars(m)
		}
	}
	return drawn
}

func curve(report result.Report, name string) (points []result.Measure) {
	for _, m := range report.Measures {
		if m.Curve == name {
			points = append(points, m)
		}
	}
	slices.SortFunc(points, func(a, b result.Measure) int { return int(math.Copysign(1, a.X-b.X)) })
	return points
}

const preamble = `<!-- Written by test/bench from performance.json: do not edit; run make bench. -->

# Performance

How long the locks of Lockstead take beside other libraries and beside the bare protocol. ` + "`make bench`" + ` measures it again, with real servers on one
machine, and writes this page; the figures of every round are in [performance.json](performance.json).

All subjects of a measure run in one process, or in the same number of processes, against one server, one after the other in every round, in an order
that moves on by one from round to round. A figure is the median of the rounds, with the quartiles of the rounds in brackets. A ratio is taken within each
round, and is the median of those: what disturbs the machine for a while stands on both sides of it. Compare ratios; microseconds are those of one machine.

`

func markdown(report result.Report, folder string) string {
	var b strings.Builder
	b.WriteString(preamble)
	about(&b, report)
	if report.Quick {
		b.WriteString("**A quick run: it shows that the benchmark works, and no figure of it means anything.**\n\n")
	}
	verdicts(&b, report)
	seen := map[string]bool{}
	for _, m := range report.Measures {
		if m.Curve == "" {
			section(&b, m, folder)
		} else if !seen[m.Curve] {
			seen[m.Curve] = true
			curveSection(&b, curve(report, m.Curve), folder)
		}
	}
	return strings.TrimRight(b.String(), "\n") + "\n"
}

func about(b *strings.Builder, report result.Report) {
	m := report.Machine
	fmt.Fprintf(b, "Measured on %s: %d cores (%s), Linux %s, %s", m.Day, m.Cores, m.CPU, m.Kernel, m.Go)
	for _, name := range slices.Sorted(mapsKeys(m.Servers)) {
		fmt.Fprintf(b, ", %s %s", name, m.Servers[name])
	}
	highest := 0.0
	for _, measure := range report.Measures {
		highest = max(highest, measure.Load)
	}
	fmt.Fprintf(b, ". The machine was shared with other work: its load was up to %.1f.\n\n", highest)
}

func mapsKeys(m map[string]string) func(func(string) bool) {
	return func(yield func(string) bool) {
		for k := range m {
			if !yield(k) {
				return
			}
		}
	}
}

// verdicts is the table of the figures to reach.
func verdicts(b *strings.Builder, report result.Report) {
	b.WriteString("## What was to reach\n\n| measure | figure | to reach | measured | |\n| --- | --- | --- | --- | --- |\n")
	var missed []string
	for _, m := range report.Measures {
		for _, t := range m.Targets {
			v, ok := m.Judge(t)
			if !ok {
				continue
			}
			verdict := "reached"
			if !v.Reached {
				verdict = "**missed**"
				if t.Why != "" {
					missed = append(missed, fmt.Sprintf("- %s: %s.", m.Title, t.Why))
				}
			}
			fmt.Fprintf(b, "| %s | %s of %s | %s | %s | %s |\n", m.Title, t.Metric, t.Subject, goal(m, t), measured(m, t, v), verdict)
		}
	}
	b.WriteString("\n")
	if len(missed) > 0 {
		b.WriteString("Why a figure was missed:\n\n" + strings.Join(distinct(missed), "\n") + "\n\n")
	}
}

// distinct leaves out what was said before.
func distinct(lines []string) (kept []string) {
	for _, line := range lines {
		if !slices.Contains(kept, line) {
			kept = append(kept, line)
		}
	}
	return kept
}

func goal(m result.Measure, t result.Target) string {
	sign := "≤"
	if t.AtLeast {
		sign = "≥"
	}
	switch t.Than {
	case "":
		return fmt.Sprintf("%s %s", sign, quantity(t.Limit, unit(m, t.Metric)))
	case result.Peers:
		return fmt.Sprintf("%s %s × each peer", sign, number(t.Limit))
	default:
		return fmt.Sprintf("%s %s × %s", sign, number(t.Limit), t.Than)
	}
}

func measured(m result.Measure, t result.Target, v result.Verdict) string {
	if t.Than == "" {
		return quantity(v.Value.Median, unit(m, t.Metric))
	}
	return fmt.Sprintf("%.2f × %s (%.2f–%.2f)", v.Value.Median, v.Than, v.Value.Low, v.Value.High)
}

func unit(m result.Measure, metric string) string {
	for _, known := range m.Metrics {
		if known.Name == metric {
			return known.Unit
		}
	}
	return ""
}

func section(b *strings.Builder, m result.Measure, folder string) {
	fmt.Fprintf(b, "## %s\n\n%s\n\n", m.Title, m.Text)
	b.WriteString("| |")
	for _, metric := range m.Metrics {
		b.WriteString(" " + metric.Name + " |")
	}
	compared := m.Baseline != "" && len(m.Metrics) > 0
	if compared {
		fmt.Fprintf(b, " %s / %s |", m.Metrics[0].Name, m.Baseline)
	}
	b.WriteString("\n| --- |" + strings.Repeat(" --- |", len(m.Metrics)))
	if compared {
		b.WriteString(" --- |")
	}
	b.WriteString("\n")
	for _, s := range m.Series {
		fmt.Fprintf(b, "| %s |", s.Subject)
		for _, metric := range m.Metrics {
			b.WriteString(" " + cell(m, s.Subject, metric) + " |")
		}
		if compared {
			ratio, ok := m.Ratio(s.Subject, m.Baseline, m.Metrics[0].Name)
			if ok && s.Subject != m.Baseline {
				fmt.Fprintf(b, " %.2f (%.2f–%.2f) |", ratio.Median, ratio.Low, ratio.High)
			} else {
				b.WriteString(" |")
			}
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(b, "\n![%s](%s/%s.svg)\n\n", m.Title, folder, m.ID)
}

func cell(m result.Measure, subject string, metric result.Metric) string {
	s, ok := m.Summary(subject, metric.Name)
	if !ok {
		return ""
	}
	text := quantity(s.Median, metric.Unit)
	if low, high := number(s.Low), number(s.High); low != high {
		text += fmt.Sprintf(" (%s–%s)", low, high)
	}
	return text
}

func curveSection(b *strings.Builder, points []result.Measure, folder string) {
	first := points[0]
	fmt.Fprintf(b, "## %s\n\n%s\n\n| %s |", first.Title, first.Text, first.XLabel)
	for _, s := range first.Series {
		b.WriteString(" " + s.Subject + " |")
	}
	b.WriteString("\n| --- |" + strings.Repeat(" --- |", len(first.Series)) + "\n")
	for _, p := range points {
		fmt.Fprintf(b, "| %s |", number(p.X))
		for _, s := range first.Series {
			b.WriteString(" " + cell(p, s.Subject, first.Metrics[0]) + " |")
		}
		b.WriteString("\n")
	}
	fmt.Fprintf(b, "\n![%s](%s/%s.svg)\n\n", first.Title, folder, first.Curve)
}

func quantity(v float64, unit string) string {
	return strings.TrimSpace(number(v) + " " + unit)
}

// number has three digits that count.
func number(v float64) string {
	switch magnitude := math.Abs(v); {
	case math.IsNaN(v):
		return "–"
	case magnitude >= 100 || v == math.Trunc(v):
		return fmt.Sprintf("%.0f", v)
	case magnitude >= 10:
		return fmt.Sprintf("%.1f", v)
	default:
		return fmt.Sprintf("%.2f", v)
	}
}
