// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package recordproto_test

import (
	"strings"
	"testing"

	"github.com/lockstead/lockstead/pkg/idempotency/redisstore/recordproto"
)

func FuzzParseLimits(f *testing.F) {
	for _, seed := range []string{"65536 33554432", "0 0", "1", "1 2 3", "-1 5", "1  2", "9223372036854775807 9223372036854775808"} {
		f.Add(seed)
	}
	f.Fuzz(func(t *testing.T, value string) {
		limits, err := recordproto.ParseLimits(value)
		if err != nil {
			return
		}
		if again, err := recordproto.ParseLimits(limits.String()); err != nil || again != limits || limits.Share < 0 || limits.MaxResponse < 0 {
			t.Errorf("%q was read as %+v, and that as %+v, %v", value, limits, again, err)
		}
	})
}

func TestRulesAreOfOneLockNamespace(t *testing.T) {
	const prefix = "lk:{payments/billing}:"
	for _, rule := range recordproto.TenantRules("lk", prefix) {
		pattern, isKey := strings.CutPrefix(rule, "%")
		if isKey && (strings.ContainsAny(pattern, "*?[") || !strings.Contains(pattern, "~"+prefix) && pattern != "R~lk:!records") {
			t.Errorf("rule %s reaches more than the keys of %s", rule, prefix)
		}
	}
}
