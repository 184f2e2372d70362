// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package leaseformat

import (
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
)

// Labels and annotations of a lock's Lease.
const (
	// LabelLock marks the Leases of this library, with the value LabelLockValue.
	LabelLock      = "lockstead.dev/lock"
	LabelLockValue = "true"
	// LabelPrefix carries PrefixHash.
	LabelPrefix = "lockstead.dev/prefix"

	// AnnotationPrefix and AnnotationKey are what was locked, of which the name is a hash.
	AnnotationPrefix = "lockstead.dev/prefix"
	AnnotationKey    = "lockstead.dev/key"
	// AnnotationAcquisition is the acquisition id.
	AnnotationAcquisition = "lockstead.dev/acquisition"
	// AnnotationOwner is what the holder tells people about itself.
	AnnotationOwner = "lockstead.dev/owner"
	// AnnotationEpoch is the epoch of the fencing token, a decimal number.
	AnnotationEpoch = "lockstead.dev/epoch"
	// AnnotationSequence is written by renewals: the resourceVersion of the acquiring write, which that write itself cannot know.
	AnnotationSequence = "lockstead.dev/sequence"
	// Base64Suffix marks the annotation of a text that is not valid UTF-8 and is therefore stored in base64.
	Base64Suffix = "-base64"
)

// NamePrefix starts the name of every lock's Lease.
const NamePrefix = "lk-"

// Name is the name of the Lease of a lock. Both parts are length-prefixed, so that no two locks share one.
func Name(prefix, key string) string {
	hash := sha256.New()
	for _, part := range []string{prefix, key} {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		hash.Write(length[:])
		hash.Write([]byte(part))
	}
	return NamePrefix + hex.EncodeToString(hash.Sum(nil))
}

// PrefixHash is the value of LabelPrefix. A label holds 63 characters, one less than a whole SHA-256 in hexadecimal, so it
// is cut to 160 bits: the label only narrows a list, and the annotation decides.
func PrefixHash(prefix string) string {
	sum := sha256.Sum256([]byte(prefix))
	return hex.EncodeToString(sum[:20])
}

// PrefixSelector is the label selector for the locks of one prefix.
func PrefixSelector(prefix string) string {
	return Selector() + "," + LabelPrefix + "=" + PrefixHash(prefix)
}

// Selector is the label selector for the locks of all prefixes.
func Selector() string { return LabelLock + "=" + LabelLockValue }
