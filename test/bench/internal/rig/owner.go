// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package rig

import (
	"context"
	"fmt"
	"os"
	"testing"
)

// owner is what the packages that run servers for tests want to belong to. It panics with a failure where a test would end; guard turns that
// into an error.
type owner struct {
	// Never set: it is here for the method that keeps others from implementing the interface.
	testing.TB
	ctx      context.Context
	cleanups []func()
	dirs     int
	dir      string
}

type failure struct{ message string }

// guard runs a step that may fail the owner.
func guard(step func()) (err error) {
	defer func() {
		switch r := recover().(type) {
		case nil:
		case failure:
			err = fmt.Errorf("start a server: %s", r.message)
		default:
			panic(r)
		}
	}()
	step()
	return nil
}

func (o *owner) Helper()                  {}
func (o *owner) Context() context.Context { return o.ctx }
func (o *owner) Failed() bool             { return false }
func (o *owner) Name() string             { return "bench" }
func (o *owner) Cleanup(f func())         { o.cleanups = append(o.cleanups, f) }
func (o *owner) Log(...any)               {}
func (o *owner) Logf(string, ...any)      {}
func (o *owner) Error(args ...any)        { panic(failure{fmt.Sprint(args...)}) }
func (o *owner) Errorf(format string, args ...any) {
	panic(failure{fmt.Sprintf(format, args...)})
}
func (o *owner) Fatal(args ...any) { panic(failure{fmt.Sprint(args...)}) }
func (o *owner) Fatalf(format string, args ...any) {
	panic(failure{fmt.Sprintf(format, args...)})
}

func (o *owner) TempDir() string {
	o.dirs++
	dir := fmt.Sprintf("%s/%d", o.dir, o.dirs)
	if err := os.Mkdir(dir, 0o755); err != nil {
		o.Fatal(err)
	}
	return dir
}

// end runs the clean-ups, the last one first.
func (o *owner) end() {
	for len(o.cleanups) > 0 {
		last := o.cleanups[len(o.cleanups)-1]
		o.cleanups = o.cleanups[:len(o.cleanups)-1]
		last()
	}
}
