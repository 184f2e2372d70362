// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance

import (
	"strings"
	"testing"
	"time"

	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
)

// FuzzBootFile reads what people may have written into the Secret that a managed server boots from. What is taken over from it is the same when it
// is written and read again, and adds no line of its own.
func FuzzBootFile(f *testing.F) {
	hash := redisproto.PasswordHash("x")
	f.Add("user default off ~* &* +@all\nuser lk-0a on " + hash + " ~a +get\n")
	f.Add("user lk-0a on " + hash + "\r\nuser lk-0a on +@all\n")
	f.Add("user lk-0a on #\nuser lockstead-operator on nopass +@all\nuser lk- on\n")
	f.Add("user lk-b on " + hash + " \x00 (~x +@all)")
	f.Fuzz(func(t *testing.T, text string) {
		system := systemUsers("a", "b")
		users := parseBootFile(text)
		written, err := bootFile(system, users)
		if err != nil {
			t.Fatalf("what was read from %q is not written: %v", text, err)
		}
		if lines := strings.Count(written, "\n"); lines != 1+len(system)+len(users) {
			t.Errorf("%d users make a file of %d lines", len(users), lines)
		}
		again, err := bootFile(system, parseBootFile(written))
		if err != nil || again != written {
			t.Errorf("the file is not the same when it is read and written again: %v\n%s\n%s", err, written, again)
		}
		seen := map[string]bool{}
		for _, user := range users {
			if !strings.HasPrefix(user.Name, "lk-") || seen[user.Name] {
				t.Errorf("user %q is taken for a tenant's, or taken twice, which no server boots with", user.Name)
			}
			seen[user.Name] = true
		}
	})
}

// FuzzDecide lets a server and the status of its RedisInstance say anything. The epoch never falls, a loss raises it above all that are known, and
// nothing is granted by a server that may have lost something.
func FuzzDecide(f *testing.F) {
	f.Add(uint64(5), "a", true, int64(0), int64(60), int64(0), uint64(5), uint64(5), uint64(5), "a", byte(7), int64(100))
	f.Add(uint64(5), "a", true, int64(50), int64(60), int64(1), uint64(0), uint64(9), uint64(0), "b", byte(0), int64(100))
	f.Add(uint64(0), "", false, int64(0), int64(60), int64(0), uint64(7), uint64(7), uint64(0), "b", byte(2), int64(100))
	f.Fuzz(func(t *testing.T, epoch uint64, runID string, durable bool, until, longest, remaining int64, record, highest, armed uint64, foundRun string, bits byte, unix int64) {
		const most = 1 << 40 // Far more than there are seconds since 1970; overflows are not of this world.
		epoch, record, highest, armed = epoch%most, record%most, highest%most, armed%most
		at := func(seconds int64) time.Duration { return time.Duration(max(0, seconds%most%1_000_000)) * time.Second }
		now := time.Unix(max(0, unix%most), 0)
		m := memory{epoch: epoch, runID: runID, durable: durable, longestTTL: at(longest), remaining: at(remaining)}
		if until > 0 {
			m.quarantineUntil = now.Add(at(until))
		}
		found := found{
			epoch: record, highest: max(record, highest), armed: armed, runID: foundRun,
			selfArm: bits&1 != 0, bound: bits&2 != 0, incomplete: bits&4 != 0,
		}
		p := decide(m, found, now)
		switch {
		case p.epoch < m.epoch:
			t.Errorf("%+v, %+v: the epoch falls to %d", m, found, p.epoch)
		case p.lost != "" && (p.grant || p.epoch <= max(m.epoch, found.highest)):
			t.Errorf("%+v, %+v: after a loss the plan is %+v", m, found, p)
		case p.grant && p.epoch < found.highest:
			t.Errorf("%+v, %+v: %d is granted, below a record of %d", m, found, p.epoch, found.highest)
		case p.grant && m.epoch > 0 && !m.quarantineUntil.IsZero() && m.remaining > 0: // Both are written together.
			t.Errorf("%+v, %+v: something is granted in a quarantine", m, found)
		case !p.grant && p.quarantineUntil.Before(now):
			t.Errorf("%+v, %+v: a quarantine ends at %s, before it begins", m, found, p.quarantineUntil)
		}
		sameRun := m.runID != "" && m.runID == found.runID
		if p.grant && m.epoch > 0 && !sameRun && !found.selfArm && found.armed == 0 {
			t.Errorf("%+v, %+v: a server that has restarted and may have lost something grants", m, found)
		}
		if p.grant && m.epoch > 0 && m.quarantineUntil.IsZero() && (found.epoch < m.epoch || found.incomplete) {
			t.Errorf("%+v, %+v: a server whose records are old or gone grants", m, found)
		}
	})
}
