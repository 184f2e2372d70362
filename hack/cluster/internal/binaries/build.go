// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package binaries

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"time"
)

// stagedPrefix begins the names of folders with unfinished programs.
const stagedPrefix = ".staged-"

// heartbeat is how often a running build says that it is still running.
const heartbeat = 30 * time.Second

type plan []target

// lacking returns the programs of the target that are not in the cache.
func (t target) lacking() []Program {
	var lacking []Program
	for _, p := range t.programs {
		if _, err := os.Stat(filepath.Join(t.dir, p.Name)); errors.Is(err, fs.ErrNotExist) {
			lacking = append(lacking, p)
		}
	}
	return lacking
}

func (p plan) missing() int {
	n := 0
	for _, t := range p {
		n += len(t.lacking())
	}
	return n
}

// build builds what is missing now: the caller holds the lock, and whoever held
// it before may have built some of it.
func (p plan) build(ctx context.Context) error {
	total := p.missing()
	if total == 0 {
		return nil
	}
	var estimate time.Duration
	for _, t := range p {
		estimate += t.cold()
	}
	start := time.Now()
	say("building %d programs of the local cluster, once: about %s when nothing is cached (%d cores)",
		total, estimate.Round(10*time.Second), runtime.NumCPU())
	done := 0
	for _, t := range p {
		lacking := t.lacking()
		if len(lacking) == 0 {
			continue
		}
		if err := t.build(ctx, done, total, lacking); err != nil {
			return err
		}
		done += len(lacking)
	}
	say("built %d programs in %s", total, time.Since(start).Round(time.Second))
	return nil
}

// cold estimates the target's build with an empty Go build cache on this machine.
func (t target) cold() time.Duration {
	var sum time.Duration
	for _, p := range t.lacking() {
		sum += p.Cold
	}
	// The figures are those of two cores; linking does not gain from more than a few.
	cores := min(runtime.NumCPU(), 8)
	return sum * 2 / time.Duration(cores)
}

// build runs one go command for all programs of the target, so that the go
// command shares the packages that they have in common and links them in parallel.
func (t target) build(ctx context.Context, done, total int, lacking []Program) error {
	if err := os.MkdirAll(t.dir, 0o755); err != nil {
		return err
	}
	// The lock is held, so what is there was left by a build that was killed.
	stale, err := filepath.Glob(filepath.Join(t.dir, stagedPrefix+"*"))
	if err != nil {
		return err
	}
	for _, folder := range stale {
		if err := os.RemoveAll(folder); err != nil {
			return err
		}
	}
	staged, err := os.MkdirTemp(t.dir, stagedPrefix)
	if err != nil {
		return err
	}
	defer os.RemoveAll(staged) //nolint:errcheck // Litter in a cache at worst.

	names, packages := make([]string, len(lacking)), make([]string, len(lacking))
	for i, p := range lacking {
		names[i], packages[i] = p.Name, p.Package
	}
	output := staged + string(filepath.Separator)
	if len(lacking) == 1 {
		// A module's path need not end in the program's name.
		output = filepath.Join(staged, names[0])
	}
	what := fmt.Sprintf("[%d-%d/%d] %s %s: %s", done+1, done+len(lacking), total, t.Name, t.version, strings.Join(names, " "))
	say("%s (about %s)", what, t.cold().Round(time.Second))

	args := append([]string{"build"}, t.flags()...)
	args = append(append(args, "-o", output), packages...)
	cmd := exec.CommandContext(ctx, "go", args...)
	cmd.Dir = t.source
	cmd.Env = append(os.Environ(), "GOWORK=off", "GOFLAGS=", "CGO_ENABLED=0")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	start := time.Now()
	stop := beat(what, start)
	err = cmd.Run()
	stop()
	if err != nil {
		return fmt.Errorf("build %s in %s: %w", strings.Join(names, " "), t.source, err)
	}
	for _, name := range names {
		if err := os.Rename(filepath.Join(staged, name), filepath.Join(t.dir, name)); err != nil {
			return err
		}
	}
	say("%s: done in %s", what, time.Since(start).Round(time.Second))
	return nil
}

// beat reports every now and then that the build still runs.
func beat(what string, start time.Time) (stop func()) {
	ticker := time.NewTicker(heartbeat)
	ended := make(chan struct{})
	go func() {
		for {
			select {
			case <-ticker.C:
				say("%s: still building after %s", what, time.Since(start).Round(time.Second))
			case <-ended:
				return
			}
		}
	}()
	return func() { ticker.Stop(); close(ended) }
}

func say(format string, args ...any) {
	fmt.Fprintf(os.Stderr, format+"\n", args...)
}
