// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build planted

package client

import (
	"context"
	"errors"
	"sync/atomic"

	"github.com/lockstead/lockstead/pkg/lock/clock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
)

// Bugs are what can be planted into a driver. Each was a real one of some lock library; the checkers must find them all.
func Bugs() []string {
	return []string{
		"release-unchecked", "renew-unchecked", "counted-from-response", "token-reset", "re-read-before-release", "lost-wake-up", "renew-re-creates",
		"unknown-called-unavailable",
	}
}

// planted is a driver with a bug. It is a driver.Waiter and a driver.Passer like the real one, but renews one by one.
type planted struct {
	driver.Driver
	driver.Passer
	waiter driver.Waiter
	bug    string
	// owner is the name of the process, which all its locks share.
	owner  string
	grants atomic.Uint64
}

func plant(bug, owner string, d driver.Driver) driver.Driver {
	if bug == "" {
		return d
	}
	return &planted{Driver: d, Passer: d.(driver.Passer), waiter: d.(driver.Waiter), bug: bug, owner: owner}
}

func (p *planted) Acquire(ctx context.Context, req driver.AcquireRequest) (driver.Grant, error) {
	sent := clock.Boot().Now()
	grant, err := p.Driver.Acquire(ctx, req)
	if err != nil {
		return grant, p.dressed(err)
	}
	switch p.bug {
	case "counted-from-response":
		grant.TTL += clock.Boot().Now().Sub(sent)
	case "token-reset":
		// Each process counts on its own, as a counter in a store that lost its data does.
		grant.Token = driver.Token{Epoch: 1, Sequence: p.grants.Add(1)}
	}
	return grant, nil
}

// dressed calls what may have been applied certainly not applied.
func (p *planted) dressed(err error) error {
	if p.bug == "unknown-called-unavailable" && errors.Is(err, driver.ErrUnknown) {
		return &driver.StoreError{Outcome: driver.ErrUnavailable, Op: "acquire", Reason: "planted"}
	}
	return err
}

func (p *planted) Renew(ctx context.Context, req driver.RenewRequest) (driver.Renewal, error) {
	sent := clock.Boot().Now()
	if p.bug == "renew-unchecked" {
		if holding, err := p.Driver.Inspect(ctx, req.Key); err == nil && holding.Held {
			req.ID = holding.ID
		}
	}
	renewal, err := p.Driver.Renew(ctx, req)
	switch {
	case err == nil && p.bug == "counted-from-response":
		renewal.TTL += clock.Boot().Now().Sub(sent)
	case errors.Is(err, driver.ErrNotHolder) && p.bug == "renew-re-creates":
		grant, again := p.Driver.Acquire(ctx, driver.AcquireRequest{Key: req.Key, ID: req.ID, TTL: req.TTL, OnLost: func(error) {}})
		if again == nil {
			return driver.Renewal{TTL: grant.TTL}, nil
		}
	}
	return renewal, err
}

func (p *planted) Release(ctx context.Context, req driver.ReleaseRequest) error {
	holding, err := p.Driver.Inspect(ctx, req.Key)
	if err == nil && holding.Held {
		switch {
		case p.bug == "release-unchecked":
			req.ID = holding.ID
		case p.bug == "re-read-before-release" && holding.Owner == p.owner:
			req.ID = holding.ID
		}
	}
	return p.Driver.Release(ctx, req)
}

func (p *planted) Subscribe(ctx context.Context, key driver.Key) (driver.Subscription, error) {
	s, err := p.waiter.Subscribe(ctx, key)
	if err == nil && p.bug == "lost-wake-up" {
		return deaf{s}, nil
	}
	return s, err
}

// deaf is a subscription that tells nothing.
type deaf struct{ driver.Subscription }

func (deaf) Wake() <-chan struct{} { return nil }
