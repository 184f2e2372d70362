// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"

	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/test/fault/history"
)

// record puts a recorder before a driver: every request and answer is written down, those of the background included.
func record(d driver.Driver, out *history.Writer) driver.Driver {
	r := &recorder{Driver: d, out: out}
	waiter, _ := d.(driver.Waiter)
	passer, _ := d.(driver.Passer)
	batcher, _ := d.(driver.BatchRenewer)
	switch {
	case waiter != nil && passer != nil && batcher != nil:
		return struct {
			*recorder
			driver.Waiter
			recordedPasser
			recordedBatcher
		}{r, waiter, recordedPasser{passer, out}, recordedBatcher{batcher, out}}
	case waiter != nil && passer != nil:
		return struct {
			*recorder
			driver.Waiter
			recordedPasser
		}{r, waiter, recordedPasser{passer, out}}
	default:
		return r
	}
}

type recorder struct {
	driver.Driver
	out *history.Writer
}

func (r *recorder) Acquire(ctx context.Context, req driver.AcquireRequest) (driver.Grant, error) {
	answered := r.out.Call(history.Record{Op: history.Acquire, Key: req.Key.Name, ID: req.ID, TTL: req.TTL})
	grant, err := r.Driver.Acquire(ctx, req)
	answered(statusOf(err), grant.Token, note(err))
	return grant, err
}

func (r *recorder) Renew(ctx context.Context, req driver.RenewRequest) (driver.Renewal, error) {
	answered := callRenew(r.out, req)
	renewal, err := r.Driver.Renew(ctx, req)
	answered(statusOf(err), driver.Token{}, note(err))
	return renewal, err
}

func (r *recorder) Release(ctx context.Context, req driver.ReleaseRequest) error {
	answered := r.out.Call(history.Record{Op: history.Release, Key: req.Key.Name, ID: req.ID})
	err := r.Driver.Release(ctx, req)
	answered(statusOf(err), driver.Token{}, note(err))
	return err
}

type recordedPasser struct {
	passer driver.Passer
	out    *history.Writer
}

func (p recordedPasser) Pass(ctx context.Context, req driver.PassRequest) (driver.Grant, error) {
	answered := p.out.Call(history.Record{Op: history.Pass, Key: req.To.Key.Name, ID: req.To.ID, From: req.From, TTL: req.To.TTL})
	grant, err := p.passer.Pass(ctx, req)
	answered(statusOf(err), grant.Token, note(err))
	return grant, err
}

type recordedBatcher struct {
	batcher driver.BatchRenewer
	out     *history.Writer
}

func (b recordedBatcher) RenewBatch(ctx context.Context, reqs []driver.RenewRequest) []driver.RenewOutcome {
	answered := make([]func(history.Status, driver.Token, string), len(reqs))
	for i, req := range reqs {
		answered[i] = callRenew(b.out, req)
	}
	outcomes := b.batcher.RenewBatch(ctx, reqs)
	for i, o := range outcomes {
		answered[i](statusOf(o.Err), driver.Token{}, note(o.Err))
	}
	return outcomes
}

func callRenew(out *history.Writer, req driver.RenewRequest) func(history.Status, driver.Token, string) {
	return out.Call(history.Record{Op: history.Renew, Key: req.Key.Name, ID: req.ID, TTL: req.TTL})
}

// statusOf is an outcome of package driver. An error that is none of them may mean anything.
func statusOf(err error) history.Status {
	switch {
	case err == nil:
		return history.OK
	case errors.Is(err, driver.ErrHeld):
		return history.Held
	case errors.Is(err, driver.ErrNotHolder), errors.Is(err, driver.ErrForeign):
		return history.NotHolder
	case errors.Is(err, driver.ErrUnavailable), errors.Is(err, driver.ErrBackendChanged):
		return history.Unavailable
	default:
		return history.Unknown
	}
}

func note(err error) string {
	if store, ok := errors.AsType[*driver.StoreError](err); ok {
		return store.Reason
	}
	return ""
}
