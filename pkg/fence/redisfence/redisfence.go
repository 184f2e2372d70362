// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package redisfence writes to an application's own Redis under the fencing token of a lock, so that a holder that has lost its lock, and does not know it
// yet, cannot overwrite what a later holder wrote. Package fence does the same for PostgreSQL.
//
// A second key remembers the greatest token that wrote. It never runs out by itself: where it is deleted, evicted or lost, a stale holder can write
// again. On a cluster both keys need the same hash tag, such as "report:{42}" and "report:{42}:fence". Every write of the data key has to be guarded.
//
// The server is the application's: a user of a LockNamespace has no right to it.
package redisfence

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstead/lockstead/pkg/fence"
	"github.com/lockstead/lockstead/pkg/lock"
)

// Keys are where a value and its greatest token are: two different keys, both required.
type Keys struct {
	// Data is the key of the value.
	Data string
	// Fence is the key of the greatest token that wrote Data.
	Fence string
}

// guard compares the texts of tokens byte by byte: the order of texts in Lua is that of the server's locale. Both have 41 bytes.
const guard = `
local function less(a, b)
  for i = 1, #a do
    local x, y = string.byte(a, i), string.byte(b, i)
    if x ~= y then
      return x < y
    end
  end
  return false
end
local seen = redis.call('GET', KEYS[2])
if seen and #seen ~= #ARGV[1] then
  return redis.error_reply('ERR the fence key holds no fencing token')
end
if seen and less(ARGV[1], seen) then
  return 0
end
redis.call('SET', KEYS[2], ARGV[1])
`

// newSet has arguments token, value, TTL in ms or 0.
func newSet() *redis.Script {
	return redis.NewScript(guard + `
if ARGV[3] == '0' then
  redis.call('SET', KEYS[1], ARGV[2])
else
  redis.call('SET', KEYS[1], ARGV[2], 'PX', ARGV[3])
end
return 1
`)
}

// newHSet has arguments token, field, value, and more pairs of them.
func newHSet() *redis.Script {
	return redis.NewScript(guard + `
redis.call('HSET', KEYS[1], unpack(ARGV, 2))
return 1
`)
}

// Set is SET of the data key, unless a greater token has written: then the error is a *fence.StaleError, which matches fence.ErrStale, and nothing was
// changed. ttl is in whole milliseconds; 0 means none. It is that of the data key: the fence key stays. It sends the script by its hash, and in full when the
// server does not have it.
//
// Other errors refuse the arguments before anything is sent, or are those of the client, wrapped. After one that is no answer of the server the write may
// have been applied: writing the same again under the same token is safe. It is safe for concurrent use if the client is, and has no timeout of its own.
func Set(ctx context.Context, client redis.Scripter, keys Keys, token lock.Token, value any, ttl time.Duration) error {
	if ttl < 0 || ttl%time.Millisecond != 0 {
		return fmt.Errorf("redisfence: TTL %s is not a whole number of milliseconds from 0 up", ttl)
	}
	return run(ctx, client, newSet(), keys, token, value, ttl.Milliseconds())
}

// HSet is HSET of fields of the data key, under the same guard and with the same errors as Set. Pairs are field, value, field, value…; a hash keeps the TTL
// that it has.
func HSet(ctx context.Context, client redis.Scripter, keys Keys, token lock.Token, pairs ...any) error {
	if len(pairs) == 0 || len(pairs)%2 != 0 {
		return fmt.Errorf("redisfence: %d arguments are not pairs of a field and a value", len(pairs))
	}
	return run(ctx, client, newHSet(), keys, token, pairs...)
}

func run(ctx context.Context, client redis.Scripter, script *redis.Script, keys Keys, token lock.Token, args ...any) error {
	switch {
	case token.IsZero():
		return errors.New("redisfence: the token is zero: give that of a handle")
	case keys.Data == "" || keys.Fence == "" || keys.Data == keys.Fence:
		return errors.New("redisfence: Data and Fence are two keys")
	}
	written, err := script.Run(ctx, client, []string{keys.Data, keys.Fence}, append([]any{token.String()}, args...)...).Int()
	switch {
	case err != nil:
		return fmt.Errorf("redisfence: guarded write of %q: %w", keys.Data, err)
	case written == 0:
		return &fence.StaleError{What: fmt.Sprintf("key %q", keys.Data), Token: token}
	}
	return nil
}
