// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package leaseformat

import (
	"encoding/base64"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"

	coordinationv1 "k8s.io/api/coordination/v1"
	"k8s.io/apimachinery/pkg/types"
)

// ErrNotOurs is matched by every error of Parse: the Lease is not a lock of this library, or was edited so that it no longer is
// one. Leave it alone.
var ErrNotOurs = errors.New("not a Lease of a lock")

// Record is the lock that a Lease carries.
type Record struct {
	// UID and ResourceVersion are the preconditions for any write that is decided from this record.
	UID             types.UID
	ResourceVersion string

	// Prefix and Key are what is locked.
	Prefix string
	Key    string
	// ID is the acquisition id of the holder.
	ID string
	// Duration is how long a reader that sees no change must wait.
	Duration time.Duration

	// For people; zero when absent or unreadable.
	Owner string
	// Acquired is when the lock was granted, by the clock of the holder. For display.
	Acquired time.Time
	// Epoch is that of the fencing token.
	Epoch uint64
	// Transitions counts the holders that took the Lease over without a deletion between.
	Transitions int32

	sequence uint64
}

// Ours tells whether the Lease carries the label of this library and is not part of a coordinated election. A Lease that is ours can
// still be damaged; Parse tells.
func Ours(lease *coordinationv1.Lease) bool {
	return lease != nil && lease.Labels[LabelLock] == LabelLockValue && lease.Spec.Strategy == nil && lease.Spec.PreferredHolder == nil
}

// Parse reads the lock that a Lease carries. Only what decides is required; what is for people may be absent or unreadable.
func Parse(lease *coordinationv1.Lease) (Record, error) {
	if lease == nil {
		return Record{}, fmt.Errorf("%w: there is none", ErrNotOurs)
	}
	refuse := func(format string, args ...any) (Record, error) {
		return Record{}, fmt.Errorf("%w: Lease %s/%s %w", ErrNotOurs, lease.Namespace, lease.Name, fmt.Errorf(format, args...))
	}
	if lease.Labels[LabelLock] != LabelLockValue {
		return refuse("has no label %s: %q", LabelLock, LabelLockValue)
	}
	if lease.Spec.Strategy != nil || lease.Spec.PreferredHolder != nil {
		return refuse("belongs to a coordinated election (spec.strategy or spec.preferredHolder is set)")
	}
	prefix, err := text(lease.Annotations, AnnotationPrefix)
	if err != nil {
		return refuse("%w", err)
	}
	key, err := text(lease.Annotations, AnnotationKey)
	if err != nil {
		return refuse("%w", err)
	}
	if lease.Name != Name(prefix, key) {
		return refuse("has annotations of another lock: prefix %q, key %q", prefix, key)
	}
	if lease.Labels[LabelPrefix] != PrefixHash(prefix) {
		return refuse("has label %s %q, want %q", LabelPrefix, lease.Labels[LabelPrefix], PrefixHash(prefix))
	}
	id := lease.Annotations[AnnotationAcquisition]
	if id == "" {
		return refuse("has no annotation %s", AnnotationAcquisition)
	}
	seconds := lease.Spec.LeaseDurationSeconds
	if seconds == nil || *seconds <= 0 {
		return refuse("has no spec.leaseDurationSeconds: nobody can tell when it ends; if no process holds the lock, delete the Lease")
	}
	record := Record{
		UID:             lease.UID,
		ResourceVersion: lease.ResourceVersion,
		Prefix:          prefix,
		Key:             key,
		ID:              id,
		Duration:        time.Duration(*seconds) * time.Second,
		Owner:           lease.Annotations[AnnotationOwner],
		Epoch:           number(lease.Annotations[AnnotationEpoch]),
		sequence:        number(lease.Annotations[AnnotationSequence]),
	}
	if lease.Spec.AcquireTime != nil {
		record.Acquired = lease.Spec.AcquireTime.UTC()
	}
	if lease.Spec.LeaseTransitions != nil {
		record.Transitions = *lease.Spec.LeaseTransitions
	}
	return record, nil
}

// Sequence is the second part of the holder's fencing token as far as the Lease tells: what a renewal recorded, else the Lease's
// own version, which is that of the acquiring write unless somebody edited the Lease since. For people.
func (r Record) Sequence() uint64 {
	if r.sequence != 0 {
		return r.sequence
	}
	return number(r.ResourceVersion)
}

func number(s string) uint64 {
	n, err := strconv.ParseUint(s, 10, 64)
	if err != nil {
		return 0
	}
	return n
}

// setText stores a text that may hold any bytes: the API server takes only UTF-8.
func setText(annotations map[string]string, name, value string) {
	delete(annotations, name)
	delete(annotations, name+Base64Suffix)
	if utf8.ValidString(value) {
		annotations[name] = value
		return
	}
	annotations[name+Base64Suffix] = base64.StdEncoding.EncodeToString([]byte(value))
}

func text(annotations map[string]string, name string) (string, error) {
	plain, isPlain := annotations[name]
	coded, isCoded := annotations[name+Base64Suffix]
	switch {
	case isPlain && isCoded:
		return "", fmt.Errorf("has both annotations %s and %s%s", name, name, Base64Suffix)
	case isPlain:
		return plain, nil
	case !isCoded:
		return "", fmt.Errorf("has no annotation %s", name)
	}
	raw, err := base64.StdEncoding.Strict().DecodeString(coded)
	if err != nil {
		return "", fmt.Errorf("has an annotation %s%s that is not base64: %w", name, Base64Suffix, err)
	}
	return string(raw), nil
}

// displayText is s as the API server accepts it.
func displayText(s string) string { return strings.ToValidUTF8(s, "\uFFFD") }
