// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package idemlint

import (
	"bytes"
	"cmp"
	"encoding/json"
	"fmt"
	"slices"
)

// Route is a line of the inventory: a declared route for POST, PUT or PATCH.
type Route struct {
	// Method is "ANY" for a route that answers every method.
	Method string `json:"method"`
	// Pattern is the path, with the constant paths of the groups around it.
	Pattern string `json:"pattern"`
	// File is where it is registered, with slashes. The command writes it relative to the folder that it runs in.
	File string `json:"file"`
	Intent
}

// SortRoutes orders an inventory, so that it reads the same after every run.
func SortRoutes(routes []Route) {
	slices.SortFunc(routes, func(a, b Route) int {
		return cmp.Or(cmp.Compare(a.Pattern, b.Pattern), cmp.Compare(a.Method, b.Method), cmp.Compare(a.File, b.File),
			cmp.Compare(a.Decision, b.Decision), cmp.Compare(a.Reason, b.Reason), cmp.Compare(a.Retention, b.Retention))
	})
}

// Tolerated is a line of the baseline: findings in old code that do not fail the check. It can only shrink.
type Tolerated struct {
	// File is where, as in Route.
	File string `json:"file"`
	// Category is that of the findings.
	Category string `json:"category"`
	// Subject is the route, or the function around it where the route is not known. Lines are not named, because they move.
	Subject string `json:"subject"`
	// Count is how many such findings are tolerated.
	Count int `json:"count"`
}

// Count turns findings into the lines of a baseline.
func Count(findings []Finding) []Tolerated {
	counts := map[Tolerated]int{}
	for _, f := range findings {
		counts[Tolerated{File: f.Position.Filename, Category: f.Category, Subject: f.Subject}]++
	}
	lines := []Tolerated{}
	for line, count := range counts {
		line.Count = count
		lines = append(lines, line)
	}
	slices.SortFunc(lines, func(a, b Tolerated) int {
		return cmp.Or(cmp.Compare(a.File, b.File), cmp.Compare(a.Subject, b.Subject), cmp.Compare(a.Category, b.Category))
	})
	return lines
}

// Tolerate takes out of the findings what the baseline allows. Shrunk is the baseline as it must be from now on: where it differs, a fault was repaired and
// must not come back.
func Tolerate(findings []Finding, baseline []Tolerated) (left []Finding, shrunk []Tolerated) {
	allowed := map[Tolerated]int{}
	for _, line := range baseline {
		count := line.Count
		line.Count = 0
		allowed[line] += count
	}
	var tolerated []Finding
	for _, f := range findings {
		line := Tolerated{File: f.Position.Filename, Category: f.Category, Subject: f.Subject}
		if allowed[line] == 0 {
			left = append(left, f)
			continue
		}
		allowed[line]--
		tolerated = append(tolerated, f)
	}
	return left, Count(tolerated)
}

// Encode writes an inventory or a baseline, one line an entry, so that a change of one is a change of one line.
func Encode[T any](lines []T) ([]byte, error) {
	var out bytes.Buffer
	out.WriteString("[")
	for i, line := range lines {
		entry := new(bytes.Buffer)
		encoder := json.NewEncoder(entry)
		encoder.SetEscapeHTML(false)
		if err := encoder.Encode(line); err != nil {
			return nil, fmt.Errorf("encode %+v: %w", line, err)
		}
		if i > 0 {
			out.WriteString(",")
		}
		out.WriteString("\n  ")
		out.Write(bytes.TrimSpace(entry.Bytes()))
	}
	out.WriteString("\n]\n")
	return out.Bytes(), nil
}

// Decode reads what Encode wrote, and refuses fields that it does not know.
func Decode[T any](document []byte) (lines []T, err error) {
	decoder := json.NewDecoder(bytes.NewReader(document))
	decoder.DisallowUnknownFields()
	return lines, decoder.Decode(&lines)
}
