// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package faulttest_test

import (
	"context"
	"os"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockstead/lockstead/controllers/controllertest"
)

var environment *controllertest.Environment

func TestMain(m *testing.M) {
	redis.SetLogger(silent{}) // It writes a line to the standard error for each connection that was disturbed.
	os.Exit(controllertest.Run(m, &environment))
}

type silent struct{}

func (silent) Printf(context.Context, string, ...any) {}
