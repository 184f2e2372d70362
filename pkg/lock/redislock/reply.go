// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"fmt"
	"math"
	"slices"
	"strconv"
	"time"

	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
)

// acquireReply is the decoded answer to an acquire: a token, or who holds the key.
type acquireReply struct {
	granted   bool
	token     driver.Token
	remaining time.Duration
	holder    redisproto.Record
}

func decodeAcquire(reply any) (acquireReply, error) {
	parts, ok := reply.([]any)
	if !ok || len(parts) != 3 {
		return acquireReply{}, fmt.Errorf("answer to an acquire is %.128q, want three parts", fmt.Sprint(reply))
	}
	switch parts[0] {
	case int64(1):
		token, err := decodeToken(parts[1], parts[2])
		return acquireReply{granted: err == nil, token: token}, err
	case int64(0):
		remaining, holder, err := decodeHolder(parts[1], parts[2])
		return acquireReply{remaining: remaining, holder: holder}, err
	default:
		return acquireReply{}, fmt.Errorf("answer to an acquire begins with %.64q, want 1 or 0", fmt.Sprint(parts[0]))
	}
}

// decodePass reads the answer to a pass, which is that to an acquire, or nothing when nobody holds the key.
func decodePass(reply any) (acquireReply, error) {
	if parts, ok := reply.([]any); ok && len(parts) == 0 {
		return acquireReply{}, nil
	}
	return decodeAcquire(reply)
}

func decodeToken(epoch, sequence any) (driver.Token, error) {
	text, ok := epoch.(string)
	if !ok {
		return driver.Token{}, fmt.Errorf("epoch is %.64q, want digits", fmt.Sprint(epoch))
	}
	number, err := strconv.ParseUint(text, 10, 64)
	if err != nil {
		return driver.Token{}, fmt.Errorf("epoch: %w", err)
	}
	count, ok := sequence.(int64)
	if !ok || count < 1 {
		return driver.Token{}, fmt.Errorf("sequence is %.64q, want a number from 1 up", fmt.Sprint(sequence))
	}
	return driver.Token{Epoch: number, Sequence: uint64(count)}, nil
}

func decodeHolder(remaining, record any) (time.Duration, redisproto.Record, error) {
	ms, ok := remaining.(int64)
	if !ok || ms < 0 || ms > math.MaxInt64/int64(time.Millisecond) {
		return 0, redisproto.Record{}, fmt.Errorf("remaining time is %.64q, want milliseconds", fmt.Sprint(remaining))
	}
	text, ok := record.(string)
	if !ok {
		return 0, redisproto.Record{}, fmt.Errorf("lock record is %.64q, want text", fmt.Sprint(record))
	}
	holder, err := redisproto.ParseRecord(text)
	if err != nil {
		return 0, redisproto.Record{}, err
	}
	// Within its last millisecond a record has 0 left, which would mean that the time is not known.
	return time.Duration(max(ms, 1)) * time.Millisecond, holder, nil
}

// decodeHeld reads the answer to a renew or release: whether the id was the holder's.
func decodeHeld(reply any) (bool, error) {
	switch reply {
	case int64(1):
		return true, nil
	case int64(0):
		return false, nil
	default:
		return false, fmt.Errorf("answer is %.64q, want 1 or 0", fmt.Sprint(reply))
	}
}

func decodeInspect(reply any) (driver.Holding, error) {
	parts, ok := reply.([]any)
	switch {
	case ok && len(parts) == 0:
		return driver.Holding{}, nil
	case !ok || len(parts) != 2:
		return driver.Holding{}, fmt.Errorf("answer to an inspect is %.128q, want no or two parts", fmt.Sprint(reply))
	}
	return decodeHolding(parts[0], parts[1])
}

func decodeHolding(left, record any) (driver.Holding, error) {
	remaining, holder, err := decodeHolder(left, record)
	if err != nil {
		return driver.Holding{}, err
	}
	return driver.Holding{Held: true, ID: holder.ID, Owner: holder.Owner, Token: holder.Token, Since: holder.Since, Remaining: remaining}, nil
}

// decodeForceRelease gives the zero value when there was nobody to take the lock from.
func decodeForceRelease(reply any) (driver.ForcedRelease, error) {
	parts, ok := reply.([]any)
	switch {
	case ok && len(parts) == 0:
		return driver.ForcedRelease{}, nil
	case !ok || len(parts) != 4:
		return driver.ForcedRelease{}, fmt.Errorf("answer to a forced release is %.128q, want no or four parts", fmt.Sprint(reply))
	}
	holding, err := decodeHolding(parts[0], parts[1])
	if err != nil {
		return driver.ForcedRelease{}, err
	}
	if parts[3] == int64(0) {
		return driver.ForcedRelease{Holding: holding}, nil
	}
	fence, err := decodeToken(parts[2], parts[3])
	return driver.ForcedRelease{Holding: holding, Fence: fence}, err
}

func decodeList(reply any) (driver.ListPage, error) {
	parts, ok := reply.([]any)
	if !ok || len(parts)%3 != 1 {
		return driver.ListPage{}, fmt.Errorf("answer to a list is %.128q, want a cursor and three parts for each key", fmt.Sprint(reply))
	}
	next, ok := parts[0].(string)
	if !ok {
		return driver.ListPage{}, fmt.Errorf("cursor of a list is %.64q, want text", fmt.Sprint(parts[0]))
	}
	page := driver.ListPage{Next: next}
	for key := range slices.Chunk(parts[1:], 3) {
		name, ok := key[0].(string)
		if !ok {
			return driver.ListPage{}, fmt.Errorf("name of a key is %.64q, want text", fmt.Sprint(key[0]))
		}
		holding, err := decodeHolding(key[1], key[2])
		if err != nil {
			return driver.ListPage{}, err
		}
		page.Held = append(page.Held, driver.HeldKey{Name: name, Holding: holding})
	}
	return page, nil
}
