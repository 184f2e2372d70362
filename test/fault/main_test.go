// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package fault_test

import (
	"context"
	"encoding/json"
	"fmt"
	"os"
	"os/signal"
	"syscall"
	"testing"

	"github.com/lockstead/lockstead/test/fault/client"
)

// clientVariable has the configuration of a client: the test binary is the client then.
const clientVariable = "FAULT_CLIENT"

func TestMain(m *testing.M) {
	if config, ok := os.LookupEnv(clientVariable); ok {
		os.Exit(runClient(config))
	}
	os.Exit(m.Run())
}

// runClient works until it is told to end.
func runClient(config string) (code int) {
	ctx, cancel := signal.NotifyContext(context.Background(), syscall.SIGTERM)
	defer cancel()
	var c client.Config
	err := json.Unmarshal([]byte(config), &c)
	if err == nil {
		err = client.Run(ctx, c)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "client %s: %v\n", c, err)
		return 1
	}
	return 0
}
