// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"crypto/sha256"
	"encoding/binary"

	"github.com/lockstead/lockstead/pkg/lock/driver"
)

// KeyHash is the number of the advisory lock of a key: the first 8 bytes, as a big-endian two's complement number, of the SHA-256 of
//
//	"lockstead/pglock/v1" 0x00, length of the prefix, prefix, length of the name, name
//
// with both lengths as 8 bytes, big-endian. It never changes, so that all versions of this package, and other programs, mean the same lock. Two keys with one number
// only wake each other in vain: who holds a key is said by its row, which has the whole of it.
//
// pg_locks shows the number in two halves: classid has the upper 32 bits, objid the lower ones, and objsubid is 1. The
// same halves as the two numbers of pg_advisory_xact_lock(int, int), with objsubid 2, are held for the moment of a grant or a release.
func KeyHash(key driver.Key) int64 {
	h := sha256.New()
	_, _ = h.Write([]byte("lockstead/pglock/v1\x00"))
	for _, part := range []string{key.Prefix, key.Name} {
		var length [8]byte
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		_, _ = h.Write(length[:])
		_, _ = h.Write([]byte(part))
	}
	return int64(binary.BigEndian.Uint64(h.Sum(nil))) //nolint:gosec // The bits are wanted as they are.
}

// halves are the two numbers of the lock that is held for the moment of a grant or a release.
func halves(hash int64) (upper, lower int32) {
	return int32(hash >> 32), int32(hash) //nolint:gosec // The bits are wanted as they are.
}
