// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package statemachine_test

import (
	"flag"
	"os"
	"testing"
)

// TestMain runs more sequences than rapid does unless it is told how many: virtual time is cheap.
func TestMain(m *testing.M) {
	flag.Parse()
	told := false
	flag.Visit(func(f *flag.Flag) { told = told || f.Name == "rapid.checks" })
	if !told {
		if err := flag.Set("rapid.checks", "1000"); err != nil {
			panic(err) // rapid has no such flag any more.
		}
	}
	os.Exit(m.Run())
}
