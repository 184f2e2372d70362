// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisadmin

import (
	"bufio"
	"context"
	"errors"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
)

// Server is what a probe found.
type Server struct {
	// Engine is "Redis" or "Valkey".
	Engine  string
	Version string
	// RunID is another one after every start of the server.
	RunID string
	// Primary is false for a replica, which accepts no writes.
	Primary bool
	// Promoted is true for a primary that was a replica earlier in this run: it may lack what the primary before it acknowledged last.
	Promoted bool
	// Cluster is true when the server runs in cluster mode.
	Cluster bool
	// Replicas are the connected ones, any of which may be promoted without having every write.
	Replicas int
	// Functions tells whether the server knows FUNCTION.
	Functions bool
	// Scripts tells whether the server knows SCRIPT.
	Scripts bool

	Settings Settings
	// AOFError is true when the last write of the append-only file failed.
	AOFError bool
	// AOFRewriting is true while the append-only file is written anew. Right after it was switched on, the server keeps nothing until that is done.
	AOFRewriting bool
	// UsedMemory and MaxMemory are in bytes; MaxMemory is zero without a limit.
	UsedMemory, MaxMemory uint64
	// DefaultUser is what the default user may do.
	DefaultUser DefaultUser
}

// DefaultUser is the user of clients that do not log in. Known is false when the server does not tell.
type DefaultUser struct {
	Known bool
	// On: whoever knows its password can log in.
	On bool
	// Open: anybody who reaches the server can use it without a password.
	Open bool
	// Restricted: its rights are limited. With an append-only file the server drops writes at a restart then.
	Restricted bool
}

// Durable says that the server acknowledges nothing before it is on its disk.
func (s Server) Durable() bool {
	return s.Settings.Known && s.Settings.AppendOnly() && s.Settings.Values[SettingAppendFsync] == "always"
}

// SelfArm says that the server may grant locks after a restart without the operator: it kept every acknowledged write, and nobody else can
// be promoted in its place.
func (s Server) SelfArm() bool {
	return s.Durable() && s.Primary && !s.Promoted && s.Replicas == 0 && !s.Cluster && s.DefaultUser.Known && !s.DefaultUser.Restricted
}

// Probe looks what the server is. A managed service that hides its settings or users is not an error.
func (c *Client) Probe(ctx context.Context) (Server, error) {
	text, err := c.redis.Info(ctx).Result()
	if err != nil {
		return Server{}, wrap("read the server's INFO", err)
	}
	server := parseInfo(text)
	for _, capability := range []struct {
		has     *bool
		command []any
	}{
		{&server.Functions, []any{"FUNCTION", "LIST", "LIBRARYNAME", "none"}},
		{&server.Scripts, []any{"SCRIPT", "EXISTS", redisproto.InspectScript().SHA1}},
	} {
		switch _, err := c.redis.Do(ctx, capability.command...).Result(); {
		case err == nil:
			*capability.has = true
		case !isReply(err):
			return Server{}, wrap("ask whether the server has functions and scripts", err)
		}
	}
	if server.Settings, err = c.settings(ctx); err != nil {
		return Server{}, err
	}
	if server.DefaultUser, err = c.defaultUser(ctx); err != nil {
		return Server{}, err
	}
	return server, nil
}

// isReply reports whether the server answered with an error, as opposed to a connection that failed.
func isReply(err error) bool {
	var reply redis.Error
	return errors.As(err, &reply)
}

func parseInfo(text string) Server {
	fields := map[string]string{}
	for lines := bufio.NewScanner(strings.NewReader(text)); lines.Scan(); {
		if name, value, ok := strings.Cut(lines.Text(), ":"); ok {
			fields[name] = value
		}
	}
	server := Server{Engine: "Redis", Version: fields["redis_version"]}
	if version := fields["valkey_version"]; version != "" || fields["server_name"] == "valkey" {
		server.Engine, server.Version = "Valkey", version
	}
	server.RunID = fields["run_id"]
	server.Primary = fields["role"] == "master"
	// A replica that is promoted keeps the identity of the stream that it followed as a second one; else that is all zeros.
	server.Promoted = server.Primary && strings.Trim(fields["master_replid2"], "0") != ""
	server.Cluster = fields["cluster_enabled"] == "1"
	server.Replicas, _ = strconv.Atoi(fields["connected_slaves"])
	server.UsedMemory, _ = strconv.ParseUint(fields["used_memory"], 10, 64)
	server.MaxMemory, _ = strconv.ParseUint(fields["maxmemory"], 10, 64)
	server.AOFRewriting = fields["aof_rewrite_in_progress"] == "1" || fields["aof_rewrite_scheduled"] == "1"
	server.AOFError = fields["aof_enabled"] == "1" &&
		(fields["aof_last_write_status"] == "err" || fields["aof_last_bgrewrite_status"] == "err")
	return server
}

func (c *Client) defaultUser(ctx context.Context) (DefaultUser, error) {
	user, exists, err := c.GetUser(ctx, "default")
	if err != nil {
		if isReply(err) {
			return DefaultUser{}, nil
		}
		return DefaultUser{}, err
	}
	return DefaultUser{
		Known:      true,
		On:         exists && user.on,
		Open:       exists && user.on && user.noPassword,
		Restricted: !exists || !user.keys["~*"] || !user.channels["&*"] || len(user.commands) != 1 || !user.commands["+@all"],
	}, nil
}
