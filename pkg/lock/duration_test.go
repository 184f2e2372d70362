// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"errors"
	"testing"
	"time"

	"github.com/lockstead/lockstead/pkg/lock/clock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
)

func TestResolveTTL(t *testing.T) {
	redis := driver.Limits{MinTTL: time.Millisecond, MaxTTL: 24 * time.Hour, Granularity: time.Millisecond}
	lease := driver.Limits{MinTTL: time.Second, MaxTTL: 24 * time.Hour, Granularity: time.Second}
	for name, tc := range map[string]struct {
		ttl    time.Duration
		limits driver.Limits
		want   time.Duration // 0: refused
	}{
		"zero is the default":                  {0, redis, 30 * time.Second},
		"negative":                             {-1, redis, 0},
		"a nanosecond":                         {1, redis, 0},
		"just under the minimum":               {MinTTL - 1, redis, 0},
		"the minimum":                          {MinTTL, redis, MinTTL},
		"a fraction of a millisecond":          {MinTTL + 1, redis, MinTTL + time.Millisecond},
		"900 ms on seconds":                    {900 * time.Millisecond, lease, time.Second},
		"1.9 s on seconds":                     {1900 * time.Millisecond, lease, 2 * time.Second},
		"whole seconds":                        {5 * time.Second, lease, 5 * time.Second},
		"the maximum":                          {time.Hour, lease, time.Hour},
		"above the maximum":                    {time.Hour + 1, lease, 0},
		"a hundred years":                      {100 * 365 * 24 * time.Hour, redis, 0},
		"the greatest duration does not wrap":  {1<<63 - 1, lease, 0},
		"the smallest duration is no default":  {-1 << 63, lease, 0},
		"the minimum of the store, rounded up": {MinTTL, lease, time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := resolveTTL(tc.ttl, 30*time.Second, time.Hour, tc.limits)
			if tc.want == 0 {
				if !errors.Is(err, ErrInvalid) {
					t.Errorf("resolveTTL(%s) = %s, %v; want ErrInvalid", tc.ttl, got, err)
				}
				return
			}
			if err != nil || got != tc.want {
				t.Errorf("resolveTTL(%s) = %s, %v; want %s", tc.ttl, got, err, tc.want)
			}
		})
	}
}

func TestDeadline(t *testing.T) {
	sent := clock.Instant(time.Hour)
	for ttl, want := range map[time.Duration]time.Duration{
		100 * time.Millisecond: 89 * time.Millisecond,  // 1 ms of drift, a guard of a tenth
		time.Second:            940 * time.Millisecond, // 10 ms and the usual 50 ms
		10 * time.Second:       9800 * time.Millisecond,
		time.Hour:              time.Hour - 72*time.Second,
	} {
		if got := clock.Deadline(sent, ttl).Sub(sent); got != want {
			t.Errorf("a TTL of %s ends after %s, want %s", ttl, got, want)
		}
	}
}

func TestOptionsAreRefusedNotClamped(t *testing.T) {
	limits := driver.Limits{MinTTL: time.Second, MaxTTL: 24 * time.Hour, Granularity: time.Second}
	for name, options := range map[string]*Options{
		"negative default":           {DefaultTTL: -1},
		"default above the maximum":  {DefaultTTL: time.Minute, MaxTTL: time.Second},
		"default under the minimum":  {DefaultTTL: time.Millisecond},
		"maximum above the store's":  {MaxTTL: 25 * time.Hour},
		"maximum between the grains": {MaxTTL: 1500 * time.Millisecond},
		"negative poll":              {PollInterval: -1},
		"negative attempt time-out":  {AttemptTimeout: -1},
		"negative release time-out":  {ReleaseTimeout: -1},
		"too long an owner":          {Owner: string(make([]byte, maxOwnerBytes+1))},
	} {
		if _, err := options.resolve(limits, true); !errors.Is(err, ErrInvalid) {
			t.Errorf("%s: error is %v, want ErrInvalid", name, err)
		}
	}
	got, err := (*Options)(nil).resolve(limits, true)
	if err != nil {
		t.Fatal(err)
	}
	if got.DefaultTTL != 30*time.Second || got.MaxTTL != time.Hour || got.PollInterval != 5*time.Second || got.Owner == "" {
		t.Errorf("defaults are %+v", got)
	}
	got, err = (&Options{MaxTTL: 10 * time.Second}).resolve(limits, false)
	if err != nil {
		t.Fatal(err)
	}
	if got.DefaultTTL != 10*time.Second || got.PollInterval != 250*time.Millisecond {
		t.Errorf("defaults under a maximum of 10 s are %+v", got)
	}
}
