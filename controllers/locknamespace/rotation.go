// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package locknamespace

import (
	"slices"
	"strconv"
	"strings"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/controllers/redisinstance"
	"github.com/lockstead/lockstead/internal/redisadmin"
	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
)

// Annotations of the Secret that tell where the rotation of its password is. Passwords are 256 random bits, so a hash of one tells nothing of
// it; it is kept because servers may forget their users, also while the previous password is still good.
const (
	annotationRotatedAt = "lockstead.dev/password-rotated-at"
	annotationCounter   = "lockstead.dev/rotation-counter"
	annotationPrevious  = "lockstead.dev/previous-password-hashes"
)

var rotationAnnotations = []string{annotationRotatedAt, annotationCounter, annotationPrevious}

// credentials are what the Secret says of the password.
type credentials struct {
	// password is empty when the Secret is gone or has none.
	password string
	// rotatedAt is when the password was written.
	rotatedAt time.Time
	// counter is the rotationCounter that it was written for.
	counter int64
	// previous are the hashes of the passwords before it that still work.
	previous []string
}

// readCredentials reads the Secret of a LockNamespace with this user. The password of another user, as an instance with one user for all had
// it, is not the LockNamespace's.
func readCredentials(secret bindingSecret, username string, now time.Time) credentials {
	if secret.object == nil || string(secret.object.Data[binding.KeyUsername]) != username {
		return credentials{}
	}
	c := credentials{password: string(secret.object.Data[binding.KeyPassword])}
	if c.password == "" {
		return credentials{}
	}
	annotations := secret.object.Annotations
	rotatedAt, err := time.Parse(time.RFC3339, annotations[annotationRotatedAt])
	if err != nil {
		rotatedAt = secret.object.CreationTimestamp.Time
	}
	// One in the future was written by hand, or by another clock.
	c.rotatedAt = wholeSeconds(rotatedAt)
	if c.rotatedAt.After(now) {
		c.rotatedAt = wholeSeconds(now)
	}
	c.counter, _ = strconv.ParseInt(annotations[annotationCounter], 10, 64)
	for hash := range strings.SplitSeq(annotations[annotationPrevious], ",") {
		if redisproto.IsPasswordHash(hash) {
			c.previous = append(c.previous, hash)
		}
	}
	return c
}

// annotations are the credentials as readCredentials reads them.
func (c credentials) annotations() map[string]string {
	annotations := map[string]string{
		annotationRotatedAt: c.rotatedAt.UTC().Format(time.RFC3339),
		annotationCounter:   strconv.FormatInt(c.counter, 10),
	}
	if len(c.previous) > 0 {
		annotations[annotationPrevious] = strings.Join(c.previous, ",")
	}
	return annotations
}

// rotation is what to do about the password now.
type rotation struct {
	// next are the credentials after this step, but for when a new password was written.
	next credentials
	// renewed: next has a new password, which nobody knows yet.
	renewed bool
	// keepKnown: the Secret is gone, and with it the passwords that pods still use. Those that the server has stay good.
	keepKnown bool
}

// planRotation decides the next step: a new password beside the present one, the removal of the previous one after the overlap, or nothing.
//
// A new password starts only when the one before it has ended, so that at most two work and none ends early. Whoever asks for several in a row
// gets the last one, an overlap later. A step that an operator did not finish is planned again: a password that is not in the Secret is
// nobody's, so another takes its place.
func planRotation(present credentials, spec v1alpha1.Credentials, bound bool, now time.Time) rotation {
	if present.password == "" {
		return rotation{next: credentials{password: redisadmin.NewPassword(), counter: spec.RotationCounter}, renewed: true, keepKnown: bound}
	}
	if !now.Before(present.rotatedAt.Add(spec.Overlap.Duration)) {
		present.previous = nil
	}
	due := spec.RotationCounter > present.counter ||
		spec.RotationInterval != nil && !now.Before(present.rotatedAt.Add(spec.RotationInterval.Duration))
	if !due || len(present.previous) > 0 {
		return rotation{next: present}
	}
	return rotation{renewed: true, next: credentials{
		password: redisadmin.NewPassword(), counter: max(spec.RotationCounter, present.counter),
		previous: []string{redisproto.PasswordHash(present.password)},
	}}
}

// tenant is what the server has to know for this step.
func (r rotation) tenant(username, prefix string, maxTTL time.Duration) redisinstance.Tenant {
	return redisinstance.Tenant{
		Username: username, Prefix: prefix, MaxTTL: maxTTL, Password: r.next.password, Previous: slices.Clone(r.next.previous), KeepKnown: r.keepKnown,
	}
}

// schedule is the status that follows from credentials, and when to look again. Zero is when nothing is due.
func schedule(c credentials, spec v1alpha1.Credentials) (*v1alpha1.CredentialsStatus, time.Time) {
	status := &v1alpha1.CredentialsStatus{ObservedRotationCounter: c.counter, LastRotationTime: &metav1.Time{Time: c.rotatedAt}}
	var next time.Time
	if spec.RotationInterval != nil {
		next = c.rotatedAt.Add(spec.RotationInterval.Duration)
	}
	if len(c.previous) > 0 {
		end := c.rotatedAt.Add(spec.Overlap.Duration)
		status.PreviousValidUntil = &metav1.Time{Time: end}
		if spec.RotationCounter > c.counter {
			next = end
		}
		if next.IsZero() {
			return status, end
		}
		status.NextRotationTime = &metav1.Time{Time: next}
		return status, earlier(end, next)
	}
	if !next.IsZero() {
		status.NextRotationTime = &metav1.Time{Time: next}
	}
	return status, next
}

func earlier(a, b time.Time) time.Time {
	if b.Before(a) {
		return b
	}
	return a
}

// wholeSeconds is what annotations and statuses can keep.
func wholeSeconds(t time.Time) time.Time { return t.UTC().Truncate(time.Second) }
