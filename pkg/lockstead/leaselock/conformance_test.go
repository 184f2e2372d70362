// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package leaselock_test

import (
	"crypto/rand"
	"fmt"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/rest"

	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/locktest"
	"github.com/lockstead/lockstead/pkg/lockstead/internal/apiservertest"
	"github.com/lockstead/lockstead/pkg/lockstead/leaselock"
	"github.com/lockstead/lockstead/pkg/lockstead/leaselock/leaseformat"
)

func TestConformance(t *testing.T) {
	namespace := server.Namespace(t)
	config := server.ServiceAccount(t, namespace, "consumer", apiservertest.LeaseVerbs)
	admin := server.Leases(t, namespace)
	locktest.Run(t, locktest.Harness{
		NewDriver: func(t *testing.T) driver.Driver { return newDriver(t, config, namespace, nil) },
		NewFaulty: func(t *testing.T) (driver.Driver, locktest.Fault) {
			fault := newFault()
			disturbed := rest.CopyConfig(config)
			disturbed.Dial = fault.dial
			return newDriver(t, disturbed, namespace, nil), fault
		},
		NewPrefix: func(*testing.T) string { return newPrefix() },
		Remove: func(t *testing.T, key driver.Key) {
			if err := admin.Delete(t.Context(), leaseformat.Name(key.Prefix, key.Name), metav1.DeleteOptions{}); err != nil {
				t.Fatal(err)
			}
		},
	})
}

func newPrefix() string { return fmt.Sprintf("lk:{test/%s}:", strings.ToLower(rand.Text())) }

func newDriver(t *testing.T, config *rest.Config, namespace string, options *leaselock.Options) *leaselock.Driver {
	t.Helper()
	d, err := leaselock.New(config, namespace, options)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := d.Close(); err != nil {
			t.Error(err)
		}
	})
	return d
}
