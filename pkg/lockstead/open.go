// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lockstead

import (
	"context"
	"errors"
	"os"
	"sync"
	"sync/atomic"

	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
)

// Client is a lock client that also owns the way to its backend. Hand its embedded *lock.Client to code that only locks.
type Client struct {
	*lock.Client

	backend *backend
	// binding is the present one; nil without.
	binding atomic.Pointer[binding.Binding]
	stop    context.CancelFunc
	work    sync.WaitGroup
	once    sync.Once
	closed  error
}

// Open returns a client for the locks of the mounted binding, or for the backend that the options hand in. It contacts no server. Make one client for a
// process, and close it at the end.
//
// Errors: *driver.OptionError and *lock.InvalidError for options, *binding.LoadError for a folder that is no binding, and others that name what is
// missing. Then nothing is left open.
func Open(ctx context.Context, options *Options) (*Client, error) {
	if err := driver.ContextError(ctx); err != nil {
		return nil, err
	}
	o, l, err := options.resolve()
	if err != nil {
		return nil, err
	}
	if !o.needsBinding() {
		back, err := handedIn(o)
		if err != nil {
			return nil, err
		}
		return open(l, back, o.Prefix)
	}
	dir, err := locate(o.BindingDir, os.Getenv)
	if err != nil {
		return nil, err
	}
	b, err := binding.Load(dir)
	if err != nil {
		return nil, err
	}
	if l, err = bound(l, b); err != nil {
		return nil, err
	}
	back, err := fromBinding(o, b, dir)
	if err != nil {
		return nil, err
	}
	c, err := open(l, back, b.Prefix)
	if err != nil {
		return nil, err
	}
	c.binding.Store(b)
	watchCtx, cancel := context.WithCancel(context.Background())
	c.stop = cancel
	update := func(now *binding.Binding) {
		c.binding.Store(now)
		back.update(now)
	}
	f := follower{dir: dir, opened: b, interval: o.RefreshInterval, clock: o.Clock, log: o.Logger, update: update, fail: c.Fail}
	c.work.Go(func() { f.run(watchCtx) })
	return c, nil
}

func open(l lock.Options, back *backend, prefix string) (*Client, error) {
	client, err := lock.New(back.driver, prefix, &l)
	if err != nil {
		return nil, errors.Join(err, back.close())
	}
	return &Client{Client: client, backend: back, stop: func() {}}, nil
}

// Close makes every later call return lock.ErrClosed, waits until ctx ends for releases that are under way in the background, and closes what
// Open made. Release the handles first: those that are still held end by their TTL, and Close says so. It is idempotent.
func (c *Client) Close(ctx context.Context) error {
	c.once.Do(func() {
		c.stop()
		c.work.Wait()
		c.closed = errors.Join(c.Client.Close(ctx), c.backend.close())
	})
	return c.closed
}
