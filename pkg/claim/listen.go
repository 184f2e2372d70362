// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package claim

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstead/lockstead/pkg/internal/pgname"
	"github.com/lockstead/lockstead/pkg/lock/clock"
)

// ListenOptions are what Listen can be told. The zero value, or nil, is ready to use.
type ListenOptions struct {
	// RetryInterval is the pause before a lost connection is made anew. Defaults to 1 s.
	RetryInterval time.Duration
	// Logger gets a Warn record for each lost connection. Defaults to no logging.
	Logger *slog.Logger
	// Clock is for tests. Defaults to clock.Boot.
	Clock clock.Clock
}

// Listen is a WorkerOptions.Wake that wakes the worker by LISTEN on a channel. connect makes a connection that is its own, such as
//
//	func(ctx context.Context) (*pgx.Conn, error) { return pgx.Connect(ctx, url) }
//
// straight to the server: a pooler that shares connections between transactions loses notifications. A notification may be lost with its connection;
// so every new LISTEN wakes the worker, and polling goes on beside it. Send with Notify.
//
// The channel is a name as in the catalogue, of up to 63 bytes. A bad one, a nil connect and a negative RetryInterval are refused with an *InvalidError. What
// is returned keeps one connection for each call of it, tries again for ever, and may be given to several workers.
func Listen(connect func(ctx context.Context) (*pgx.Conn, error), channel string, options *ListenOptions) (func(ctx context.Context, wake func()), error) {
	var o ListenOptions
	if options != nil {
		o = *options
	}
	if connect == nil {
		return nil, &InvalidError{Argument: "connect", Problem: "is nil; give a function that connects, such as with pgx.Connect"}
	}
	if err := checkIdentifier("channel", channel); err != nil {
		return nil, err
	}
	if o.RetryInterval < 0 {
		return nil, &InvalidError{Argument: "RetryInterval", Problem: "is negative"}
	}
	if o.RetryInterval == 0 {
		o.RetryInterval = time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.New(slog.DiscardHandler)
	}
	if o.Clock == nil {
		o.Clock = clock.Boot()
	}
	return func(ctx context.Context, wake func()) {
		for {
			err := listen(ctx, connect, channel, wake)
			if ctx.Err() != nil {
				return
			}
			o.Logger.WarnContext(ctx, "connection that listens for new rows was lost; it is made anew, and until then polling finds them", "channel", channel, "error", err)
			timer := o.Clock.NewTimer(o.RetryInterval)
			select {
			case <-timer.C():
			case <-ctx.Done():
				timer.Stop()
				return
			}
		}
	}, nil
}

// listen wakes until the connection or ctx ends.
func listen(ctx context.Context, connect func(ctx context.Context) (*pgx.Conn, error), channel string, wake func()) (err error) {
	conn, err := connect(ctx)
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), defaultAttemptTimeout)
		defer cancel()
		err = errors.Join(err, conn.Close(closing))
	}()
	if _, err := conn.Exec(ctx, "LISTEN "+pgname.Quote(channel)); err != nil {
		return err
	}
	for {
		wake()
		if _, err := conn.WaitForNotification(ctx); err != nil {
			return err
		}
	}
}

// Notify wakes the workers that Listen on channel. Give the transaction that inserts the row: then it is sent with the commit, and never for a row that was
// rolled back. The error is an *InvalidError for the name of the channel, or a *StoreError; then the row is found by polling.
func Notify(ctx context.Context, q Querier, channel string) error {
	if err := checkIdentifier("channel", channel); err != nil {
		return err
	}
	if _, err := q.Exec(ctx, "SELECT pg_notify($1::text, '')", channel); err != nil {
		return &StoreError{Op: "notify", Table: "channel " + channel, Err: err}
	}
	return nil
}
