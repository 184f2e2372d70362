// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"errors"
	"fmt"
	"iter"

	"github.com/lockstead/lockstead/pkg/lock/driver"
)

// HeldKey is a key that is held, and by whom.
type HeldKey struct {
	// Key is the application's key.
	Key string
	// Holding says who holds it. Held is always true.
	driver.Holding
}

// listPage is how many keys List asks for at once.
const listPage = 256

// Inspect tells who holds key, for people: the answer may be out of date when it arrives, so never decide by it. A key that nobody holds is no error.
//
// Errors: ErrUnavailable, ErrUnknown and ErrForeign for faults of the store; an error that matches the context's when ctx ended; *InvalidError;
// ErrBackendChanged; ErrClosed.
func (c *Client) Inspect(ctx context.Context, key string) (driver.Holding, error) {
	if err := validateKey(key); err != nil {
		return driver.Holding{}, err
	}
	if err := c.err(); err != nil {
		return driver.Holding{}, err
	}
	attemptCtx, cancel := context.WithTimeout(ctx, c.options.AttemptTimeout)
	defer cancel()
	holding, err := c.driver.Inspect(attemptCtx, c.qualify(key))
	return holding, tellContexts(ctx, "inspect", err)
}

// List tells which keys of the lock namespace are held, by any process, for people: each key once, in any order. It reads page by page while
// the loop runs, so each answer may be out of date when it arrives; never decide by it. A key that one acquisition holds all the while is in it.
//
// An error is the last element: one that matches errors.ErrUnsupported when the store cannot list, else as for Inspect.
func (c *Client) List(ctx context.Context) iter.Seq2[HeldKey, error] {
	return func(yield func(HeldKey, error) bool) {
		lister, ok := c.driver.(driver.Lister)
		if !ok {
			yield(HeldKey{}, fmt.Errorf("lock: list: %w: this store cannot tell which keys are held", errors.ErrUnsupported))
			return
		}
		seen := map[string]struct{}{}
		req := driver.ListRequest{Prefix: c.prefix, Limit: listPage}
		for {
			page, err := c.page(ctx, lister, req)
			if err != nil {
				yield(HeldKey{}, err)
				return
			}
			for _, held := range page.Held {
				if _, again := seen[held.Name]; again {
					continue
				}
				seen[held.Name] = struct{}{}
				if !yield(HeldKey{Key: held.Name, Holding: held.Holding}, nil) {
					return
				}
			}
			if page.Next == "" {
				return
			}
			req.Cursor = page.Next
		}
	}
}

func (c *Client) page(ctx context.Context, lister driver.Lister, req driver.ListRequest) (driver.ListPage, error) {
	if err := c.err(); err != nil {
		return driver.ListPage{}, err
	}
	attemptCtx, cancel := context.WithTimeout(ctx, c.options.AttemptTimeout)
	defer cancel()
	page, err := lister.List(attemptCtx, req)
	return page, tellContexts(ctx, "list", err)
}

// ForceRelease takes the lock on key away from its holder and frees it, for people who know that the holder is stuck. The holder's work is not
// stopped: its handle is lost at its next renewal, or at once where the store tells it, and at its deadline at the latest, and until then it may go on
// while somebody else holds the lock. So end the holder first where you can, and give the returned Fence, which is greater than the
// holder's token, to the resources that check tokens.
//
// With id, that of the acquisition that was seen by Inspect or List, the lock is taken from that one alone, and whoever has taken it
// since keeps it. With "" it is taken from whoever holds it now.
//
// Errors: *NotHeldError (ErrNotHeld); errors.ErrUnsupported when the store cannot do it; ErrUnavailable, ErrUnknown and ErrForeign
// for faults of the store; an error that matches the context's when ctx ended; *InvalidError; ErrBackendChanged; ErrClosed.
func (c *Client) ForceRelease(ctx context.Context, key, id string) (driver.ForcedRelease, error) {
	const op = "force-release"
	if err := validateKey(key); err != nil {
		return driver.ForcedRelease{}, err
	}
	if err := c.err(); err != nil {
		return driver.ForcedRelease{}, err
	}
	forcer, ok := c.driver.(driver.ForceReleaser)
	if !ok {
		return driver.ForcedRelease{}, fmt.Errorf("lock: %s: %w: this store cannot take a lock from its holder", op, errors.ErrUnsupported)
	}
	attemptCtx, cancel := context.WithTimeout(ctx, c.options.AttemptTimeout)
	defer cancel()
	forced, err := forcer.ForceRelease(attemptCtx, driver.ForceReleaseRequest{Key: c.qualify(key), ID: id})
	if errors.Is(err, driver.ErrNotHolder) {
		return driver.ForcedRelease{}, &NotHeldError{Key: key, ID: id}
	}
	if err != nil {
		return driver.ForcedRelease{}, tellContexts(ctx, op, err)
	}
	c.log.WarnContext(ctx, "lock was taken from its holder by force",
		"key", key, "acquisition", forced.Holding.ID, "owner", forced.Holding.Owner, "token", forced.Holding.Token.String())
	return forced, nil
}
