// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/lockstead/lockstead/internal/testcluster"
)

func TestResultLine(t *testing.T) {
	t.Parallel()
	line := result{backend: "redis", sections: 41, takeOver: 4240 * time.Millisecond}.String()
	if want := "demo ok: backend=redis replicas=3 sections=41 overlaps=0 takeover=4.2s"; line != want {
		t.Errorf("line %q, want %q", line, want)
	}
}

func TestView(t *testing.T) {
	t.Parallel()
	v := view{backend: "lease", View: testcluster.View{Pods: 3, Sections: 7, Rows: []testcluster.Row{
		{Key: "order-1", Pod: "worker-a", Token: "1.2", Held: 1200 * time.Millisecond},
		{Key: "order-2", Pod: "worker-b", Token: "1.9", Held: 6 * time.Second, Dead: true},
	}}}
	if line := v.line(); !strings.Contains(line, "order-1: worker-a  order-2: worker-b (dead)") || strings.Contains(line, "\n") {
		t.Errorf("line: %q", line)
	}
	table := v.table()
	for _, want := range []string{`order-1 +worker-a +1\.2 +1\.2s\n`, `order-2 .* 6\.0s +the holder is dead`} {
		if !regexp.MustCompile(want).MatchString(table) {
			t.Errorf("the table does not match %q:\n%s", want, table)
		}
	}
}
