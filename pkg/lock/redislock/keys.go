// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"sync"
	"time"

	"github.com/redis/go-redis/v9"

	"github.com/lockstead/lockstead/pkg/lock/clock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
)

// listKey is the place of the list of held keys among the keys of a call that keeps it.
const listKey = 2

// lockKeys names the keys of a call: all that it may write, whatever the client is. So a node of a cluster that is given them one by one does nothing
// before it has them all. The list of held keys is left out for a while where the user was found to lack the right to it.
func (d *Driver) lockKeys(key driver.Key) []string {
	keys := []string{redisproto.LockKey(key.Prefix, key.Name), redisproto.SequenceKey(key.Prefix)}
	if !d.unlisted.has(key.Prefix) {
		keys = append(keys, redisproto.HeldKey(key.Prefix))
	}
	return keys
}

// listRefused reports that the list of held keys may be why the server refused a call before it did any of it. Users whose rights are older than the
// list lock without it.
func listRefused(keys []string, err error) bool {
	return len(keys) > listKey && redis.HasErrorPrefix(err, "NOPERM")
}

// rightsPause is how long a user without the right to the list of held keys is not asked again whether it has got it.
const rightsPause = time.Minute

// unlisted is for which prefixes the user lacks the right to the list of held keys. It is safe for concurrent use.
type unlisted struct {
	clock clock.Clock

	mu    sync.Mutex
	until map[string]clock.Instant
}

// note is told how the call went without the list: if it was refused too, the list was not to blame.
func (u *unlisted) note(prefix string, err error) {
	if redis.HasErrorPrefix(err, "NOPERM") {
		return
	}
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.until == nil {
		u.until = make(map[string]clock.Instant)
	}
	u.until[prefix] = u.clock.Now().Add(rightsPause)
}

func (u *unlisted) has(prefix string) bool {
	u.mu.Lock()
	defer u.mu.Unlock()
	until, noted := u.until[prefix]
	if noted && u.clock.Now() >= until {
		delete(u.until, prefix)
		return false
	}
	return noted
}
