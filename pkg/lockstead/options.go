// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lockstead

import (
	"fmt"
	"log/slog"
	"time"

	"github.com/redis/go-redis/v9"
	"k8s.io/client-go/rest"

	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/clock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
)

// Options are what Open can be told. The zero value, or nil, is ready to use in a pod that mounts a binding.
type Options struct {
	// BindingDir is the folder where the binding Secret is mounted. Defaults to the search in the package documentation.
	BindingDir string

	// Driver is a backend of the application's own. It needs Prefix; no binding is read then, and Close does not close the driver.
	// Defaults to what the binding names.
	Driver driver.Driver
	// Redis is a client of the application's own, used instead of the server and the credentials of the binding; Close does not close it. With
	// Prefix no binding is read; without, the prefix and the durations come from the binding. Defaults to a client made from the
	// binding.
	Redis redis.UniversalClient
	// RESTConfig is how a Lease binding reaches the Kubernetes API. Defaults to the pod's service account.
	RESTConfig *rest.Config
	// Prefix starts every key in the store; every replica must give the same. Only with Driver or Redis. Defaults to the prefix of the
	// binding.
	Prefix string

	// Lock are the options of the lock client. Its DefaultTTL and MaxTTL default to those of the binding, its Logger and Clock to those
	// here. Defaults to none.
	Lock *lock.Options
	// RefreshInterval is how often the folder is read again. Defaults to 5 s.
	RefreshInterval time.Duration
	// Logger gets a warning about the fallback, and about bindings that change or cannot be read. Defaults to Lock.Logger, else to
	// slog.Default.
	Logger *slog.Logger
	// Clock is for tests. Defaults to clock.Boot.
	Clock clock.Clock
}

const defaultRefreshInterval = 5 * time.Second

// resolve fills in the defaults and refuses what contradicts itself.
func (o *Options) resolve() (Options, lock.Options, error) {
	var r Options
	if o != nil {
		r = *o
	}
	var l lock.Options
	if r.Lock != nil {
		l = *r.Lock
	}
	switch {
	case r.Driver != nil && r.Redis != nil:
		return r, l, refuse("Options.Driver", "is set beside Options.Redis: give one")
	case r.Driver != nil && r.Prefix == "":
		return r, l, refuse("Options.Prefix", "is empty: give it with Options.Driver, as no binding is read that could tell it")
	case r.Driver == nil && r.Redis == nil && r.Prefix != "":
		return r, l, refuse("Options.Prefix", "is only for Options.Driver and Options.Redis: leave it out, as the binding tells it")
	case r.RefreshInterval < 0:
		return r, l, refuse("Options.RefreshInterval", fmt.Sprintf("is %s: give a positive duration, or 0 for the default", r.RefreshInterval))
	}
	if r.RefreshInterval == 0 {
		r.RefreshInterval = defaultRefreshInterval
	}
	if r.Logger == nil {
		if r.Logger = l.Logger; r.Logger == nil {
			r.Logger = slog.Default()
		}
	}
	if l.Logger == nil {
		l.Logger = r.Logger
	}
	if r.Clock == nil {
		if r.Clock = l.Clock; r.Clock == nil {
			r.Clock = clock.Boot()
		}
	}
	if l.Clock == nil {
		l.Clock = r.Clock
	}
	return r, l, nil
}

// needsBinding tells whether anything is still to be learned from a binding.
func (o Options) needsBinding() bool { return o.Prefix == "" }

// refuse says that an option cannot work.
func refuse(option, problem string) error {
	return &driver.OptionError{Package: "lockstead", Option: option, Problem: problem}
}

// bound takes the durations that the application did not give from the binding.
func bound(l lock.Options, b *binding.Binding) (lock.Options, error) {
	if l.MaxTTL > b.TTLMax {
		return l, refuse("Options.Lock.MaxTTL", fmt.Sprintf("is %s, above %s, the maximum of LockNamespace %s: give a smaller one, or raise its spec.ttl.max",
			l.MaxTTL, b.TTLMax, b.LockNamespace))
	}
	if l.MaxTTL == 0 {
		l.MaxTTL = b.TTLMax
	}
	if l.DefaultTTL == 0 {
		l.DefaultTTL = min(b.TTLDefault, l.MaxTTL)
	}
	return l, nil
}
