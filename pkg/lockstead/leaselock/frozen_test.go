// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package leaselock_test

import (
	"encoding/json"
	"testing"

	"k8s.io/client-go/rest"

	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/locktest"
	"github.com/lockstead/lockstead/pkg/lockstead/internal/apiservertest"
	"github.com/lockstead/lockstead/pkg/lockstead/leaselock"
)

// childConfig is what a process that is stopped needs of the API server.
type childConfig struct {
	Host, Token, Namespace, CAFile string
	CAData                         []byte
}

func openInChild(config string) (driver.Driver, error) {
	var c childConfig
	if err := json.Unmarshal([]byte(config), &c); err != nil {
		return nil, err
	}
	access := &rest.Config{Host: c.Host, BearerToken: c.Token, TLSClientConfig: rest.TLSClientConfig{CAFile: c.CAFile, CAData: c.CAData}}
	return leaselock.New(access, c.Namespace, nil)
}

func TestFrozenHolder(t *testing.T) {
	namespace := server.Namespace(t)
	config := server.ServiceAccount(t, namespace, "consumer", apiservertest.LeaseVerbs)
	child, err := json.Marshal(childConfig{
		Host: config.Host, Token: config.BearerToken, Namespace: namespace, CAFile: config.CAFile, CAData: config.CAData,
	})
	if err != nil {
		t.Fatal(err)
	}
	locktest.FrozenHolder(t, newDriver(t, config, namespace, nil), newPrefix(), string(child))
}
