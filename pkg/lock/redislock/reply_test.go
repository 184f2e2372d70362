// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"math"
	"strings"
	"testing"
	"time"
)

const fuzzRecord = "0123456789abcdef0123456789abcdef 1764550000-7 pod-1/test/pid 7"

// value makes one of the things that a reply can consist of.
func value(kind byte, number int64, text string) any {
	switch kind % 7 {
	case 0:
		return number
	case 1:
		return text
	case 2:
		return []any{number, text}
	case 3:
		return []any{}
	case 4:
		return float64(number)
	case 5:
		return map[any]any{text: number}
	default:
		return nil
	}
}

func FuzzReplies(f *testing.F) {
	f.Add(byte(3), byte(0), int64(1), "", byte(1), int64(0), "1764550000", byte(0), int64(7), "")
	f.Add(byte(3), byte(0), int64(0), "", byte(0), int64(29000), "", byte(1), int64(0), fuzzRecord)
	f.Add(byte(3), byte(0), int64(0), "", byte(0), int64(math.MaxInt64), "", byte(1), int64(0), fuzzRecord)
	f.Add(byte(2), byte(0), int64(29000), "", byte(1), int64(0), fuzzRecord, byte(0), int64(0), "")
	f.Add(byte(0), byte(0), int64(0), "", byte(0), int64(0), "", byte(0), int64(0), "")
	f.Add(byte(9), byte(0), int64(1), "", byte(0), int64(0), "", byte(0), int64(0), "")
	f.Fuzz(func(t *testing.T, parts, k1 byte, n1 int64, s1 string, k2 byte, n2 int64, s2 string, k3 byte, n3 int64, s3 string) {
		all := []any{value(k1, n1, s1), value(k2, n2, s2), value(k3, n3, s3), "more"}
		reply := all[0]
		if int(parts) <= len(all) {
			reply = all[:parts]
		}
		checkAcquire(t, reply)
		if got, err := decodePass(reply); err == nil && got.granted && len(reply.([]any)) != 3 {
			t.Errorf("%v was read as a grant by a pass", reply)
		}
		checkInspect(t, reply)
		held, err := decodeHeld(reply)
		if want := reply == any(int64(1)); held != want || (err == nil) != (want || reply == any(int64(0))) {
			t.Errorf("%v was read as %t, %v", reply, held, err)
		}
	})
}

func checkAcquire(t *testing.T, reply any) {
	t.Helper()
	got, err := decodeAcquire(reply)
	switch {
	case err != nil:
		if got.granted {
			t.Errorf("%v was read as granted, with the error %v", reply, err)
		}
	case got.granted:
		if got.token.Sequence < 1 || reply.([]any)[0] != any(int64(1)) {
			t.Errorf("%v was read as the grant of %s", reply, got.token)
		}
	default:
		if len(got.holder.ID) != 32 || got.remaining < time.Millisecond {
			t.Errorf("%v was read as held by %+v for %s", reply, got.holder, got.remaining)
		}
	}
}

func checkInspect(t *testing.T, reply any) {
	t.Helper()
	got, err := decodeInspect(reply)
	if err != nil {
		return
	}
	parts := reply.([]any)
	if got.Held != (len(parts) == 2) || (got.Held && (got.Remaining < time.Millisecond || !strings.HasPrefix(parts[1].(string), got.ID+" "))) {
		t.Errorf("%v was read as %+v", reply, got)
	}
}
