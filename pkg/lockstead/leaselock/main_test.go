// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package leaselock_test

import (
	"fmt"
	"os"
	"runtime"
	"testing"

	"github.com/lockstead/lockstead/pkg/lockstead/internal/apiserver"
)

var server *apiserver.Server

func TestMain(m *testing.M) {
	// The servers end with the thread that started them.
	runtime.LockOSThread()
	code, err := apiserver.Run(m, func(s *apiserver.Server) { server = s })
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
	}
	os.Exit(code)
}
