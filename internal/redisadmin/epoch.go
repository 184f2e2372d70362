// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisadmin

import (
	"context"
	"errors"
	"fmt"

	"github.com/redis/go-redis/v9"

	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
)

// ErrNewerEpoch says that the server has a greater epoch than the one to be written: somebody else administers it too, or an old view
// of the cluster is being acted on. Epochs only grow.
var ErrNewerEpoch = errors.New("server has a newer epoch")

// errNoRecord says that something else lies where an epoch record should; it is left alone.
var errNoRecord = errors.New("key has a foreign value")

// InstanceKey has the epoch record of the whole server under a root. It lies outside every tenant's patterns. When it is missing from a server
// that had it, the server lost its data.
func InstanceKey(root string) string { return root + ":!instance" }

// ReadEpoch reads an epoch record; ok is false when there is none. A value that is no epoch record is an error.
func (c *Client) ReadEpoch(ctx context.Context, key string) (epoch redisproto.Epoch, ok bool, err error) {
	value, err := c.redis.Get(ctx, key).Result()
	if errors.Is(err, redis.Nil) {
		return redisproto.Epoch{}, false, nil
	}
	if err != nil {
		return redisproto.Epoch{}, false, wrap("read epoch record "+key, err)
	}
	epoch, err = redisproto.ParseEpoch(value)
	if err != nil {
		return redisproto.Epoch{}, false, fmt.Errorf("key %s: %w", key, err)
	}
	return epoch, true, nil
}

// WriteEpoch makes the record at key be epoch, and reports whether it had to be changed. It never lowers the number, also when two
// operators write at once.
func (c *Client) WriteEpoch(ctx context.Context, key string, epoch redisproto.Epoch) (changed bool, err error) {
	write := func(tx *redis.Tx) error {
		changed = false
		value, err := tx.Get(ctx, key).Result()
		switch {
		case errors.Is(err, redis.Nil):
		case err != nil:
			return err
		case value == epoch.String():
			return nil
		default:
			have, err := redisproto.ParseEpoch(value)
			if err != nil {
				return fmt.Errorf("%w: %w", errNoRecord, err)
			}
			if have.Number > epoch.Number {
				return fmt.Errorf("%w: %d, not %d", ErrNewerEpoch, have.Number, epoch.Number)
			}
		}
		changed = true
		_, err = tx.TxPipelined(ctx, func(pipe redis.Pipeliner) error { return pipe.Set(ctx, key, epoch.String(), 0).Err() })
		return err
	}
	err = c.redis.Watch(ctx, write, key)
	if errors.Is(err, redis.TxFailedErr) {
		return false, fmt.Errorf("write epoch record %s: it was changed by somebody else at the same time", key)
	}
	if errors.Is(err, ErrNewerEpoch) || errors.Is(err, errNoRecord) {
		return false, fmt.Errorf("write epoch record %s: %w", key, err)
	}
	if err != nil {
		return false, wrap("write epoch record "+key, err)
	}
	return changed, nil
}

// ArmedEpochs are the epochs that prefixes of one root are armed for, as the server's memory has them; "" is not armed.
func (c *Client) ArmedEpochs(ctx context.Context, root string, prefixes ...string) ([]string, error) {
	if len(prefixes) == 0 {
		return nil, nil
	}
	args := make([]any, len(prefixes))
	for i, prefix := range prefixes {
		args[i] = prefix
	}
	epochs, err := c.redis.FCallRO(ctx, redisproto.FunctionArmedEpochs, []string{redisproto.ArmKey(root + ":")}, args...).StringSlice()
	if err != nil {
		return nil, wrap("ask which lock namespaces are armed", err)
	}
	if len(epochs) != len(prefixes) {
		return nil, fmt.Errorf("ask which lock namespaces are armed: %d replies to %d questions", len(epochs), len(prefixes))
	}
	return epochs, nil
}

// Arm lets the server grant locks under a prefix with an epoch, which has to be the one of its record.
func (c *Client) Arm(ctx context.Context, prefix string, epoch uint64) error {
	err := c.redis.FCall(ctx, redisproto.FunctionArm, []string{redisproto.ArmKey(prefix)}, prefix, epoch).Err()
	return wrap("arm "+prefix, err)
}
