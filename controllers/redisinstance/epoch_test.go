// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance

import (
	"testing"
	"time"
)

func TestDecide(t *testing.T) {
	t.Parallel()
	now := time.Unix(1_800_000_000, 500)
	past, future := time.Unix(1_799_999_000, 0), now.Add(time.Minute).Truncate(time.Second)
	const hour = time.Hour
	end := time.Unix(1_800_003_602, 0)
	for name, tc := range map[string]struct {
		memory    memory
		found     found
		wantGrant bool
		wantEpoch uint64
		wantUntil time.Time
		wantLost  bool
	}{
		"a new server": {
			memory{longestTTL: hour}, found{runID: "a", selfArm: true}, true, 1_800_000_000, time.Time{}, false,
		},
		"a new server that keeps little": {
			memory{longestTTL: hour}, found{runID: "a"}, true, 1_800_000_000, time.Time{}, false,
		},
		"a new object for a durable server": {
			memory{longestTTL: hour}, found{epoch: 1_900_000_000, highest: 1_900_000_007, runID: "a", selfArm: true}, true, 1_900_000_008, time.Time{}, false,
		},
		"a new object for a server that keeps little and may have restarted": {
			memory{longestTTL: hour}, found{epoch: 7, highest: 7, runID: "a"}, false, 1_800_000_000, end, true,
		},
		"a new object for a server that has not restarted": {
			memory{longestTTL: hour}, found{epoch: 7, highest: 7, armed: 7, runID: "a"}, true, 1_800_000_000, time.Time{}, false,
		},
		"status and data are lost": {
			memory{longestTTL: hour}, found{runID: "a", selfArm: true, bound: true}, false, 1_800_000_000, end, true,
		},
		"all is as it was": {
			memory{epoch: 7, runID: "a", longestTTL: hour}, found{epoch: 7, highest: 7, runID: "a"}, true, 7, time.Time{}, false,
		},
		"a durable server restarted": {
			memory{epoch: 7, durable: true, runID: "a", longestTTL: hour}, found{epoch: 7, highest: 7, runID: "b", selfArm: true}, true, 7, time.Time{}, false,
		},
		"a server restarted that did not keep everything at the last look": {
			memory{epoch: 7, runID: "a", longestTTL: hour}, found{epoch: 7, highest: 7, runID: "b", selfArm: true}, false, 1_800_000_000, end, true,
		},
		"a server that keeps little restarted": {
			memory{epoch: 7, runID: "a", longestTTL: hour}, found{epoch: 7, highest: 7, runID: "b"}, false, 1_800_000_000, end, true,
		},
		"the library was reloaded in the same run": {
			memory{epoch: 7, runID: "a", longestTTL: hour}, found{epoch: 7, highest: 7, runID: "a", armed: 0}, true, 7, time.Time{}, false,
		},
		"the data are gone": {
			memory{epoch: 7, runID: "a", longestTTL: hour}, found{runID: "b", selfArm: true}, false, 1_800_000_000, end, true,
		},
		"the data were flushed in the same run": {
			memory{epoch: 7, runID: "a", longestTTL: hour}, found{runID: "a", armed: 7, selfArm: true}, false, 1_800_000_000, end, true,
		},
		"older data were restored": {
			memory{epoch: 7, runID: "a", longestTTL: hour}, found{epoch: 6, highest: 6, runID: "b", selfArm: true}, false, 1_800_000_000, end, true,
		},
		"the clock was set back": {
			memory{epoch: 1_900_000_000, runID: "a", longestTTL: hour}, found{runID: "b", selfArm: true}, false, 1_900_000_001, end, true,
		},
		"the record of a LockNamespace is gone": {
			memory{epoch: 7, runID: "a", longestTTL: hour}, found{epoch: 7, highest: 7, runID: "a", selfArm: true, incomplete: true}, false, 1_800_000_000, end, true,
		},
		"the quarantine lasts": {
			memory{epoch: 9, runID: "a", quarantineUntil: future, remaining: time.Minute, longestTTL: hour}, found{highest: 9, runID: "a", selfArm: true}, false, 9, future, false,
		},
		"another RedisInstance of the server waited for less": {
			memory{epoch: 9, runID: "a", quarantineUntil: future, remaining: time.Minute, longestTTL: hour}, found{epoch: 12, highest: 12, runID: "a", selfArm: true}, false, 9, future, false,
		},
		"the epoch of a LockNamespace was raised by hand": {
			memory{epoch: 7, runID: "a", longestTTL: hour}, found{epoch: 7, highest: 8, runID: "a", selfArm: true}, true, 8, time.Time{}, false,
		},
		"the wall clock jumped over the end of the quarantine": {
			memory{epoch: 9, runID: "a", quarantineUntil: past, remaining: time.Minute, longestTTL: hour}, found{highest: 9, runID: "a", selfArm: true}, false, 9,
			time.Unix(1_800_000_061, 0), false,
		},
		"the wall clock was set back during the quarantine": {
			memory{epoch: 9, runID: "a", quarantineUntil: end, longestTTL: hour}, found{highest: 9, runID: "a", selfArm: true}, true, 9, time.Time{}, false,
		},
		"the quarantine is over": {
			memory{epoch: 9, runID: "a", quarantineUntil: past, longestTTL: hour}, found{highest: 9, runID: "a", selfArm: true}, true, 9, time.Time{}, false,
		},
		"the server restarted during the quarantine": {
			memory{epoch: 9, runID: "a", quarantineUntil: past, longestTTL: hour}, found{runID: "b", selfArm: true}, false, 1_800_000_000, end, true,
		},
		"the operator died after it ended the quarantine": {
			memory{epoch: 9, durable: true, runID: "a", quarantineUntil: past, longestTTL: hour}, found{epoch: 9, highest: 9, runID: "b", selfArm: true}, true, 9, time.Time{}, false,
		},
		"the operator died after that, and a server that keeps little restarted": {
			memory{epoch: 9, runID: "a", quarantineUntil: past, longestTTL: hour}, found{epoch: 9, highest: 9, runID: "b"}, false, 1_800_000_000, end, true,
		},
		"another operator raised the epoch": {
			memory{epoch: 7, runID: "a", longestTTL: hour}, found{epoch: 8, highest: 8, runID: "a", selfArm: true}, true, 8, time.Time{}, false,
		},
	} {
		got := decide(tc.memory, tc.found, now)
		if got.grant != tc.wantGrant || got.epoch != tc.wantEpoch || !got.quarantineUntil.Equal(tc.wantUntil) || (got.lost != "") != tc.wantLost {
			t.Errorf("%s: decided %+v", name, got)
		}
		if !got.quarantineUntil.IsZero() && tc.wantLost && got.quarantineUntil.Before(now.Add(tc.memory.longestTTL)) {
			t.Errorf("%s: the quarantine is shorter than the longest TTL", name)
		}
	}
}
