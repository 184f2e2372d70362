// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisadmin

import (
	"context"
	"errors"

	"github.com/redis/go-redis/v9"
)

// OwnerKey is the key that says which cluster's operator administers a server. No tenant's pattern matches it.
func OwnerKey(root string) string { return root + ":!owner" }

// Claim makes the server belong to cluster unless it belongs to another one, and returns whose it is.
func (c *Client) Claim(ctx context.Context, root, cluster string) (owner string, err error) {
	key := OwnerKey(root)
	// Read first, so that a server that is owned gets no write.
	owner, err = c.redis.Get(ctx, key).Result()
	if !errors.Is(err, redis.Nil) {
		return owner, wrap("read "+key, err)
	}
	claimed, err := c.redis.SetNX(ctx, key, cluster, 0).Result()
	if err != nil {
		return "", wrap("write "+key, err)
	}
	if claimed {
		return cluster, nil
	}
	owner, err = c.redis.Get(ctx, key).Result()
	return owner, wrap("read "+key, err)
}
