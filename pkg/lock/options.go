// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"fmt"
	"log/slog"
	"os"
	"strings"
	"time"

	"github.com/lockstead/lockstead/pkg/lock/clock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
)

// Options are what a Client can be told. The zero value, or nil, is ready to use.
type Options struct {
	// DefaultTTL is used when a caller gives TTL 0. Defaults to 30 s, or MaxTTL if that is less.
	DefaultTTL time.Duration
	// MaxTTL is the longest TTL that a caller can ask for. It must be a multiple of the store's grain. Defaults to 1 h, or
	// what the store can keep if that is less.
	MaxTTL time.Duration
	// PollInterval is how often a waiter asks the store when no notification comes: the safety net under notifications,
	// and the only way where the store has none. Jittered by a tenth. Defaults to 5 s with notifications and 250 ms without.
	PollInterval time.Duration
	// AttemptTimeout bounds one request to the store, whatever the caller's context allows. A call returns at the latest after
	// its wait and one AttemptTimeout. Defaults to 5 s.
	AttemptTimeout time.Duration
	// ReleaseTimeout bounds the release, which does not use the caller's context, so that a cancelled caller still
	// releases. Defaults to 5 s.
	ReleaseTimeout time.Duration
	// Owner is shown to people who inspect a lock; at most 256 bytes. Defaults to pod (or host), namespace and process id.
	Owner string
	// Logger gets Debug records with key and durations, Warn records for lost locks and waits that ended without the lock, and Error records for
	// observers that panic. Defaults to no logging.
	Logger *slog.Logger
	// Observers are told of every acquire, hold, renewal and release, in this order; nil ones are left out. Defaults to none, which costs nothing.
	Observers []*Observer
	// Clock is for tests. Defaults to clock.Boot.
	Clock clock.Clock
}

const (
	maxOwnerBytes         = 256
	defaultTTL            = 30 * time.Second
	defaultMaxTTL         = time.Hour
	defaultPollNotified   = 5 * time.Second
	defaultPollUnnotified = 250 * time.Millisecond
	defaultAttemptTimeout = 5 * time.Second
	defaultReleaseTimeout = 5 * time.Second
)

// resolve fills in the defaults and refuses what cannot work.
func (o *Options) resolve(limits driver.Limits, notified bool) (Options, error) {
	var r Options
	if o != nil {
		r = *o
	}
	if r.MaxTTL == 0 {
		r.MaxTTL = min(defaultMaxTTL, limits.MaxTTL)
	}
	for _, d := range []struct {
		name  string
		value *time.Duration
		usual time.Duration
	}{
		{"MaxTTL", &r.MaxTTL, r.MaxTTL},
		{"DefaultTTL", &r.DefaultTTL, min(defaultTTL, r.MaxTTL)},
		{"PollInterval", &r.PollInterval, pollDefault(notified)},
		{"AttemptTimeout", &r.AttemptTimeout, defaultAttemptTimeout},
		{"ReleaseTimeout", &r.ReleaseTimeout, defaultReleaseTimeout},
	} {
		switch {
		case *d.value == 0:
			*d.value = d.usual
		case *d.value < 0:
			return r, &InvalidError{Argument: d.name, Problem: fmt.Sprintf("%s is negative", *d.value)}
		}
	}
	switch {
	case r.MaxTTL > limits.MaxTTL:
		return r, &InvalidError{Argument: "MaxTTL", Problem: fmt.Sprintf("%s is longer than the %s that the store can keep", r.MaxTTL, limits.MaxTTL)}
	case r.MaxTTL%limits.Granularity != 0:
		return r, &InvalidError{Argument: "MaxTTL", Problem: fmt.Sprintf("%s is not a multiple of the store's grain %s", r.MaxTTL, limits.Granularity)}
	case r.DefaultTTL < MinTTL || r.DefaultTTL > r.MaxTTL:
		return r, &InvalidError{Argument: "DefaultTTL", Problem: fmt.Sprintf("%s is not between %s and MaxTTL %s", r.DefaultTTL, MinTTL, r.MaxTTL)}
	case len(r.Owner) > maxOwnerBytes:
		return r, &InvalidError{Argument: "Owner", Problem: fmt.Sprintf("has %d bytes, the maximum is %d", len(r.Owner), maxOwnerBytes)}
	}
	if r.Owner == "" {
		r.Owner = defaultOwner()
	}
	if r.Logger == nil {
		r.Logger = slog.New(slog.DiscardHandler)
	}
	if r.Clock == nil {
		r.Clock = clock.Boot()
	}
	return r, nil
}

func pollDefault(notified bool) time.Duration {
	if notified {
		return defaultPollNotified
	}
	return defaultPollUnnotified
}

// defaultOwner is "pod/namespace/pid"; a pod's host name is its name, and its namespace stands in the service account volume or in the usual
// downward variable.
func defaultOwner() string {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown-host"
	}
	parts := []string{host}
	if namespace := os.Getenv("POD_NAMESPACE"); namespace != "" {
		parts = append(parts, namespace)
	} else if raw, err := os.ReadFile("/var/run/secrets/kubernetes.io/serviceaccount/namespace"); err == nil {
		parts = append(parts, strings.TrimSpace(string(raw)))
	}
	owner := strings.Join(append(parts, fmt.Sprintf("pid-%d", os.Getpid())), "/")
	return owner[:min(len(owner), maxOwnerBytes)]
}
