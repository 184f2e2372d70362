// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock/clock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
)

// Options are what a Driver can be told. The zero value, or nil, is ready to use.
type Options struct {
	// Access says whether the driver calls functions or sends scripts. FromBinding takes it from the binding. Defaults to
	// binding.AccessFunctions.
	Access binding.Access
	// Operated says that the operator looks after the server, for a client of the application's own with the credentials of a binding. With
	// binding.AccessScripts the driver then sends no script that the operator has not loaded, since the operator decides after a restart when
	// locks are granted again. FromBinding sets it. Defaults to false.
	Operated bool
	// MaxTTL is the longest TTL that the driver asks for, in whole milliseconds; the server may refuse shorter ones.
	// FromBinding takes it from the binding. Defaults to 24 h.
	MaxTTL time.Duration
	// AttemptTimeout bounds one request from the wait for a connection to the answer, whatever the caller's context allows. An
	// acquire is bounded by its TTL as well, and a renewal by half of its TTL, so that one that hangs leaves time for
	// another. Defaults to 3 s.
	AttemptTimeout time.Duration
	// HealthInterval is how long the connection of the subscriptions may be silent before it is asked for a sign of life; after another such time
	// without one it is taken for dead and made anew. Defaults to 5 s.
	HealthInterval time.Duration
	// SubscriptionIdle is how long the connection of the subscriptions is kept when nobody waits. Defaults to 30 s.
	SubscriptionIdle time.Duration
	// Reload reads the binding again; FromBinding calls it before each new connection, to have a rotated password in time. It must not block for
	// long. Defaults to none: Driver.Update tells of a changed binding.
	Reload func() (*binding.Binding, error)
	// Logger gets Debug records about the connection of the subscriptions. Defaults to no logging.
	Logger *slog.Logger
	// Clock is for tests. Defaults to clock.Boot.
	Clock clock.Clock
}

const (
	defaultMaxTTL           = 24 * time.Hour
	defaultAttemptTimeout   = 3 * time.Second
	defaultHealthInterval   = 5 * time.Second
	defaultSubscriptionIdle = 30 * time.Second
)

// badOption says that an option cannot work.
func badOption(option, problem string) error {
	return &driver.OptionError{Package: "redislock", Option: option, Problem: problem}
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
	}{
		{"MaxTTL", &r.MaxTTL, defaultMaxTTL},
		{"AttemptTimeout", &r.AttemptTimeout, defaultAttemptTimeout},
		{"HealthInterval", &r.HealthInterval, defaultHealthInterval},
		{"SubscriptionIdle", &r.SubscriptionIdle, defaultSubscriptionIdle},
	} {
		switch {
		case *d.value == 0:
			*d.value = d.usual
		case *d.value < 0:
			return r, badOption("Options."+d.name, fmt.Sprintf("is %s: give a positive duration, or 0 for the default", *d.value))
		}
	}
	if r.MaxTTL%granularity != 0 {
		return r, badOption("Options.MaxTTL", fmt.Sprintf("is %s: give a whole number of milliseconds", r.MaxTTL))
	}
	if r.Access == "" {
		r.Access = binding.AccessFunctions
	}
	if r.Access != binding.AccessFunctions && r.Access != binding.AccessScripts {
		return r, badOption("Options.Access", fmt.Sprintf("is %q: give %q or %q", r.Access, binding.AccessFunctions, binding.AccessScripts))
	}
	if r.Logger == nil {
		r.Logger = slog.New(slog.DiscardHandler)
	}
	if r.Clock == nil {
		r.Clock = clock.Boot()
	}
	return r, nil
}
