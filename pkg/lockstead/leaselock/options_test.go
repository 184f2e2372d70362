// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package leaselock_test

import (
	"errors"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lockstead/leaselock"
)

func TestArgumentsThatCannotWorkAreRefused(t *testing.T) {
	good := &rest.Config{Host: "https://127.0.0.1:1"}
	for name, c := range map[string]struct {
		config    *rest.Config
		namespace string
		options   *leaselock.Options
		names     string
	}{
		"no config":        {nil, "payments", nil, "config"},
		"no namespace":     {good, "", nil, "namespace"},
		"negative time":    {good, "payments", &leaselock.Options{AttemptTimeout: -1}, "Options.AttemptTimeout"},
		"authority is bad": {&rest.Config{Host: good.Host, TLSClientConfig: rest.TLSClientConfig{CAData: []byte("no PEM")}}, "payments", nil, "config"},
	} {
		_, err := leaselock.New(c.config, c.namespace, c.options)
		if refused, ok := errors.AsType[*driver.OptionError](err); !ok || refused.Option != c.names {
			t.Errorf("%s: error is %v, want a *driver.OptionError for %s", name, err, c.names)
		}
	}
}
