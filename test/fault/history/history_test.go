// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package history_test

import (
	"os"
	"path/filepath"
	"testing"
	"time"

	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/test/fault/history"
)

// What a killed process has written is read up to the last whole line, and what it had asked stays open.
func TestAKilledProcessLeavesAnOpenRequest(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "c1.jsonl")
	file, err := os.Create(path)
	if err != nil {
		t.Fatal(err)
	}
	out := history.NewWriter(file)
	out.Call(history.Record{Op: history.Acquire, Key: "k", ID: "a", TTL: time.Second})(history.OK, driver.Token{Epoch: 1, Sequence: 7}, "")
	out.Call(history.Record{Op: history.Renew, Key: "k", ID: "a", TTL: time.Second})
	if _, err := file.WriteString(`{"kind":"retu`); err != nil || out.Err() != nil || file.Close() != nil {
		t.Fatal(err, out.Err())
	}
	records, err := history.ReadFile(path)
	if err != nil || len(records) != 3 {
		t.Fatalf("read %d records, %v; want 3", len(records), err)
	}
	ended := history.Now()
	all := history.Assemble([]history.Process{{Name: "c1", Records: records, Ended: ended}}, nil, time.Second)
	if len(all) != 1 || len(all[0].Ops) != 2 {
		t.Fatalf("assembled %+v", all)
	}
	grant, open := all[0].Ops[0], all[0].Ops[1]
	if grant.Status != history.OK || grant.Token.Sequence != 7 || grant.Return < grant.Call {
		t.Errorf("the grant is %+v", grant)
	}
	if open.Status != history.Unknown || open.Return != ended+int64(time.Second) {
		t.Errorf("the open request is %+v, want that it may be applied until %d", open, ended+int64(time.Second))
	}
}

// What was given up during a fault may be applied until the fault is over.
func TestUnknownRequestsEndWithTheFault(t *testing.T) {
	t.Parallel()
	records := []history.Record{
		{Kind: history.Call, N: 1, Op: history.Acquire, Key: "k", ID: "a", At: 100},
		{Kind: history.Return, N: 1, Status: history.Unknown, At: 200},
	}
	faults := []history.Fault{{From: 150, Until: 900}, {From: 300, Until: 2000}}
	all := history.Assemble([]history.Process{{Records: records, Ended: 5000}}, faults, 10)
	if got := all[0].Ops[0].Return; got != 910 {
		t.Errorf("the request may be applied until %d, want 910", got)
	}
}

func TestBeliefs(t *testing.T) {
	t.Parallel()
	hold := func(at, until int64) history.Record {
		return history.Record{Kind: history.Hold, Key: "k", ID: "a", At: at, Until: until}
	}
	end := func(at int64, how history.Status) history.Record {
		return history.Record{Kind: history.End, Key: "k", ID: "a", At: at, Status: how}
	}
	for name, tc := range map[string]struct {
		records []history.Record
		until   int64
		how     history.Status
	}{
		"forgotten":                        {[]history.Record{hold(10, 100)}, 100, history.Abandoned},
		"renewed":                          {[]history.Record{hold(10, 100), hold(60, 160)}, 160, history.Abandoned},
		"released":                         {[]history.Record{hold(10, 100), end(50, history.Released)}, 50, history.Released},
		"lost, and then released":          {[]history.Record{hold(10, 100), end(50, history.Lost), end(90, history.Released)}, 50, history.Lost},
		"stopped until after its deadline": {[]history.Record{hold(10, 100), hold(500, 500), end(501, history.Released)}, 100, history.Released},
		"over with its process":            {[]history.Record{hold(10, 9000)}, 1000, history.Abandoned},
	} {
		all := history.Assemble([]history.Process{{Records: tc.records, Ended: 1000}}, nil, 0)
		if len(all) != 1 || len(all[0].Beliefs) != 1 {
			t.Fatalf("%s: assembled %+v", name, all)
		}
		if b := all[0].Beliefs[0]; b.From != 10 || b.Until != tc.until || b.How != tc.how {
			t.Errorf("%s: %+v, want an end at %d, %s", name, b, tc.until, tc.how)
		}
	}
}
