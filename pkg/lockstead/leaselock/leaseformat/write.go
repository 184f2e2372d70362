// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package leaseformat

import (
	"fmt"
	"math"
	"strconv"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
)

// Durations that a Lease can carry.
const (
	// Granularity is the grain: whole seconds.
	Granularity = time.Second
	// MinDuration is the shortest.
	MinDuration = time.Second
	// MaxDuration is the longest: 2^31 - 1 s.
	MaxDuration = math.MaxInt32 * time.Second
)

// Acquisition is what an acquiring write records.
type Acquisition struct {
	// Prefix and Key are what is locked.
	Prefix, Key string
	// ID is the acquisition id.
	ID string
	// Duration is the TTL, in whole seconds: see Seconds.
	Duration time.Duration
	// Owner is what the holder tells people about itself.
	Owner string
	// Epoch is that of the fencing tokens.
	Epoch uint64
	// Now is wall time, for people.
	Now time.Time
}

// Seconds is d as a Lease carries it. What a Lease cannot carry exactly is refused, never rounded in silence.
func Seconds(d time.Duration) (int32, error) {
	if d < MinDuration || d > MaxDuration || d%Granularity != 0 {
		return 0, fmt.Errorf("duration %s: a Lease carries whole seconds from %s to %s", d, MinDuration, MaxDuration)
	}
	return int32(d / time.Second), nil
}

// Create is the Lease that takes a free lock.
func Create(namespace string, a Acquisition) (*coordinationv1.Lease, error) {
	lease := &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: Name(a.Prefix, a.Key)}}
	if err := a.write(lease, 0); err != nil {
		return nil, err
	}
	return lease, nil
}

// TakeOver is the update that takes an abandoned lock. It keeps UID and resourceVersion of what was observed: a Lease that changed
// since, or was deleted, refuses it.
func TakeOver(abandoned *coordinationv1.Lease, a Acquisition) (*coordinationv1.Lease, error) {
	transitions := int32(1)
	if n := abandoned.Spec.LeaseTransitions; n != nil && *n >= 0 && *n < math.MaxInt32 {
		transitions = *n + 1
	}
	lease := writable(abandoned)
	if err := a.write(lease, transitions); err != nil {
		return nil, err
	}
	return lease, nil
}

// Renew is the update that keeps a held lock for d more. Sequence is that of the holder's token, for people.
func Renew(held *coordinationv1.Lease, d time.Duration, sequence uint64, now time.Time) (*coordinationv1.Lease, error) {
	seconds, err := Seconds(d)
	if err != nil {
		return nil, err
	}
	lease := writable(held)
	lease.Spec.LeaseDurationSeconds = &seconds
	lease.Spec.RenewTime = &metav1.MicroTime{Time: now}
	lease.Annotations[AnnotationSequence] = strconv.FormatUint(sequence, 10)
	return lease, nil
}

func (a Acquisition) write(lease *coordinationv1.Lease, transitions int32) error {
	seconds, err := Seconds(a.Duration)
	if err != nil {
		return err
	}
	if lease.Labels == nil {
		lease.Labels = map[string]string{}
	}
	lease.Labels[LabelLock] = LabelLockValue
	lease.Labels[LabelPrefix] = PrefixHash(a.Prefix)
	if lease.Annotations == nil {
		lease.Annotations = map[string]string{}
	}
	setText(lease.Annotations, AnnotationPrefix, a.Prefix)
	setText(lease.Annotations, AnnotationKey, a.Key)
	lease.Annotations[AnnotationAcquisition] = a.ID
	lease.Annotations[AnnotationOwner] = displayText(a.Owner)
	lease.Annotations[AnnotationEpoch] = strconv.FormatUint(a.Epoch, 10)
	delete(lease.Annotations, AnnotationSequence)

	holder := displayText(a.Owner)
	if holder == "" {
		holder = a.ID
	}
	now := metav1.MicroTime{Time: a.Now}
	lease.Spec = coordinationv1.LeaseSpec{
		HolderIdentity:       &holder,
		LeaseDurationSeconds: &seconds,
		AcquireTime:          &now,
		RenewTime:            &now,
		LeaseTransitions:     &transitions,
	}
	return nil
}

// writable copies what an update needs. Without managedFields the API server keeps its own.
func writable(lease *coordinationv1.Lease) *coordinationv1.Lease {
	out := lease.DeepCopy()
	out.ManagedFields = nil
	if out.Labels == nil {
		out.Labels = map[string]string{}
	}
	if out.Annotations == nil {
		out.Annotations = map[string]string{}
	}
	return out
}
