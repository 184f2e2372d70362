// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisadmin

import (
	"context"
	"maps"
	"slices"

	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
)

// The names of settings that decide whether locks are kept.
const (
	SettingAppendOnly  = "appendonly"
	SettingAppendFsync = "appendfsync"
	SettingEviction    = "maxmemory-policy"
)

// Settings are the settings of a server, as CONFIG GET names them. Known is false when the server does not tell them; then there are none.
type Settings struct {
	Known  bool
	Values map[string]string
}

// AppendOnly reports whether the server has an append-only file.
func (s Settings) AppendOnly() bool { return s.Values[SettingAppendOnly] == "yes" }

// Eviction is what the server throws away when its memory is full.
func (s Settings) Eviction() string { return s.Values[SettingEviction] }

// watchedSettings are those that a probe reads.
func watchedSettings() []string {
	return []string{
		SettingAppendOnly, SettingAppendFsync, SettingEviction, "maxmemory", "save", "no-appendfsync-on-rewrite", "aof-use-rdb-preamble",
		"timeout", "tcp-keepalive", "protected-mode", "min-replicas-to-write",
	}
}

func (c *Client) settings(ctx context.Context) (Settings, error) {
	args := []any{"CONFIG", "GET"}
	for _, name := range watchedSettings() {
		args = append(args, name)
	}
	pairs, err := c.redis.Do(ctx, args...).StringSlice()
	if err != nil {
		if isReply(err) {
			return Settings{}, nil
		}
		return Settings{}, wrap("read the server's settings", err)
	}
	values := map[string]string{}
	for i := 0; i+1 < len(pairs); i += 2 {
		values[pairs[i]] = pairs[i+1]
	}
	for _, name := range []string{SettingAppendOnly, SettingAppendFsync, SettingEviction} {
		if _, ok := values[name]; !ok {
			return Settings{}, nil
		}
	}
	return Settings{Known: true, Values: values}, nil
}

// ChangeSettings sets settings until the server restarts: all of them, or none when the server refuses one.
func (c *Client) ChangeSettings(ctx context.Context, values map[string]string) error {
	args := []any{"CONFIG", "SET"}
	for _, name := range slices.Sorted(maps.Keys(values)) {
		args = append(args, name, values[name])
	}
	return wrap("change the server's settings", c.redis.Do(ctx, args...).Err())
}

// CloseDefaultUser lets nobody log in as the default user any more, ends the connections of those who have, and gives the user the rights with
// which the append-only file is replayed.
func (c *Client) CloseDefaultUser(ctx context.Context) error {
	args := []any{"ACL", "SETUSER", "default", "reset"}
	for _, rule := range redisproto.DefaultUserRules() {
		args = append(args, rule)
	}
	if err := c.redis.Do(ctx, args...).Err(); err != nil {
		return wrap("close the default user", err)
	}
	return wrap("end the connections of the default user", c.redis.Do(ctx, "CLIENT", "KILL", "USER", "default").Err())
}
