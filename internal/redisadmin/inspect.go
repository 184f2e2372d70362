// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisadmin

import (
	"context"
	"errors"
	"maps"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
)

// GetUsers returns users as the server has them, in one round trip; one that does not exist is not in the result.
func (c *Client) GetUsers(ctx context.Context, names ...string) (map[string]User, error) {
	users := map[string]User{}
	if len(names) == 0 {
		return users, nil
	}
	pipe := c.redis.Pipeline()
	replies := make([]*redis.Cmd, len(names))
	for i, name := range names {
		replies[i] = pipe.Do(ctx, "ACL", "GETUSER", name)
	}
	if _, err := pipe.Exec(ctx); err != nil && !isReply(err) {
		return nil, wrap("read users", err)
	}
	for i, name := range names {
		reply, err := replies[i].Result()
		if errors.Is(err, redis.Nil) {
			continue
		}
		if err != nil {
			return nil, wrap("read user "+name, err)
		}
		if users[name], err = parseUser(name, reply); err != nil {
			return nil, err
		}
	}
	return users, nil
}

// MatchesRules reports whether the user can log in with a password, and is otherwise exactly what want says.
func (u User) MatchesRules(want redisproto.User) bool {
	wanted := wantedUser(want)
	return u.on && !u.noPassword && !u.selectors && len(u.passwords) > 0 && maps.Equal(u.keys, wanted.keys) &&
		maps.Equal(u.channels, wanted.channels) && maps.Equal(u.commands, wanted.commands)
}

// InstanceOf is the UID of the RedisInstance that the user was made for, by its UserMark; false if it was not made by an operator.
func (u User) InstanceOf(root string) (uid string, ok bool) {
	for key := range u.keys {
		if uid, ok := strings.CutPrefix(key, UserMark(root, "")); ok && uid != "" {
			return uid, true
		}
	}
	return "", false
}
