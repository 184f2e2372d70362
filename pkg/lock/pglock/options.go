// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"context"
	"fmt"
	"log/slog"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstead/lockstead/pkg/lock/clock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
)

// Options are what New can be told. The zero value, or nil, is ready to use.
type Options struct {
	// Schema is the schema that the tables of SchemaSQL are in. Defaults to "lockstead".
	Schema string
	// MaxTTL is the longest TTL that the driver asks for, in whole microseconds. The database refuses one that is above the column max_ttl of the table
	// epoch. Defaults to 10 min.
	MaxTTL time.Duration
	// AttemptTimeout bounds one request to the database, connecting included. Defaults to 3 s.
	AttemptTimeout time.Duration
	// MaxSessions is how many connections the driver has at most: one, and one more for each key that this process waits for, or holds after a wait. At the
	// limit further waits poll. At least 1. Defaults to 8.
	MaxSessions int
	// WaitSlice is how long a session waits in the database before it asks anew, which bounds what a connection that was lost unseen leaves
	// behind there. Defaults to 30 s.
	WaitSlice time.Duration
	// BeforeConnect may change a copy of the configuration before each new connection, for passwords that rotate. It must not block for long. Defaults to none.
	BeforeConnect func(ctx context.Context, config *pgx.ConnConfig) error
	// Logger gets Debug records of connections, and a Warn when locks may be unsafe. Defaults to no logging.
	Logger *slog.Logger
	// Clock is for tests. Defaults to clock.Boot.
	Clock clock.Clock
}

const (
	defaultSchema         = "lockstead"
	defaultMaxTTL         = 10 * time.Minute
	defaultAttemptTimeout = 3 * time.Second
	defaultMaxSessions    = 8
	defaultWaitSlice      = 30 * time.Second
	// granularity is what timestamptz keeps.
	granularity = time.Microsecond
	// minTTL is what is left of use beside a round trip.
	minTTL = time.Millisecond
)

// refuse says that an option cannot work.
func refuse(option, problem string) error {
	return &driver.OptionError{Package: "pglock", Option: option, Problem: problem}
}

// resolve fills in the defaults and refuses what cannot work.
func (o *Options) resolve() (Options, error) {
	var r Options
	if o != nil {
		r = *o
	}
	for _, d := range []struct {
		name  string
		value *time.Duration
		usual time.Duration
		least time.Duration
	}{
		{"MaxTTL", &r.MaxTTL, defaultMaxTTL, minTTL},
		{"AttemptTimeout", &r.AttemptTimeout, defaultAttemptTimeout, time.Millisecond},
		{"WaitSlice", &r.WaitSlice, defaultWaitSlice, time.Millisecond},
	} {
		switch {
		case *d.value == 0:
			*d.value = d.usual
		case *d.value < d.least:
			return r, refuse("Options."+d.name, fmt.Sprintf("is %s: give at least %s", *d.value, d.least))
		}
	}
	if r.MaxTTL%granularity != 0 {
		return r, refuse("Options.MaxTTL", fmt.Sprintf("is %s: give a whole number of microseconds", r.MaxTTL))
	}
	if r.MaxSessions == 0 {
		r.MaxSessions = defaultMaxSessions
	}
	if r.MaxSessions < 1 {
		return r, refuse("Options.MaxSessions", fmt.Sprintf("is %d: give at least 1", r.MaxSessions))
	}
	if r.Schema == "" {
		r.Schema = defaultSchema
	}
	if err := checkSchema(r.Schema); err != nil {
		return r, err
	}
	if r.Logger == nil {
		r.Logger = slog.New(slog.DiscardHandler)
	}
	if r.Clock == nil {
		r.Clock = clock.Boot()
	}
	return r, nil
}
