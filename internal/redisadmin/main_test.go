// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisadmin_test

import (
	"os"
	"testing"

	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

func TestMain(m *testing.M) { os.Exit(redistest.PerServer(m).Run()) }
