// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package leaseformat

import (
	"encoding/json"
	"errors"
	"math"
	"strings"
	"testing"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"

	"github.com/lockstead/lockstead/pkg/lock/clock"
)

const testID = "0123456789abcdef0123456789abcdef"

func testAcquisition() Acquisition {
	return Acquisition{
		Prefix: "lk:{payments/billing}:", Key: "order:17", ID: testID, Duration: 30 * time.Second, Owner: "pod/worker-1", Epoch: 3,
		Now: time.Date(2026, 1, 2, 3, 4, 5, 0, time.UTC),
	}
}

func mustCreate(t *testing.T, a Acquisition) *coordinationv1.Lease {
	t.Helper()
	lease, err := Create("payments", a)
	if err != nil {
		t.Fatal(err)
	}
	lease.UID, lease.ResourceVersion = "uid-1", "100"
	return lease
}

func TestNamesAreDistinctAndValid(t *testing.T) {
	seen := map[string]string{}
	for _, pair := range [][2]string{
		{"lk:{a}:", "b"}, {"lk:{a}", ":b"}, {"", "lk:{a}:b"}, {"lk:{a}:b", ""}, {"lk:{a}:", strings.Repeat("k", 1024)}, {"lk:{a}:", "B"},
		{"lk:{a}:", "\xff\x00/ *"},
	} {
		name := Name(pair[0], pair[1])
		if other, ok := seen[name]; ok {
			t.Errorf("%q and %s share the name %s", pair, other, name)
		}
		seen[name] = pair[0] + "|" + pair[1]
		if problems := validation.IsDNS1123Subdomain(name); len(problems) > 0 {
			t.Errorf("name %q: %v", name, problems)
		}
		if problems := validation.IsValidLabelValue(PrefixHash(pair[0])); len(problems) > 0 {
			t.Errorf("label of prefix %q: %v", pair[0], problems)
		}
	}
}

func TestPrefixSelectorFindsOnlyItsPrefix(t *testing.T) {
	lease := mustCreate(t, testAcquisition())
	for prefix, want := range map[string]bool{"lk:{payments/billing}:": true, "lk:{payments/other}:": false} {
		selector, err := labels.Parse(PrefixSelector(prefix))
		if err != nil {
			t.Fatal(err)
		}
		if got := selector.Matches(labels.Set(lease.Labels)); got != want {
			t.Errorf("selector of %q matches: %v, want %v", prefix, got, want)
		}
	}
	if selector, err := labels.Parse(Selector()); err != nil || !selector.Matches(labels.Set(lease.Labels)) {
		t.Errorf("Selector does not find the Lease: %v", err)
	}
}

func TestWrittenLeasesAreReadBack(t *testing.T) {
	for _, key := range []string{"order:17", "a b/ü:*?[x]{y}\u2028", "\xff\xfe\x00raw", strings.Repeat("x", 1024)} {
		a := testAcquisition()
		a.Key = key
		lease := mustCreate(t, a)
		wire, err := json.Marshal(lease)
		if err != nil {
			t.Fatal(err)
		}
		decoded := &coordinationv1.Lease{}
		if err := json.Unmarshal(wire, decoded); err != nil {
			t.Fatal(err)
		}
		record, err := Parse(decoded)
		if err != nil {
			t.Fatalf("key %q: %v", key, err)
		}
		want := Record{
			UID: "uid-1", ResourceVersion: "100", Prefix: a.Prefix, Key: key, ID: testID, Duration: 30 * time.Second,
			Owner: a.Owner, Acquired: a.Now, Epoch: 3,
		}
		if record != want {
			t.Errorf("key %q: got %+v, want %+v", key, record, want)
		}
		if record.Sequence() != 100 {
			t.Errorf("sequence %d before a renewal, want the version of the acquiring write", record.Sequence())
		}
	}
}

func TestTakeOverAndRenewKeepIdentityOfTheObservedLease(t *testing.T) {
	lease := mustCreate(t, testAcquisition())
	lease.Annotations["example.com/note"] = "kept"
	lease.ManagedFields = []metav1.ManagedFieldsEntry{{Manager: "x"}}

	a := testAcquisition()
	a.ID, a.Owner, a.Duration = strings.Repeat("f", 32), "", time.Second
	taken, err := TakeOver(lease, a)
	if err != nil {
		t.Fatal(err)
	}
	if taken.UID != "uid-1" || taken.ResourceVersion != "100" || taken.ManagedFields != nil {
		t.Errorf("take-over lost the preconditions or sends managedFields: %+v", taken.ObjectMeta)
	}
	if *taken.Spec.LeaseTransitions != 1 || *taken.Spec.HolderIdentity != a.ID || *taken.Spec.LeaseDurationSeconds != 1 {
		t.Errorf("take-over spec %+v", taken.Spec)
	}
	if taken.Annotations["example.com/note"] != "kept" {
		t.Error("take-over dropped a stranger's annotation")
	}

	taken.ResourceVersion = "107"
	renewed, err := Renew(taken, 4*time.Second, 107, a.Now.Add(time.Second))
	if err != nil {
		t.Fatal(err)
	}
	renewed.ResourceVersion = "120"
	record, err := Parse(renewed)
	if err != nil {
		t.Fatal(err)
	}
	if record.ID != a.ID || record.Duration != 4*time.Second || record.Sequence() != 107 || record.Transitions != 1 {
		t.Errorf("renewed record %+v", record)
	}
	if *lease.Spec.LeaseDurationSeconds != 30 || lease.Annotations[AnnotationAcquisition] != testID {
		t.Error("the observed Lease was changed in place")
	}
}

// V12 and V13 of the fault list: durations that a Lease cannot carry are refused, never cut.
func TestV12DurationsAreExactOrRefused(t *testing.T) {
	for d, ok := range map[time.Duration]bool{
		time.Second: true, MaxDuration: true, 30 * time.Second: true,
		0: false, -time.Second: false, 1: false, 900 * time.Millisecond: false, 1900 * time.Millisecond: false,
		MaxDuration + time.Second: false, math.MaxInt64: false,
	} {
		a := testAcquisition()
		a.Duration = d
		lease, err := Create("payments", a)
		if (err == nil) != ok {
			t.Errorf("duration %s: error %v, want accepted: %v", d, err, ok)
		}
		if err == nil && time.Duration(*lease.Spec.LeaseDurationSeconds)*time.Second != d {
			t.Errorf("duration %s stored as %d s", d, *lease.Spec.LeaseDurationSeconds)
		}
	}
}

func TestV13EveryNilFieldIsTolerated(t *testing.T) {
	if _, err := Parse(nil); !errors.Is(err, ErrNotOurs) {
		t.Errorf("nil: %v", err)
	}
	if _, err := Parse(&coordinationv1.Lease{}); !errors.Is(err, ErrNotOurs) {
		t.Errorf("empty Lease: %v", err)
	}
	lease := mustCreate(t, testAcquisition())
	lease.Spec = coordinationv1.LeaseSpec{LeaseDurationSeconds: lease.Spec.LeaseDurationSeconds}
	for _, name := range []string{AnnotationOwner, AnnotationEpoch, AnnotationSequence} {
		lease.Annotations[name] = "not a number \x00"
	}
	record, err := Parse(lease)
	if err != nil {
		t.Fatalf("fields for people are required: %v", err)
	}
	if record.ID != testID || record.Epoch != 0 || record.Transitions != 0 {
		t.Errorf("record %+v", record)
	}
	if taken, err := TakeOver(lease, testAcquisition()); err != nil || *taken.Spec.LeaseTransitions != 1 {
		t.Errorf("take-over of a Lease without leaseTransitions: %v", err)
	}
}

func TestForeignAndDamagedLeasesAreRefused(t *testing.T) {
	zero, strategy, preferred := int32(0), coordinationv1.OldestEmulationVersion, "x"
	for name, damage := range map[string]func(*coordinationv1.Lease){
		"no label":                 func(l *coordinationv1.Lease) { delete(l.Labels, LabelLock) },
		"label false":              func(l *coordinationv1.Lease) { l.Labels[LabelLock] = "false" },
		"no labels at all":         func(l *coordinationv1.Lease) { l.Labels = nil },
		"prefix label of another":  func(l *coordinationv1.Lease) { l.Labels[LabelPrefix] = PrefixHash("other") },
		"no annotations":           func(l *coordinationv1.Lease) { l.Annotations = nil },
		"strategy":                 func(l *coordinationv1.Lease) { l.Spec.Strategy = &strategy },
		"preferred holder":         func(l *coordinationv1.Lease) { l.Spec.PreferredHolder = &preferred },
		"key of another lock":      func(l *coordinationv1.Lease) { l.Annotations[AnnotationKey] = "other" },
		"prefix of another lock":   func(l *coordinationv1.Lease) { l.Annotations[AnnotationPrefix] = "other" },
		"key twice":                func(l *coordinationv1.Lease) { l.Annotations[AnnotationKey+Base64Suffix] = "AA==" },
		"key in broken base64":     func(l *coordinationv1.Lease) { breakKey(l) },
		"no acquisition id":        func(l *coordinationv1.Lease) { delete(l.Annotations, AnnotationAcquisition) },
		"no duration":              func(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = nil },
		"duration zero":            func(l *coordinationv1.Lease) { l.Spec.LeaseDurationSeconds = &zero },
		"name of another lock":     func(l *coordinationv1.Lease) { l.Name = Name("a", "b") },
		"name that is no hash":     func(l *coordinationv1.Lease) { l.Name = "my-lease" },
		"everything but the label": func(l *coordinationv1.Lease) { l.Annotations, l.Spec = nil, coordinationv1.LeaseSpec{} },
	} {
		lease := mustCreate(t, testAcquisition())
		damage(lease)
		if record, err := Parse(lease); !errors.Is(err, ErrNotOurs) {
			t.Errorf("%s: record %+v, error %v", name, record, err)
		}
	}
}

func breakKey(l *coordinationv1.Lease) {
	delete(l.Annotations, AnnotationKey)
	l.Annotations[AnnotationKey+Base64Suffix] = "%%%"
}

func TestAbandonedOnlyAfterAFullDurationWithoutAChange(t *testing.T) {
	at := func(s int) clock.Instant { return clock.Instant(time.Duration(s) * time.Second) }
	record := Record{UID: "u", ResourceVersion: "9", Duration: 10 * time.Second}
	version := func(v string) Record { r := record; r.ResourceVersion = v; return r }
	var o Observations

	for _, step := range []struct {
		name   string
		record Record
		now    int
		want   time.Duration
	}{
		{"first sight waits the whole duration, however old the Lease is", version("9"), 1000, 10 * time.Second},
		{"the same version again does not restart", version("9"), 1004, 6 * time.Second},
		{"a renewal restarts", version("12"), 1009, 10 * time.Second},
		{"a version that looks older restarts too: etcd may have been restored", version("9"), 1012, 10 * time.Second},
		{"and counts", version("9"), 1016, 6 * time.Second},
		{"a later renewal restarts", version("100"), 1018, 10 * time.Second},
		{"one second before the end", version("100"), 1027, time.Second},
		{"a full duration", version("100"), 1028, 0},
		{"and later", version("100"), 5000, 0},
		{"another Lease of that name is another observation", Record{UID: "v", ResourceVersion: "3", Duration: time.Second}, 5000, time.Second},
		{"versions that are not numbers restart", version("abc"), 6000, 10 * time.Second},
	} {
		if got := o.See(step.record, at(step.now)); got != step.want {
			t.Errorf("%s: %s left, want %s", step.name, got, step.want)
		}
	}

	if o.Len() != 2 {
		t.Errorf("%d observations, want 2", o.Len())
	}
	o.Forget("u")
	if got := o.See(version("abc"), at(9000)); got != 10*time.Second {
		t.Errorf("after Forget %s left, want the whole duration", got)
	}
	o.Keep(func(uid types.UID) bool { return uid == "v" })
	if o.Len() != 1 {
		t.Errorf("Keep left %d observations, want 1", o.Len())
	}
}

func TestHugeDurationDoesNotOverflow(t *testing.T) {
	huge := int32(math.MaxInt32)
	lease := mustCreate(t, testAcquisition())
	lease.Spec.LeaseDurationSeconds = &huge
	record, err := Parse(lease)
	if err != nil {
		t.Fatal(err)
	}
	var o Observations
	if got := o.See(record, 0); got != MaxDuration {
		t.Errorf("%s left, want %s", got, MaxDuration)
	}
}

func FuzzParse(f *testing.F) {
	seed, err := json.Marshal(func() *coordinationv1.Lease { l, _ := Create("n", testAcquisition()); return l }())
	if err != nil {
		f.Fatal(err)
	}
	f.Add(seed)
	f.Add([]byte(`{"metadata":{"labels":{"lockstead.dev/lock":"true"}},"spec":{"leaseDurationSeconds":-1}}`))
	f.Fuzz(func(t *testing.T, data []byte) {
		lease := &coordinationv1.Lease{}
		if json.Unmarshal(data, lease) != nil {
			return
		}
		record, err := Parse(lease)
		if err != nil {
			if !errors.Is(err, ErrNotOurs) || record != (Record{}) {
				t.Fatalf("record %+v with error %v", record, err)
			}
			return
		}
		if !Ours(lease) || record.Duration <= 0 || record.ID == "" || Name(record.Prefix, record.Key) != lease.Name {
			t.Fatalf("accepted %+v", record)
		}
		if taken, err := TakeOver(lease, Acquisition{Prefix: record.Prefix, Key: record.Key, ID: testID, Duration: time.Second}); err != nil {
			t.Fatal(err)
		} else if next, err := Parse(taken); err != nil || next.ID != testID || next.UID != record.UID {
			t.Fatalf("take-over is unreadable: %+v, %v", next, err)
		}
	})
}
