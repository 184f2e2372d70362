// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build unix

package locktest

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/clock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
)

// A holder that the system stops, as a machine that sleeps or a container that is paused, must know that its lock is over before it does anything
// else. It takes a process of its own to be stopped. So a backend's test binary starts itself once more as the holder:
//
//	func TestMain(m *testing.M) {
//		if locktest.HoldAsChild(openInChild) {
//			return
//		}
//		… m.Run()
//	}
//
//	func TestFrozenHolder(t *testing.T) {
//		locktest.FrozenHolder(t, open(t), prefix, whatOpenInChildNeeds)
//	}

const (
	frozenConfig = "LOCKTEST_HOLDER_CONFIG"
	frozenPrefix = "LOCKTEST_HOLDER_PREFIX"
	frozenTTL    = "LOCKTEST_HOLDER_TTL"
	frozenKey    = "order:frozen"
)

// HoldAsChild is for TestMain. In the process that FrozenHolder starts it opens the store as config says, holds a lock, and reports true when it is done.
// In every other process it does nothing and reports false.
func HoldAsChild(open func(config string) (driver.Driver, error)) bool {
	config, child := os.LookupEnv(frozenConfig)
	if !child {
		return false
	}
	if err := holdAsChild(open, config); err != nil {
		fmt.Fprintln(os.Stdout, "failed:", err)
	}
	return true
}

// holdAsChild takes the lock, tells the instant at which it ends, waits to be told to go on, and tells what it then finds.
func holdAsChild(open func(config string) (driver.Driver, error), config string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 2*patience)
	defer cancel()
	ttl, err := time.ParseDuration(os.Getenv(frozenTTL))
	if err != nil {
		return err
	}
	d, err := open(config)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	c, err := lock.New(d, os.Getenv(frozenPrefix), nil)
	if err != nil {
		return err
	}
	h, err := c.TryAcquire(ctx, frozenKey, ttl, 0)
	if err != nil {
		return err
	}
	if err := h.Renew(ctx, ttl); err != nil {
		return err
	}
	left := h.Remaining()
	fmt.Fprintf(os.Stdout, "held until %d token %s\n", clock.Boot().Now().Add(left), h.Token())
	if _, err := io.ReadFull(os.Stdin, make([]byte, 1)); err != nil {
		return err
	}
	// The first thing that it does.
	valid, cause := h.Valid(), context.Cause(h.Context())
	renewal := h.Renew(ctx, ttl)
	fmt.Fprintf(os.Stdout, "valid %t lost %t renewed %t\n", valid, errors.Is(cause, lock.ErrLost), !errors.Is(renewal, lock.ErrLost))
	return nil
}

// FrozenHolder stops a process that holds a lock (SIGSTOP), takes the lock by d once it has run out, and lets the process go on (SIGCONT). It fails unless the
// holder's handle had ended, on the clock of the machine, before the lock was granted again, and unless the holder finds it lost before it does anything. The
// test binary must call HoldAsChild.
func FrozenHolder(t *testing.T, d driver.Driver, prefix, config string) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), 2*patience)
	defer cancel()
	s := &suite{ctx: ctx, prefix: prefix, limits: d.Limits()}
	child, say, answers := startHolder(t, s, config)
	var until clock.Instant
	var token lock.Token
	var text string
	if line := readLine(t, answers); !scan(line, "held until %d token %s", &until, &text) || token.UnmarshalText([]byte(text)) != nil {
		t.Fatalf("the holder says %q", line)
	}
	signal(t, child, syscall.SIGSTOP)
	next, err := s.clientOn(t, d, nil).Acquire(ctx, frozenKey, longTTL, patience)
	granted := clock.Boot().Now()
	if err != nil {
		t.Fatalf("the lock of a stopped holder did not become free: %v", err)
	}
	if granted <= until {
		t.Errorf("the lock was granted %s before the handle of the stopped holder ended", until.Sub(granted))
	}
	if !token.Less(next.Token()) {
		t.Errorf("token %s of the next holder is not greater than %s", next.Token(), token)
	}
	if _, err := say.Write([]byte("\n")); err != nil {
		t.Fatal(err)
	}
	signal(t, child, syscall.SIGCONT)
	if line := readLine(t, answers); line != "valid false lost true renewed false" {
		t.Errorf("the holder that goes on says %q, want its handle lost", line)
	}
	if !next.Valid() {
		t.Errorf("the holder that went on ended the next one: %v", next.Err())
	}
	mustRelease(t, ctx, next)
}

func scan(line, format string, into ...any) bool {
	n, err := fmt.Sscanf(line, format, into...)
	return err == nil && n == len(into)
}

// startHolder starts the test binary as a holder, which ends with the test.
func startHolder(t *testing.T, s *suite, config string) (*exec.Cmd, io.Writer, *bufio.Reader) {
	t.Helper()
	binary, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	child := exec.CommandContext(s.ctx, binary, "-test.run=^$") //nolint:gosec // The test binary itself.
	child.Env = append(os.Environ(), frozenConfig+"="+config, frozenPrefix+"="+s.prefix, frozenTTL+"="+s.whole(2*s.short()).String())
	child.Stderr = t.Output()
	say, err := child.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	answers, err := child.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := child.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		_ = child.Process.Kill()
		_ = child.Wait()
	})
	return child, say, bufio.NewReader(answers)
}

// readLine returns what the child says; it says something, or ends with the context.
func readLine(t *testing.T, answers *bufio.Reader) string {
	t.Helper()
	line, err := answers.ReadString('\n')
	if err != nil {
		t.Fatalf("the holder's process said %q: %v", line, err)
	}
	return strings.TrimSpace(line)
}

func signal(t *testing.T, child *exec.Cmd, signal syscall.Signal) {
	t.Helper()
	if err := child.Process.Signal(signal); err != nil {
		t.Fatal(err)
	}
}
