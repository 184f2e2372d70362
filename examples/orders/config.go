// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"strings"
	"time"
)

// config is what the service is told by its environment.
type config struct {
	// databaseURL leads to PostgreSQL itself, not to a pooler.
	databaseURL string
	// redisURL is where records are kept. Without, they are in the database.
	redisURL string
	// locksInDatabase says that the locks are in the database and not where the binding of the LockNamespace says.
	locksInDatabase bool
	// tokens are those of the customers.
	tokens map[string]string
	// addr is where the API is served, adminAddr where health and metrics are.
	addr, adminAddr string
	// lease is how long a key stays taken after its replica died.
	lease time.Duration
	// drain is how long a replica that ends goes on taking requests, until nobody sends it new ones.
	drain time.Duration
}

func parseConfig(getenv func(string) string) (config, error) {
	or := func(name, usual string) string {
		if value := getenv(name); value != "" {
			return value
		}
		return usual
	}
	c := config{
		databaseURL: getenv("DATABASE_URL"),
		redisURL:    getenv("REDIS_URL"),
		addr:        or("ORDERS_ADDR", ":8080"),
		adminAddr:   or("ORDERS_ADMIN_ADDR", ":9090"),
		tokens:      make(map[string]string),
	}
	var problems []error
	if c.databaseURL == "" {
		problems = append(problems, errors.New("DATABASE_URL is missing: set it to postgres://user:password@host/database"))
	}
	for _, d := range []struct {
		name, usual string
		value       *time.Duration
	}{{"ORDERS_LEASE", "30s", &c.lease}, {"ORDERS_DRAIN", "0s", &c.drain}} {
		value, err := time.ParseDuration(or(d.name, d.usual))
		if err != nil || value < 0 {
			problems = append(problems, fmt.Errorf("%s is no duration like %s", d.name, d.usual))
		}
		*d.value = value
	}
	switch locks := or("ORDERS_LOCKS", "binding"); locks {
	case "binding":
	case "database":
		c.locksInDatabase = true
	default:
		problems = append(problems, fmt.Errorf("ORDERS_LOCKS is %q: set it to binding or database", locks))
	}
	for pair := range strings.SplitSeq(getenv("ORDERS_TOKENS"), ",") {
		customer, token, ok := strings.Cut(strings.TrimSpace(pair), "=")
		if !ok || customer == "" || token == "" {
			problems = append(problems, errors.New("ORDERS_TOKENS is no list like ann=token,bob=token"))
			break
		}
		c.tokens[token] = customer
	}
	return c, errors.Join(problems...)
}
