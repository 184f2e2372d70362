// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"context"
	"errors"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstead/lockstead/pkg/lock"
)

// MigrateOptions are what Migrate can be told. The zero value, or nil, is ready to use.
type MigrateOptions struct {
	// Wait is how long to wait for another replica that migrates. Negative is refused. Defaults to 5 min.
	Wait time.Duration
	// TTL is how long the lock outlives a process that vanishes in the middle; it is renewed while the function runs. Defaults to 30 s.
	TTL time.Duration
	// MaxHold is the longest time for the function; then its context ends. Defaults to 24 h.
	MaxHold time.Duration
	// Owner is shown to people who ask who migrates. Defaults to that of lock.Options.
	Owner string
	// SkipInstall says that the tables are there, for a role that may not create them. Defaults to false.
	SkipInstall bool
	// Options are those of the driver. MaxTTL need not be set.
	Options Options
}

const (
	migratePrefix      = "migrations:"
	defaultMigrateWait = 5 * time.Minute
	defaultMigrateTTL  = 30 * time.Second
	// defaultMigrateMaxHold is not the TTL, which a vanished replica costs the others.
	defaultMigrateMaxHold = 24 * time.Hour
)

// Migrate runs fn while no other replica runs one for the same name, and returns what it returned. It is for the start of an application: it makes the tables of this package
// if they are missing, connects, waits for the lock, and leaves nothing open. config must lead to the server itself, not to a pooler, even if the
// application uses one.
//
// Every replica runs fn, one after the other, so fn finds out what is left to do, as the tools for migrations do. Its context ends with ctx, and with the lock:
// when an administrator ends the session, when the row was taken away, or when the database cannot be reached until the TTL is over. Then fn should stop; a step that
// runs inside a transaction is undone. Give fn a database connection of its own.
//
// Errors: that of fn, joined with a *lock.LostError if the lock ended before fn returned; a *lock.WaitTimeoutError, which matches lock.ErrHeld, when another
// replica took longer than Wait; those of Install and New; *driver.OptionError.
func Migrate(ctx context.Context, config *pgx.ConnConfig, name string, fn func(ctx context.Context) error, options *MigrateOptions) (err error) {
	var o MigrateOptions
	if options != nil {
		o = *options
	}
	switch {
	case name == "":
		return refuse("name", "is empty: give one per set of migrations, such as the name of the application")
	case fn == nil:
		return refuse("fn", "is nil: give the function that migrates")
	case o.Wait < 0:
		return refuse("MigrateOptions.Wait", "is negative: 0 is the default of 5 min")
	}
	if o.Wait == 0 {
		o.Wait = defaultMigrateWait
	}
	if o.TTL == 0 {
		o.TTL = defaultMigrateTTL
	}
	if o.MaxHold == 0 {
		o.MaxHold = defaultMigrateMaxHold
	}
	if !o.SkipInstall {
		if err := Install(ctx, config, o.Options.Schema); err != nil {
			return err
		}
	}
	d, err := New(ctx, config, &o.Options)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, d.Close()) }()
	logger := o.Options.Logger
	if logger == nil {
		logger = slog.New(slog.DiscardHandler)
	}
	client, err := lock.New(d, migratePrefix, &lock.Options{Owner: o.Owner, Logger: logger, MaxTTL: d.Limits().MaxTTL})
	if err != nil {
		return err
	}
	defer func() {
		closing, cancel := context.WithTimeout(context.WithoutCancel(ctx), defaultAttemptTimeout)
		defer cancel()
		err = errors.Join(err, client.Close(closing))
	}()
	err = client.Do(ctx, name, func(ctx context.Context, _ *lock.Handle) error { return fn(ctx) }, &lock.DoOptions{TTL: o.TTL, Wait: o.Wait, MaxHold: o.MaxHold})
	if held, ok := errors.AsType[*lock.HeldError](err); ok {
		return &lock.WaitTimeoutError{Key: name, Wait: o.Wait, Held: held}
	}
	return err
}
