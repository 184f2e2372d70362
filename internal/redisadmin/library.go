// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisadmin

import (
	"context"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
)

// EnsureLibrary loads the function library unless the server has exactly this one. Loading disarms the server, so a true result means
// that lock namespaces which do not arm themselves have to be armed again.
func (c *Client) EnsureLibrary(ctx context.Context) (loaded bool, err error) {
	return c.ensureLibrary(ctx, redisproto.LibraryName, redisproto.Library())
}

func (c *Client) ensureLibrary(ctx context.Context, name, code string) (loaded bool, err error) {
	same, err := c.hasLibrary(ctx, name, code)
	if err != nil || same {
		return false, err
	}
	if err := c.redis.FunctionLoadReplace(ctx, code).Err(); err != nil {
		return false, wrap("load the function library", err)
	}
	return true, nil
}

// EnsureScripts loads those of the scripts that the server does not have, and reports whether there were any. The server forgets them when it ends.
func (c *Client) EnsureScripts(ctx context.Context, scripts []redisproto.Script) (loaded bool, err error) {
	names := make([]string, len(scripts))
	for i, script := range scripts {
		names[i] = script.SHA1
	}
	present, err := c.redis.ScriptExists(ctx, names...).Result()
	if err != nil {
		return false, wrap("ask which scripts are loaded", err)
	}
	if len(present) != len(scripts) {
		return false, fmt.Errorf("ask which scripts are loaded: %d replies to %d questions", len(present), len(scripts))
	}
	for i, script := range scripts {
		if present[i] {
			continue
		}
		if err := c.redis.ScriptLoad(ctx, script.Source).Err(); err != nil {
			return loaded, wrap("load a script", err)
		}
		loaded = true
	}
	return loaded, nil
}

func (c *Client) hasLibrary(ctx context.Context, name, code string) (bool, error) {
	libraries, err := c.redis.FunctionList(ctx, redis.FunctionListQuery{LibraryNamePattern: name, WithCode: true}).Result()
	if err != nil {
		return false, wrap("list the function libraries", err)
	}
	for _, library := range libraries {
		if library.Name == name && library.Code == code {
			return true, nil
		}
	}
	return false, nil
}
