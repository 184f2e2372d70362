// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package leaselock_test

import (
	"fmt"
	"runtime"
	"testing"

	"go.uber.org/goleak"

	"github.com/lockstead/lockstead/pkg/lock/locktest"
	"github.com/lockstead/lockstead/pkg/lockstead/internal/apiservertest"
)

var server *apiservertest.Server

func TestMain(m *testing.M) {
	if locktest.HoldAsChild(openInChild) {
		return
	}
	// The servers end with the thread that started them.
	runtime.LockOSThread()
	before := goleak.IgnoreCurrent()
	if err := apiservertest.Run(m, func(s *apiservertest.Server) { server = s }); err != nil {
		panic(err)
	}
	if err := goleak.Find(before); err != nil {
		panic(fmt.Errorf("goroutines left behind: %w", err))
	}
}
