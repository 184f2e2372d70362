// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisproto_test

import (
	"strings"
	"testing"
	"time"

	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
)

func TestNextEpoch(t *testing.T) {
	for name, tc := range map[string]struct {
		server, status uint64
		now            int64
		want           uint64
	}{
		"first":                        {0, 0, 1000, 1000},
		"the server is ahead":          {5000, 10, 1000, 5001},
		"the status is ahead":          {10, 5000, 1000, 5001},
		"both are lost":                {0, 0, 6000, 6000},
		"twice within a second":        {1000, 1000, 1000, 1001},
		"a clock before 1970":          {0, 7, -5, 8},
		"a clock that was set back":    {2000, 2000, 1000, 2001},
		"a clock that stands at zero":  {0, 0, 0, 1},
		"the object was made anew, so": {3000, 0, 2000, 3001},
	} {
		if got := redisproto.NextEpoch(tc.server, tc.status, tc.now); got != tc.want {
			t.Errorf("%s: NextEpoch = %d, want %d", name, got, tc.want)
		}
	}
}

func FuzzParseEpoch(f *testing.F) {
	f.Add("1764550000 3600000 1")
	f.Add("1 0 0")
	f.Add("1 9223372036854775807 0")
	f.Add("1  0")
	f.Fuzz(func(t *testing.T, value string) {
		epoch, err := redisproto.ParseEpoch(value)
		if err != nil {
			return
		}
		again, err := redisproto.ParseEpoch(epoch.String())
		if err != nil || again != epoch || epoch.MaxTTL < 0 {
			t.Errorf("%q was read as %+v, and that as %+v, %v", value, epoch, again, err)
		}
	})
}

func FuzzParseRecord(f *testing.F) {
	id := strings.Repeat("a", 32)
	f.Add(id + " 7-1 me and spaces")
	f.Add(id + " 7-1 ")
	f.Add(id + " 7-1")
	f.Add(strings.Repeat("a", 33) + " 7-1 me")
	f.Fuzz(func(t *testing.T, value string) {
		record, err := redisproto.ParseRecord(value)
		if err == nil && (len(record.ID) != 32 || !strings.HasPrefix(value, record.ID+" ") || !strings.HasSuffix(value, " "+record.Owner)) {
			t.Errorf("%q was read as %+v", value, record)
		}
	})
}

func TestEpochRecordText(t *testing.T) {
	epoch := redisproto.Epoch{Number: 1764550000, MaxTTL: time.Hour, SelfArm: true}
	if got, want := epoch.String(), "1764550000 3600000 1"; got != want {
		t.Errorf("epoch record is %q, want %q", got, want)
	}
}

func TestACLFile(t *testing.T) {
	prefix := redisproto.Prefix("lk", "payments/billing")
	file, err := redisproto.ACLFile([]redisproto.User{{
		Name:           "lk-1f3a9c0b77de",
		PasswordHashes: []string{redisproto.PasswordHash("secret")},
		Rules:          redisproto.TenantRules(prefix, binding.AccessFunctions),
	}})
	if err != nil {
		t.Fatal(err)
	}
	lines := strings.Split(strings.TrimSpace(file), "\n")
	if len(lines) != 2 || lines[0] != "user default off ~* &* +@all" {
		t.Fatalf("file is %q", file)
	}
	for _, want := range []string{"user lk-1f3a9c0b77de on #", "%RW~lk:{payments/billing}:lock:*", "%R~lk:{payments/billing}:!epoch", "&lk:{payments/billing}:free:*", "-@all", "+fcall"} {
		if !strings.Contains(lines[1], want) {
			t.Errorf("line %q does not contain %q", lines[1], want)
		}
	}
	for _, not := range []string{"secret", "eval", "tracking", "allkeys", "~*"} {
		if strings.Contains(lines[1], not) {
			t.Errorf("line %q contains %q", lines[1], not)
		}
	}
}

func TestWordsThatWouldBreakTheACLFileAreRefused(t *testing.T) {
	hash := redisproto.PasswordHash("x")
	for name, user := range map[string]redisproto.User{
		"line break in the name":   {Name: "a\nuser b on nopass ~* +@all"},
		"space in the name":        {Name: "a b"},
		"the default user":         {Name: "default"},
		"empty name":               {Name: ""},
		"space in a rule":          {Name: "a", Rules: []string{"+get +@all"}},
		"line break in a rule":     {Name: "a", Rules: []string{"~x\nuser"}},
		"empty rule":               {Name: "a", Rules: []string{""}},
		"a password that is plain": {Name: "a", PasswordHashes: []string{">x"}},
		"no password":              {Name: "a", PasswordHashes: []string{hash, "nopass"}},
	} {
		if file, err := redisproto.ACLFile([]redisproto.User{user}); err == nil {
			t.Errorf("%s: was accepted as %q", name, file)
		}
		if args, err := user.SetUserArgs(); err == nil {
			t.Errorf("%s: was accepted as %q", name, args)
		}
	}
}

func TestKeys(t *testing.T) {
	prefix := redisproto.Prefix("lk", "payments/billing")
	for _, tc := range [][2]string{
		{redisproto.LockKey(prefix, "a:b"), "lk:{payments/billing}:lock:a:b"},
		{redisproto.Channel(prefix, "a:b"), "lk:{payments/billing}:free:a:b"},
		{redisproto.SequenceKey(prefix), "lk:{payments/billing}:!seq"},
		{redisproto.EpochKey(prefix), "lk:{payments/billing}:!epoch"},
		{redisproto.ArmKey(prefix), "lk:!arm{payments/billing}"},
	} {
		if tc[0] != tc[1] {
			t.Errorf("got %q, want %q", tc[0], tc[1])
		}
	}
}

func TestLockRecordText(t *testing.T) {
	const id = "0123456789abcdef0123456789abcdef"
	since := time.UnixMilli(1764685000123).UTC()
	for name, tc := range map[string]struct {
		value string
		owner string
		since time.Time
	}{
		"of this version":             {id + " 5-7 pod-1 @1764685000123", "pod-1", since},
		"without an owner":            {id + " 5-7  @1764685000123", "", since},
		"an owner that looks like it": {id + " 5-7 pod @1111111111111 @1764685000123", "pod @1111111111111", since},
		"of an older version":         {id + " 5-7 pod-1", "pod-1", time.Time{}},
		"an address as the owner":     {id + " 5-7 me @42", "me @42", time.Time{}},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := redisproto.ParseRecord(tc.value)
			if err != nil {
				t.Fatal(err)
			}
			want := redisproto.Record{ID: id, Token: driver.Token{Epoch: 5, Sequence: 7}, Owner: tc.owner, Since: tc.since}
			if got != want {
				t.Errorf("record is %+v, want %+v", got, want)
			}
		})
	}
}
