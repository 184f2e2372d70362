// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package leaselock

import (
	"errors"
	"strconv"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"

	"github.com/lockstead/lockstead/pkg/lock/clock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lockstead/leaselock/leaseformat"
)

var (
	testKey  = driver.Key{Prefix: "lk:{a/b}:", Name: "k"}
	testName = leaseformat.Name(testKey.Prefix, testKey.Name)
)

func testLease(t *testing.T, id string, uid types.UID, version string, ttl time.Duration) *coordinationv1.Lease {
	t.Helper()
	lease, err := leaseformat.Create("a", leaseformat.Acquisition{Prefix: testKey.Prefix, Key: testKey.Name, ID: id, Duration: ttl})
	if err != nil {
		t.Fatal(err)
	}
	lease.UID, lease.ResourceVersion = uid, version
	return lease
}

func begin(o *owners, id string, ttl time.Duration, now clock.Instant) (lost *[]error) {
	lost = new([]error)
	o.begin(driver.AcquireRequest{Key: testKey, ID: id, TTL: ttl, OnLost: func(err error) { *lost = append(*lost, err) }}, testName, now)
	return lost
}

func TestWatchIsJudgedByVersionIdentityAndDuration(t *testing.T) {
	const minute = time.Minute
	for name, tc := range map[string]struct {
		sighting sighting
		wantLost bool
	}{
		"our own write":                      {sighting{"20", testLease(t, "me", "u", "20", minute)}, false},
		"an older version of somebody else":  {sighting{"15", testLease(t, "other", "u", "15", minute)}, false},
		"an older deletion":                  {sighting{"19", nil}, false},
		"a stranger's annotation":            {sighting{"21", testLease(t, "me", "u", "21", minute)}, false},
		"a longer duration":                  {sighting{"21", testLease(t, "me", "u", "21", 2*minute)}, false},
		"a shorter duration":                 {sighting{"21", testLease(t, "me", "u", "21", minute-time.Second)}, true},
		"a deletion":                         {sighting{"21", nil}, true},
		"somebody else's acquisition":        {sighting{"21", testLease(t, "other", "u", "21", minute)}, true},
		"our id in an object made anew":      {sighting{"22", testLease(t, "me", "v", "22", minute)}, true},
		"an older object of the same name":   {sighting{"12", testLease(t, "other", "v", "12", minute)}, false},
		"a version with more digits":         {sighting{"100", testLease(t, "other", "u", "100", minute)}, true},
		"a list that knows no version of us": {sighting{"", nil}, false},
	} {
		t.Run(name, func(t *testing.T) {
			// The watch may tell before or after the answer to the acquiring write arrives.
			for _, early := range []bool{false, true} {
				var o owners
				o.init()
				lost := begin(&o, "me", minute, 0)
				if early {
					tell(o.sight(testName, tc.sighting))
				}
				tell(o.granted("me", testLease(t, "me", "u", "20", minute), 20))
				if !early {
					tell(o.sight(testName, tc.sighting))
				}
				if got := len(*lost) == 1; got != tc.wantLost || len(*lost) > 1 {
					t.Errorf("early %v: lost %v, want %v", early, *lost, tc.wantLost)
				}
				if tc.wantLost && !errors.Is((*lost)[0], driver.ErrNotHolder) {
					t.Errorf("cause %v, want ErrNotHolder", (*lost)[0])
				}
			}
		})
	}
}

func TestShorterRenewalOnItsWayIsNoEdit(t *testing.T) {
	var o owners
	o.init()
	lost := begin(&o, "me", time.Hour, 0)
	tell(o.granted("me", testLease(t, "me", "u", "20", time.Hour), 20))
	o.renewing("me", time.Minute, 1)
	tell(o.sight(testName, sighting{"21", testLease(t, "me", "u", "21", time.Minute)}))
	if len(*lost) > 0 {
		t.Fatalf("lost by our own shorter renewal, seen before its answer: %v", *lost)
	}
	if last, _, _ := o.renewing("me", time.Minute, 2); last.ResourceVersion != "21" {
		t.Errorf("version %s after the watch told of 21", last.ResourceVersion)
	}
	o.renewed("me", testLease(t, "me", "u", "21", time.Minute), time.Minute, 1)
	tell(o.sight(testName, sighting{"22", testLease(t, "me", "u", "22", 59*time.Second)}))
	if len(*lost) != 1 {
		t.Errorf("not lost by a duration shorter than the renewed one")
	}
}

func TestListThatLacksALeaseMeansLossOnlyForItsPrefixAndOlderVersions(t *testing.T) {
	for name, tc := range map[string]struct {
		prefix, version string
		present, want   bool
	}{
		"gone":                      {testKey.Prefix, "21", false, true},
		"there":                     {testKey.Prefix, "21", true, false},
		"list of another prefix":    {"lk:{a/c}:", "21", false, false},
		"list older than the write": {testKey.Prefix, "19", false, false},
	} {
		var o owners
		o.init()
		lost := begin(&o, "me", time.Minute, 0)
		tell(o.granted("me", testLease(t, "me", "u", "20", time.Minute), 20))
		tell(o.sightAbsent(tc.prefix, tc.version, map[string]bool{testName: tc.present}))
		if got := len(*lost) == 1; got != tc.want {
			t.Errorf("%s: lost %v, want %v", name, got, tc.want)
		}
	}
}

func TestReleasedAcquisitionIsNotToldOfItsOwnDeletion(t *testing.T) {
	var o owners
	o.init()
	lost := begin(&o, "me", time.Minute, 0)
	tell(o.granted("me", testLease(t, "me", "u", "20", time.Minute), 20))
	if last, ranOut := o.releasing("me", 1); last == nil || ranOut {
		t.Fatalf("releasing: %v, %v", last, ranOut)
	}
	tell(o.sight(testName, sighting{"21", nil}))
	if len(*lost) > 0 {
		t.Errorf("told of its own release: %v", *lost)
	}
}

func TestRanOutAfterWhatWasGrantedForCertain(t *testing.T) {
	var o owners
	o.init()
	begin(&o, "me", time.Minute, 0)
	tell(o.granted("me", testLease(t, "me", "u", "20", time.Minute), 20))
	// An ambiguous renewal does not extend.
	o.renewing("me", time.Hour, clock.Instant(30*time.Second))
	if _, _, ranOut := o.renewing("me", time.Minute, clock.Instant(time.Minute)); !ranOut {
		t.Error("an unanswered renewal extended the acquisition")
	}
	if _, ranOut := o.releasing("me", clock.Instant(time.Minute)); !ranOut {
		t.Error("release does not tell that the time ran out")
	}
}

func TestMemoryIsBoundedByWhatIsAlive(t *testing.T) {
	var o owners
	o.init()
	now := clock.Instant(0)
	for i := range 10_000 {
		id := strconv.Itoa(i)
		o.begin(driver.AcquireRequest{Key: testKey, ID: id, TTL: time.Second, OnLost: func(error) {}}, "lk-"+id, now)
		o.unanswered(id)
		now = now.Add(100 * time.Millisecond)
	}
	if len(o.byID) > 2*leastSweep || len(o.byName) != len(o.byID) {
		t.Errorf("%d acquisitions and %d names are remembered, of which 10 are alive", len(o.byID), len(o.byName))
	}
}
