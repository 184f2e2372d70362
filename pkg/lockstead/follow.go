// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lockstead

import (
	"context"
	"fmt"
	"log/slog"
	"reflect"
	"time"

	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/clock"
)

// follower reads the binding folder again and again.
type follower struct {
	dir      string
	opened   *binding.Binding
	interval time.Duration
	clock    clock.Clock
	log      *slog.Logger
	// update passes on a binding of the same backend that differs in something.
	update func(*binding.Binding)
	// fail ends the client.
	fail func(cause error)
}

// run ends with ctx, or when the binding names another backend.
func (f follower) run(ctx context.Context) {
	last := f.opened
	unreadable := false
	for {
		timer := f.clock.NewTimer(f.interval)
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return
		}
		now, err := binding.Load(f.dir)
		switch {
		case err != nil:
			if !unreadable {
				f.log.WarnContext(ctx, "lock binding cannot be read at present; locking goes on with what was read before", "dir", f.dir, "error", err)
			}
			unreadable = true
			continue
		case !f.opened.SameBackend(now):
			cause := fmt.Errorf("%w: the folder %s holds the %s, and this process opened the %s: restart the process", lock.ErrBackendChanged, f.dir, now, f.opened)
			f.log.ErrorContext(ctx, "lock binding names another backend: all locks of this process end", "error", cause)
			f.fail(cause)
			return
		case !reflect.DeepEqual(last, now):
			f.update(now)
			f.log.InfoContext(ctx, "lock binding changed", "dir", f.dir)
		case unreadable:
			f.log.InfoContext(ctx, "lock binding can be read again", "dir", f.dir)
		}
		last, unreadable = now, false
	}
}
