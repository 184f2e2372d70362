// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package cronlock

import (
	"testing"
	"time"

	"github.com/robfig/cron/v3"
)

func TestDue(t *testing.T) {
	t.Parallel()
	berlin := time.FixedZone("Berlin", 3600)
	parser := cron.NewParser(cron.Second | cron.Minute | cron.Hour | cron.Dom | cron.Month | cron.Dow)
	for name, tc := range map[string]struct {
		spec string
		now  time.Time
		want time.Time
	}{
		"at the time":        {"0 0 3 * * *", time.Date(2026, 5, 4, 3, 0, 0, 0, time.UTC), time.Date(2026, 5, 4, 3, 0, 0, 0, time.UTC)},
		"a moment later":     {"0 0 3 * * *", time.Date(2026, 5, 4, 3, 0, 0, 7, time.UTC), time.Date(2026, 5, 4, 3, 0, 0, 0, time.UTC)},
		"a moment before":    {"0 0 3 * * *", time.Date(2026, 5, 4, 2, 59, 59, 999, time.UTC), time.Date(2026, 5, 3, 3, 0, 0, 0, time.UTC)},
		"in another zone":    {"0 0 3 * * *", time.Date(2026, 5, 4, 3, 0, 1, 0, berlin), time.Date(2026, 5, 4, 2, 0, 0, 0, time.UTC)},
		"every second":       {"* * * * * *", time.Date(2026, 5, 4, 3, 0, 1, 5, time.UTC), time.Date(2026, 5, 4, 3, 0, 1, 0, time.UTC)},
		"days of minutes":    {"0 * * 3 * *", time.Date(2026, 5, 9, 1, 0, 0, 0, time.UTC), time.Date(2026, 5, 3, 23, 59, 0, 0, time.UTC)},
		"once in four years": {"0 0 0 29 2 *", time.Date(2026, 5, 4, 0, 0, 0, 0, time.UTC), time.Date(2024, 2, 29, 0, 0, 0, 0, time.UTC)},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			schedule, err := parser.Parse(tc.spec)
			if err != nil {
				t.Fatal(err)
			}
			if got := due(schedule, tc.now); !got.Equal(tc.want) {
				t.Errorf("due at %s: %s, want %s", tc.now, got, tc.want)
			}
		})
	}
}
