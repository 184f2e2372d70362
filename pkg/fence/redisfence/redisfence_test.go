// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisfence_test

import (
	"errors"
	"math"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/lockstead/lockstead/pkg/fence"
	"github.com/lockstead/lockstead/pkg/fence/redisfence"
	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(redistest.PerServer(m)) }

var keys = redisfence.Keys{Data: "report:{42}", Fence: "report:{42}:fence"}

func TestAStaleHolderCannotOverwriteALaterOne(t *testing.T) {
	client := redistest.Start(t, nil).Admin(t)
	growing := []lock.Token{
		{Sequence: 1}, {Sequence: 9}, {Sequence: 10}, {Sequence: math.MaxUint64}, {Epoch: 9}, {Epoch: 10}, {Epoch: math.MaxUint64, Sequence: math.MaxUint64},
	}
	for i, token := range growing {
		// Twice, since a holder may write more than once.
		for range 2 {
			if err := redisfence.Set(t.Context(), client, keys, token, token.String(), time.Hour); err != nil {
				t.Fatalf("token %s: %v", token, err)
			}
		}
		for _, older := range growing[:i] {
			err := redisfence.Set(t.Context(), client, keys, older, "old", 0)
			if refused, ok := errors.AsType[*fence.StaleError](err); !ok || !errors.Is(err, fence.ErrStale) || refused.Token != older {
				t.Errorf("token %s after %s: %v", older, token, err)
			}
		}
		if got, err := client.Get(t.Context(), keys.Data).Result(); err != nil || got != token.String() {
			t.Errorf("the value is %q, %v, want that of token %s", got, err, token)
		}
	}
	if left := client.PTTL(t.Context(), keys.Data).Val(); left <= 0 || left > time.Hour {
		t.Errorf("the value has %s left, want up to an hour", left)
	}
	if left := client.PTTL(t.Context(), keys.Fence).Val(); left >= 0 {
		t.Errorf("the fence runs out in %s", left)
	}
}

func TestFieldsAreGuardedTogether(t *testing.T) {
	client := redistest.Start(t, nil).Admin(t)
	older, later := lock.Token{Epoch: 1, Sequence: 1}, lock.Token{Epoch: 1, Sequence: 2}
	if err := redisfence.HSet(t.Context(), client, keys, later, "state", "paid", "by", "b"); err != nil {
		t.Fatal(err)
	}
	if err := redisfence.HSet(t.Context(), client, keys, older, "state", "new"); !errors.Is(err, fence.ErrStale) {
		t.Errorf("the stale holder's write: %v", err)
	}
	got, err := client.HGetAll(t.Context(), keys.Data).Result()
	if err != nil || got["state"] != "paid" || got["by"] != "b" {
		t.Errorf("the fields are %v, %v", got, err)
	}
}

func TestWhatIsRefused(t *testing.T) {
	client := redistest.Start(t, nil).Admin(t)
	token := lock.Token{Epoch: 1, Sequence: 1}
	if err := client.Set(t.Context(), "not a token", "7", 0).Err(); err != nil {
		t.Fatal(err)
	}
	for name, err := range map[string]error{
		"the zero token":      redisfence.Set(t.Context(), client, keys, lock.Token{}, "x", 0),
		"one key":             redisfence.Set(t.Context(), client, redisfence.Keys{Data: "a", Fence: "a"}, token, "x", 0),
		"a part of a ms":      redisfence.Set(t.Context(), client, keys, token, "x", time.Microsecond),
		"a field alone":       redisfence.HSet(t.Context(), client, keys, token, "state"),
		"another value there": redisfence.Set(t.Context(), client, redisfence.Keys{Data: "data", Fence: "not a token"}, token, "x", 0),
	} {
		if err == nil || errors.Is(err, fence.ErrStale) {
			t.Errorf("%s: %v, want another refusal", name, err)
		}
	}
	if n := client.Exists(t.Context(), keys.Data, "data").Val(); n != 0 {
		t.Errorf("%d keys were written", n)
	}
}
