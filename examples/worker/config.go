// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"flag"
	"fmt"
	"log/slog"
	"strings"
	"time"

	"github.com/lockstead/lockstead/pkg/lockstead"
)

// config is what the worker can be told. Each flag has an environment variable of the same name: -section-max is WORKER_SECTION_MAX.
type config struct {
	bindingDir string
	pod        string
	keys       []string
	ttl        time.Duration
	wait       time.Duration
	sectionMin time.Duration
	sectionMax time.Duration
	logLevel   slog.Level
	// gracefulStop: end the sections and release their locks on SIGTERM. Without, the worker dies at once, as in a crash,
	// and its locks end by their TTL.
	gracefulStop bool
}

const environmentPrefix = "WORKER_"

// parseConfig reads the flags, then for those not given the environment.
func parseConfig(args []string, getenv func(string) string) (config, error) {
	var c config
	flags := flag.NewFlagSet("worker", flag.ContinueOnError)
	flags.StringVar(&c.bindingDir, "binding-dir", lockstead.DefaultBindingDir, "folder with the mounted binding Secret")
	flags.StringVar(&c.pod, "pod", "", "name of this replica in the log (default: POD_NAME)")
	keys := flags.String("keys", "order-1,order-2,order-3", "keys to compete for, joined by commas")
	flags.DurationVar(&c.ttl, "ttl", 5*time.Second, "time to live of the locks; they are renewed while a section runs")
	flags.DurationVar(&c.wait, "wait", 30*time.Second, "how long to wait for a key before starting over")
	flags.DurationVar(&c.sectionMin, "section-min", 200*time.Millisecond, "shortest section")
	flags.DurationVar(&c.sectionMax, "section-max", time.Second, "longest section")
	flags.TextVar(&c.logLevel, "log-level", slog.LevelInfo, "debug, info, warn or error")
	flags.BoolVar(&c.gracefulStop, "graceful-stop", true, "release the locks on SIGTERM; false: die at once, as in a crash")
	if err := flags.Parse(args); err != nil {
		return c, err
	}
	if flags.NArg() > 0 {
		return c, fmt.Errorf("unexpected argument %q", flags.Arg(0))
	}

	given := make(map[string]bool)
	flags.Visit(func(f *flag.Flag) { given[f.Name] = true })
	var problems []error
	flags.VisitAll(func(f *flag.Flag) {
		name := environmentPrefix + strings.ToUpper(strings.ReplaceAll(f.Name, "-", "_"))
		if value := getenv(name); value != "" && !given[f.Name] {
			if err := f.Value.Set(value); err != nil {
				problems = append(problems, fmt.Errorf("%s=%q: %w", name, value, err))
			}
		}
	})
	if err := errors.Join(problems...); err != nil {
		return c, err
	}
	if c.pod == "" {
		c.pod = getenv("POD_NAME")
	}
	for key := range strings.SplitSeq(*keys, ",") {
		if key = strings.TrimSpace(key); key != "" {
			c.keys = append(c.keys, key)
		}
	}
	return c, c.validate()
}

func (c config) validate() error {
	switch {
	case len(c.keys) == 0:
		return errors.New("-keys names no key")
	case c.sectionMin <= 0 || c.sectionMax < c.sectionMin:
		return fmt.Errorf("-section-min %s and -section-max %s: want 0 < min <= max", c.sectionMin, c.sectionMax)
	case c.wait < 0:
		return fmt.Errorf("-wait %s is negative", c.wait)
	}
	return nil
}
