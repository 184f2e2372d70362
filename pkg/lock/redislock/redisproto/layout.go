// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package redisproto is what the Redis lock driver and the operator agree on: the keys and channels of a lock namespace, the lock
// record, the epoch record, the server-side code, and the access rules of the users. It does no I/O.
//
// All keys of a lock namespace begin with its prefix, for example "lk:{payments/billing}:". The braces make the inside the
// cluster hash tag, so all keys lie in one slot; the part before the first colon is the root, under which the operator has a key
// of its own that no pattern of keys with the prefix matches.
//
//	lk:{payments/billing}:lock:<key>   lock record: id, token, owner; runs out with the TTL
//	lk:{payments/billing}:free:<key>   channel that a release publishes on
//	lk:{payments/billing}:!seq         counter of grants: one for a lock namespace, so storage is bounded
//	lk:{payments/billing}:!held        sorted set of the keys that are held, for people; locks do not depend on it
//	lk:{payments/billing}:!epoch       epoch record; tenants can read it, not write it
//	lk:!arm{payments/billing}          key of the operator, which never has a value
package redisproto

import (
	"fmt"
	"regexp"
	"strings"
)

// LockKey is the key of a lock's record.
func LockKey(prefix, name string) string { return prefix + "lock:" + name }

// Channel is the channel on which the release of a lock is published.
func Channel(prefix, name string) string { return prefix + "free:" + name }

// SequenceKey is the key of the counter of grants.
func SequenceKey(prefix string) string { return prefix + "!seq" }

// HeldKey is the key of the list of held keys.
func HeldKey(prefix string) string { return prefix + "!held" }

// EpochKey is the key of the epoch record.
func EpochKey(prefix string) string { return prefix + "!epoch" }

// ArmKey is the operator's key for a prefix.
func ArmKey(prefix string) string { return Root(prefix) + ":!arm" + hashTag.FindString(prefix) }

// hashTag is the part of a key that decides its slot.
var hashTag = regexp.MustCompile(`\{[^}]*\}`)

// Root is the part of a prefix before the first colon.
func Root(prefix string) string {
	root, _, _ := strings.Cut(prefix, ":")
	return root
}

// Prefix is the prefix of a lock namespace under a root.
func Prefix(root, name string) string { return fmt.Sprintf("%s:{%s}:", root, name) }
