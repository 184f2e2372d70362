// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package statemachine_test

import (
	"context"
	"sync/atomic"
	"time"

	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/memlock"
)

// slow is a store that does at once what it is asked, and answers late.
type slow struct {
	*memlock.Driver
	by atomic.Int64
}

// late returns an answer after the delay, or an unknown outcome when the request's time is over before.
func late[T any](ctx context.Context, s *slow, op string, answer T, err error) (T, error) {
	pause := time.NewTimer(time.Duration(s.by.Load()))
	defer pause.Stop()
	select {
	case <-pause.C:
		return answer, err
	case <-ctx.Done():
		var none T
		return none, &driver.StoreError{Outcome: driver.ErrUnknown, Op: op, Reason: "timeout", Err: ctx.Err()}
	}
}

func (s *slow) Acquire(ctx context.Context, req driver.AcquireRequest) (driver.Grant, error) {
	grant, err := s.Driver.Acquire(ctx, req)
	return late(ctx, s, "acquire", grant, err)
}

func (s *slow) Pass(ctx context.Context, req driver.PassRequest) (driver.Grant, error) {
	grant, err := s.Driver.Pass(ctx, req)
	return late(ctx, s, "pass", grant, err)
}

func (s *slow) Renew(ctx context.Context, req driver.RenewRequest) (driver.Renewal, error) {
	renewal, err := s.Driver.Renew(ctx, req)
	return late(ctx, s, "renew", renewal, err)
}
