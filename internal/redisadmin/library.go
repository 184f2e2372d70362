// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisadmin

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
)

// EnsureLibrary loads the function library unless the server has exactly this one. Loading disarms the server, so a true result means
// that lock namespaces which do not arm themselves have to be armed again.
func (c *Client) EnsureLibrary(ctx context.Context) (loaded bool, err error) {
	same, err := c.hasLibrary(ctx)
	if err != nil || same {
		return false, err
	}
	if err := c.redis.FunctionLoadReplace(ctx, redisproto.Library()).Err(); err != nil {
		return false, wrap("load the function library", err)
	}
	return true, nil
}

func (c *Client) hasLibrary(ctx context.Context) (bool, error) {
	libraries, err := c.redis.FunctionList(ctx, redis.FunctionListQuery{LibraryNamePattern: redisproto.LibraryName, WithCode: true}).Result()
	if err != nil {
		return false, wrap("list the function libraries", err)
	}
	for _, library := range libraries {
		if library.Name == redisproto.LibraryName && library.Code == redisproto.Library() {
			return true, nil
		}
	}
	return false, nil
}
