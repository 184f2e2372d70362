// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lockstead_test

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
	if err := apiservertest.Run(m, func(s *apiservertest.Server) { server = s }); err != nil {
		panic(err)
	}
	for _, dir := range exampleFolders {
		if err := os.RemoveAll(dir); err != nil {
			panic(err)
		}
	}
	if err := goleak.Find(before); err != nil {
		panic(fmt.Errorf("goroutines left behind: %w", err))
	}
}
