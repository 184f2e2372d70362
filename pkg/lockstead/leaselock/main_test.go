// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package leaselock_test

import (
	"fmt"
	"os"
	"runtime"
	"testing"

	"go.uber.org/goleak"

	"github.com/lockstead/lockstead/pkg/lockstead/internal/apiservertest"
)

var server *apiservertest.Server

func TestMain(m *testing.M) {
	// The servers end with the thread that started them.
	runtime.LockOSThread()
	before := goleak.IgnoreCurrent()
	code, err := apiservertest.Run(m, func(s *apiservertest.Server) { server = s })
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	if err := goleak.Find(before); err != nil {
		fmt.Fprintln(os.Stderr, "goroutines left behind:", err)
		code = 1
	}
	os.Exit(code)
}
