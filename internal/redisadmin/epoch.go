// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisadmin

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
)

// ErrNewerEpoch says that the server has a greater epoch than the one to be written: somebody else administers it too, or an old view
// of the cluster is being acted on. Epochs only grow.
var ErrNewerEpoch = errors.New("server has a newer epoch")

// errNoRecord says that something else lies where an epoch record should; it is left alone.
var errNoRecord = errors.New("key has a foreign value")

// InstancePrefix is a prefix like a lock namespace's, for the epoch record of the whole server, which can be armed like one. It lies
// outside every tenant's patterns. When its record is missing from a server that had it, the server lost its data.
func InstancePrefix(root string) string { return root + ":!instance:" }

// ReadEpochs reads the epoch records of many prefixes; one that is missing is not in the result.
func (c *Client) ReadEpochs(ctx context.Context, prefixes ...string) (map[string]redisproto.Epoch, error) {
	epochs := map[string]redisproto.Epoch{}
	if len(prefixes) == 0 {
		return epochs, nil
	}
	keys := make([]string, len(prefixes))
	for i, prefix := range prefixes {
		keys[i] = redisproto.EpochKey(prefix)
	}
	values, err := c.redis.MGet(ctx, keys...).Result()
	if err != nil {
		return nil, wrap("read the epoch records", err)
	}
	for i, value := range values {
		text, ok := value.(string)
		if !ok {
			continue
		}
		epoch, err := redisproto.ParseEpoch(text)
		if err != nil {
			return nil, fmt.Errorf("key %s: %w", keys[i], err)
		}
		epochs[prefixes[i]] = epoch
	}
	return epochs, nil
}

// WriteEpoch makes the record of a prefix be epoch, and reports whether it had to be changed. It never lowers the number, also when two
// operators write at once.
func (c *Client) WriteEpoch(ctx context.Context, prefix string, epoch redisproto.Epoch) (changed bool, err error) {
	key := redisproto.EpochKey(prefix)
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

// ArmedEpochs are the epochs that prefixes of one root are armed for, as the server's memory has them. One that is not armed is not in the
// result; on a server without the function library none is.
func (c *Client) ArmedEpochs(ctx context.Context, root string, prefixes ...string) (map[string]uint64, error) {
	epochs := map[string]uint64{}
	args := make([]any, len(prefixes))
	for i, prefix := range prefixes {
		args[i] = prefix
	}
	texts, err := c.redis.FCallRO(ctx, redisproto.FunctionArmedEpochs, []string{redisproto.ArmKey(root + ":")}, args...).StringSlice()
	if err != nil && isReply(err) && strings.Contains(err.Error(), "Function not found") {
		return epochs, nil
	}
	if err != nil {
		return nil, wrap("ask which lock namespaces are armed", err)
	}
	if len(texts) != len(prefixes) {
		return nil, fmt.Errorf("ask which lock namespaces are armed: %d replies to %d questions", len(texts), len(prefixes))
	}
	for i, text := range texts {
		if text == "" {
			continue
		}
		number, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			return nil, fmt.Errorf("ask which lock namespaces are armed: %.64q is no epoch", text)
		}
		epochs[prefixes[i]] = number
	}
	return epochs, nil
}

// Arm lets the server grant locks under a prefix with an epoch, which has to be the one of its record.
func (c *Client) Arm(ctx context.Context, prefix string, epoch uint64) error {
	err := c.redis.FCall(ctx, redisproto.FunctionArm, []string{redisproto.ArmKey(prefix)}, prefix, epoch).Err()
	return wrap("arm "+prefix, err)
}
