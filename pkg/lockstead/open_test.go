// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lockstead_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/memlock"
	"github.com/lockstead/lockstead/pkg/lockstead"
)

func TestDriverThatIsHandedInWinsAndIsNotClosed(t *testing.T) {
	// A binding is there, and not looked at.
	t.Setenv(lockstead.EnvBinding, newMount(t, leaseBinding("payments")).dir)
	d := newMemory()
	c, err := lockstead.Open(t.Context(), &lockstead.Options{Driver: d, Prefix: "lk:{test}:"})
	if err != nil {
		t.Fatal(err)
	}
	h, err := c.TryAcquire(t.Context(), "order:17", time.Minute, 0)
	if err != nil {
		t.Fatal(err)
	}
	if err := h.Release(t.Context()); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		if err := c.Close(t.Context()); err != nil {
			t.Errorf("close: %v", err)
		}
	}
	if d.closed {
		t.Error("Close closed a driver that was handed in")
	}
	if _, err := c.TryAcquire(t.Context(), "order:17", time.Minute, 0); !errors.Is(err, lock.ErrClosed) {
		t.Errorf("after Close: %v, want ErrClosed", err)
	}
}

func TestContradictingOptionsAreRefused(t *testing.T) {
	dir := newMount(t, leaseBinding("payments")).dir
	d := newMemory()
	for name, o := range map[string]struct {
		options lockstead.Options
		names   string
	}{
		"driver without prefix":    {lockstead.Options{Driver: d}, "Options.Prefix"},
		"prefix without a backend": {lockstead.Options{Prefix: "lk:{test}:", BindingDir: dir}, "Options.Prefix"},
		"negative interval":        {lockstead.Options{BindingDir: dir, RefreshInterval: -1}, "Options.RefreshInterval"},
		"MaxTTL above the binding": {lockstead.Options{BindingDir: dir, Lock: &lock.Options{MaxTTL: 2 * time.Hour}}, "Options.Lock.MaxTTL"},
	} {
		_, err := lockstead.Open(t.Context(), &o.options)
		if refused, ok := errors.AsType[*driver.OptionError](err); !ok || refused.Option != o.names {
			t.Errorf("%s: error is %v, want a *driver.OptionError for %s", name, err, o.names)
		}
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := lockstead.Open(ended, &lockstead.Options{Driver: d, Prefix: "lk:{test}:"}); !errors.Is(err, context.Canceled) {
		t.Errorf("ended context: %v", err)
	}
}

// memory is a driver that tells whether it was closed.
type memory struct {
	*memlock.Driver
	closed bool
}

func newMemory() *memory { return &memory{Driver: memlock.New(nil)} }

func (m *memory) Close() error {
	m.closed = true
	return m.Driver.Close()
}
