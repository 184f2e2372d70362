// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lock_test

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
)

var errShutdown = errors.New("shutting down")

// wantEnd fails unless the caller finds the error of its context and the reason that the context was given.
func wantEnd(t *testing.T, err, contextErr error) {
	t.Helper()
	for _, want := range []error{contextErr, errShutdown} {
		if !errors.Is(err, want) {
			t.Errorf("error is %v, which does not match %q", err, want)
		}
	}
}

// Each case asks for a key that is held, with a context that ends with a reason of its own within a minute.
func TestAnEndWithAReasonMatchesTheContextErrorToo(t *testing.T) {
	for name, tc := range map[string]struct {
		prepare func(d *hooked, c *lock.Client)
		ask     func(ctx context.Context, c *lock.Client, h *lock.Handle) error
	}{
		"the head of the queue": {ask: func(ctx context.Context, c *lock.Client, _ *lock.Handle) error {
			_, err := c.Acquire(ctx, "k", 0, time.Hour)
			return err
		}},
		"behind the head of the queue": {
			prepare: func(_ *hooked, c *lock.Client) { waitingFor(context.Background(), c, time.Hour) },
			ask: func(ctx context.Context, c *lock.Client, _ *lock.Handle) error {
				_, err := c.Acquire(ctx, "k", 0, time.Hour)
				return err
			},
		},
		"a driver that tells nothing but the context's error": {
			prepare: func(d *hooked, _ *lock.Client) {
				d.beforeAcquire = func(ctx context.Context, _ driver.AcquireRequest) error {
					<-ctx.Done()
					return &driver.StoreError{Outcome: driver.ErrUnknown, Op: "acquire", Reason: "context", Err: ctx.Err()}
				}
			},
			ask: func(ctx context.Context, c *lock.Client, _ *lock.Handle) error {
				_, err := c.TryAcquire(ctx, "k", 0, 0)
				return err
			},
		},
		"a driver that tells nothing but the reason": {
			prepare: func(d *hooked, _ *lock.Client) {
				d.beforeAcquire = func(ctx context.Context, _ driver.AcquireRequest) error {
					<-ctx.Done()
					return &driver.StoreError{Outcome: driver.ErrUnknown, Op: "acquire", Reason: "context", Err: context.Cause(ctx)}
				}
			},
			ask: func(ctx context.Context, c *lock.Client, _ *lock.Handle) error {
				_, err := c.TryAcquire(ctx, "k", 0, 0)
				return err
			},
		},
		"a renewal": {
			prepare: func(d *hooked, _ *lock.Client) {
				d.beforeRenew = func(ctx context.Context, _ driver.RenewRequest) error {
					<-ctx.Done()
					return fault(driver.ErrUnknown, "renew")
				}
			},
			ask: func(ctx context.Context, _ *lock.Client, h *lock.Handle) error { return h.Renew(ctx, time.Hour) },
		},
		"a call that comes too late": {ask: func(ctx context.Context, c *lock.Client, _ *lock.Handle) error {
			<-ctx.Done()
			_, err := c.TryAcquire(ctx, "k", 0, 0)
			return err
		}},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, c := newHooked(t)
				h := mustTry(t, c, "k", time.Hour)
				if tc.prepare != nil {
					tc.prepare(d, c)
					synctest.Wait()
				}
				deadline, cancel := context.WithTimeoutCause(t.Context(), time.Second, errShutdown)
				defer cancel()
				wantEnd(t, tc.ask(deadline, c, h), context.DeadlineExceeded)
				cancelled, cancelFor := context.WithCancelCause(t.Context())
				time.AfterFunc(time.Second, func() { cancelFor(errShutdown) })
				wantEnd(t, tc.ask(cancelled, c, h), context.Canceled)
				_ = h.Release(t.Context())
			})
		})
	}
}

func TestCloseTellsWhyItGaveUp(t *testing.T) {
	for name, prepare := range map[string]func(d *hooked, c *lock.Client){
		"a release in the background": func(d *hooked, c *lock.Client) {
			d.beforeAcquire = func(context.Context, driver.AcquireRequest) error { return fault(driver.ErrUnknown, "acquire") }
			d.beforeRelease = func(ctx context.Context, _ driver.ReleaseRequest) error {
				<-ctx.Done()
				return ctx.Err()
			}
			_, _ = c.TryAcquire(context.Background(), "k", time.Hour, 0)
		},
		"a renewal": func(d *hooked, c *lock.Client) {
			d.beforeRenew = func(ctx context.Context, _ driver.RenewRequest) error {
				<-ctx.Done()
				return ctx.Err()
			}
			go func() {
				_ = c.Do(context.Background(), "k", func(ctx context.Context, _ *lock.Handle) error {
					<-ctx.Done()
					return nil
				}, &lock.DoOptions{TTL: 3 * time.Second, MaxHold: 10 * time.Second})
			}()
			<-time.NewTimer(1100 * time.Millisecond).C
		},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				d, c := newHooked(t)
				prepare(d, c)
				synctest.Wait()
				ctx, cancel := context.WithCancelCause(t.Context())
				cancel(errShutdown)
				wantEnd(t, c.Close(ctx), context.Canceled)
				pause(t, time.Minute)
			})
		})
	}
}
