// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisadmin

import (
	"context"
	"errors"
	"fmt"
	"strconv"

	"github.com/redis/go-redis/v9"

	"github.com/lockstead/lockstead/pkg/idempotency/redisstore/recordproto"
)

// EnsureRecordLibrary loads the functions of idempotency records unless the server has exactly these. It disarms nobody.
func (c *Client) EnsureRecordLibrary(ctx context.Context) error {
	_, err := c.ensureLibrary(ctx, recordproto.LibraryName, recordproto.Library())
	return err
}

// RecordHolders are the users that hold a share for records, by their prefixes, under a root.
func (c *Client) RecordHolders(ctx context.Context, root string) (map[string]string, error) {
	holders, err := c.redis.HGetAll(ctx, recordproto.IndexKey(root)).Result()
	if err != nil {
		return nil, wrap("list who has idempotency records", err)
	}
	return holders, nil
}

// GrantRecords lets the user holder keep records under a prefix; the user needs the rules of recordproto.TenantRules. Records of another holder are removed. The
// library has to be there.
func (c *Client) GrantRecords(ctx context.Context, prefix, holder string, limits recordproto.Limits) error {
	err := c.redis.FCall(ctx, recordproto.FunctionGrant, []string{recordproto.RecordsKey(prefix)}, limits.String(), holder).Err()
	return wrap("grant idempotency records", err)
}

// WithdrawRecords removes the records and the limits of a prefix if holder has them. Its user has to have lost its rules before.
func (c *Client) WithdrawRecords(ctx context.Context, root, prefix, holder string) error {
	has, err := c.redis.HGet(ctx, recordproto.IndexKey(root), prefix).Result()
	switch {
	case errors.Is(err, redis.Nil), err == nil && has != holder:
		return nil
	case err != nil:
		return wrap("ask who has idempotency records", err)
	}
	if err := c.EnsureRecordLibrary(ctx); err != nil {
		return err
	}
	err = c.redis.FCall(ctx, recordproto.FunctionWithdraw, []string{recordproto.RecordsKey(prefix)}, holder).Err()
	return wrap("remove idempotency records", err)
}

// RecordUse is what the records of a prefix take.
type RecordUse struct {
	// Bytes are those that they are charged with, Records their number.
	Bytes, Records int64
	// Limited says that the limits are there. Without, the functions refuse records.
	Limited bool
}

// SweepRecords removes records whose retention is over, some of each prefix, and tells what is left. The library has to be there.
func (c *Client) SweepRecords(ctx context.Context, prefixes ...string) (map[string]RecordUse, error) {
	use := map[string]RecordUse{}
	if len(prefixes) == 0 {
		return use, nil
	}
	pipe := c.redis.Pipeline()
	replies := make([]*redis.Cmd, len(prefixes))
	for i, prefix := range prefixes {
		replies[i] = pipe.FCall(ctx, recordproto.FunctionSweep, []string{recordproto.RecordsKey(prefix)})
	}
	if _, err := pipe.Exec(ctx); err != nil && !isReply(err) {
		return nil, wrap("sweep idempotency records", err)
	}
	for i, prefix := range prefixes {
		numbers, err := replies[i].Int64Slice()
		if err != nil {
			return nil, wrap("sweep the idempotency records of "+prefix, err)
		}
		if len(numbers) != 4 {
			return nil, fmt.Errorf("sweep the idempotency records of %s: %d numbers, want 4", prefix, len(numbers))
		}
		use[prefix] = RecordUse{Bytes: numbers[0], Records: numbers[1], Limited: numbers[3] == 1}
	}
	return use, nil
}

// RecordPart is the thousandths of every share that may be used, and -1 where that is not set, so that no record is taken.
func (c *Client) RecordPart(ctx context.Context, root string) (int64, error) {
	text, err := c.redis.Get(ctx, recordproto.PartKey(root)).Result()
	if err != nil && !errors.Is(err, redis.Nil) {
		return 0, wrap("read which part of the shares may be used", err)
	}
	part, err := strconv.ParseInt(text, 10, 64)
	if err != nil {
		return -1, nil //nolint:nilerr // As a key that is missing.
	}
	return part, nil
}

// SetRecordPart sets it.
func (c *Client) SetRecordPart(ctx context.Context, root string, part int64) error {
	return wrap("set which part of the shares may be used", c.redis.Set(ctx, recordproto.PartKey(root), part, 0).Err())
}
