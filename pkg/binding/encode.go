// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package binding

import (
	"errors"
	"fmt"
	"regexp"
	"strconv"
	"time"
)

// Encode gives the entries of the Secret. It refuses a Binding that Parse would refuse.
func (b *Binding) Encode() (map[string][]byte, error) {
	if err := b.Validate(); err != nil {
		return nil, err
	}
	entries := map[string]string{
		KeyType:          string(b.Type),
		KeyProvider:      Provider,
		KeyLockNamespace: b.LockNamespace,
		KeyPrefix:        b.Prefix,
		KeyInstance:      b.Instance,
		KeyTTLDefault:    b.TTLDefault.String(),
		KeyTTLMax:        b.TTLMax.String(),
	}
	switch b.Type {
	case TypeRedis:
		entries[KeyHost] = b.Redis.Host
		entries[KeyPort] = strconv.Itoa(b.Redis.Port)
		entries[KeyUsername] = b.Redis.Username
		entries[KeyPassword] = b.Redis.Password
		entries[KeyURI] = b.Redis.URI()
		entries[KeyTLS] = strconv.FormatBool(b.Redis.TLS)
		entries[KeyAccess] = string(b.Redis.Access)
		if len(b.Redis.CA) > 0 {
			entries[KeyCA] = string(b.Redis.CA)
		}
		if records := b.Redis.Records; records != nil {
			entries[KeyRecordsShare] = strconv.FormatInt(records.Share, 10)
			entries[KeyRecordsMaxResponse] = strconv.FormatInt(records.MaxResponse, 10)
		}
	case TypeLease:
		entries[KeyEpoch] = strconv.FormatUint(b.Lease.Epoch, 10)
		entries[KeyFallbackCondition] = b.Lease.FallbackCondition
		entries[KeyFallbackFix] = b.Lease.FallbackFix
	}
	data := make(map[string][]byte, len(entries))
	for name, value := range entries {
		data[name] = []byte(value)
	}
	return data, nil
}

var (
	lockNamespacePattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9]*[a-z0-9])?/[a-z0-9]([-a-z0-9.]*[a-z0-9])?$`)
	// A prefix ends in a terminator that its inner part cannot contain, so that two prefixes collide only by being equal,
	// and has no glob character, since it becomes part of ACL patterns.
	prefixPattern = regexp.MustCompile(`^[a-z0-9]([-a-z0-9.]*[a-z0-9])?:\{[a-z0-9]([-a-z0-9._/]*[a-z0-9])?\}:$`)
)

// Validate reports everything that is wrong with the binding. No message contains a credential.
func (b *Binding) Validate() error {
	var problems []error
	check := func(ok bool, entry, format string, args ...any) {
		if !ok {
			problems = append(problems, fmt.Errorf("entry %q: %w", entry, fmt.Errorf(format, args...)))
		}
	}
	check(lockNamespacePattern.MatchString(b.LockNamespace), KeyLockNamespace, "%q is not <namespace>/<name>", b.LockNamespace)
	check(prefixPattern.MatchString(b.Prefix), KeyPrefix, "%q is not <root>:{<name>}:", b.Prefix)
	check(b.Instance != "", KeyInstance, "is empty")
	check(b.TTLDefault >= time.Second, KeyTTLDefault, "%s is shorter than 1s", b.TTLDefault)
	check(b.TTLMax >= b.TTLDefault, KeyTTLMax, "%s is shorter than %s %s", b.TTLMax, KeyTTLDefault, b.TTLDefault)
	switch b.Type {
	case TypeRedis:
		if b.Redis == nil {
			problems = append(problems, errors.New("the Redis part is missing"))
			break
		}
		check(b.Redis.Host != "", KeyHost, "is empty")
		check(b.Redis.Port > 0 && b.Redis.Port < 65536, KeyPort, "%d is not a port", b.Redis.Port)
		check(b.Redis.Username != "", KeyUsername, "is empty")
		check(b.Redis.Password != "", KeyPassword, "is empty")
		check(b.Redis.Access == AccessFunctions || b.Redis.Access == AccessScripts, KeyAccess,
			"%q is neither %q nor %q", b.Redis.Access, AccessFunctions, AccessScripts)
		if records := b.Redis.Records; records != nil {
			check(records.Share > 0, KeyRecordsShare, "%d is not a number of bytes", records.Share)
			check(records.MaxResponse > 0, KeyRecordsMaxResponse, "%d is not a number of bytes", records.MaxResponse)
		}
	case TypeLease:
		if b.Lease == nil {
			problems = append(problems, errors.New("the Lease part is missing"))
		}
	default:
		check(false, KeyType, "%q is neither %q nor %q", b.Type, TypeRedis, TypeLease)
	}
	return errors.Join(problems...)
}
