// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"fmt"
	"time"
)

// MaxTTL is the longest TTL that a caller can ask for: Options.MaxTTL, or its default.
func (c *Client) MaxTTL() time.Duration { return c.options.MaxTTL }

// DefaultTTL is what TTL 0 stands for: Options.DefaultTTL, or its default.
func (c *Client) DefaultTTL() time.Duration { return c.options.DefaultTTL }

// Leave ends the lock as Release does, but the key stays locked for rest from now on, and then frees itself. It is for work that has been done and
// must not be done again too soon: package exclusive keeps short jobs apart with it. Call it when the guarded work has returned. The handle is
// Released afterwards: invalid, its context ended with ErrReleased, no renewal. Nothing but Client.ForceRelease can free the key before its time.
//
// The store is told on a context of its own, as for Release. Of all calls of Leave and Release the first one decides; the others do nothing and return
// the same as it.
//
// The error is an *InvalidError if rest is shorter than MinTTL or longer than MaxTTL: then nothing was done, and the lock is held as before. It
// is a *LostError if the lock had ended before: then nothing is left locked. After a fault of the store the key stays locked for rest or for
// what was left of the TTL: to be certain of a time, acquire the lock with a TTL that is no shorter.
func (h *Handle) Leave(ctx context.Context, rest time.Duration) error {
	if rest < MinTTL {
		return &InvalidError{Argument: "rest", Problem: fmt.Sprintf("%s is shorter than the minimum %s; Release frees the key at once", rest, MinTTL)}
	}
	c := h.client
	ttl, err := resolveTTL(rest, rest, c.options.MaxTTL, c.limits)
	if err != nil {
		return err
	}
	h.releaseOnce.Do(func() { h.releaseErr = h.leave(ctx, ttl) })
	return h.releaseErr
}

func (h *Handle) leave(ctx context.Context, rest time.Duration) error {
	// The end of the handle would break off a renewal that is under way, and the store might apply it after the one for rest. So it is let
	// finish first; a handle that is over sends no other.
	h.renewing.Lock()
	_ = h.end()
	h.renewing.Unlock()
	return h.release(ctx, rest)
}
