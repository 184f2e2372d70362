// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisproto

import (
	"fmt"
	"regexp"
	"strconv"
	"strings"
	"time"

	"github.com/lockstead/lockstead/pkg/lock/driver"
)

// Record is the value of a lock's key.
type Record struct {
	// ID is the acquisition id.
	ID string
	// Token is the fencing token of the grant.
	Token driver.Token
	// Owner is what the holder tells people about itself.
	Owner string
	// Since is when the lock was granted, by the server's clock, to the millisecond; zero for a record of an older version. For display.
	Since time.Time
}

const idLength = 32

// ParseRecord reads the value of a lock's key as the server-side code wrote it: "<id> <epoch>-<sequence> <owner> @<Unix ms>". The time
// stands behind the owner so that an older client, which knows no time, shows it as part of the owner.
func ParseRecord(value string) (Record, error) {
	id, rest, ok := strings.Cut(value, " ")
	if !ok || len(id) != idLength || strings.Trim(id, "0123456789abcdef") != "" {
		return Record{}, fmt.Errorf("lock record %.64q does not begin with an acquisition id", value)
	}
	token, owner, ok := strings.Cut(rest, " ")
	if !ok {
		return Record{}, fmt.Errorf("lock record %.64q has no owner", value)
	}
	epoch, sequence, ok := strings.Cut(token, "-")
	if !ok {
		return Record{}, fmt.Errorf("lock record %.64q has no token", value)
	}
	e, err := strconv.ParseUint(epoch, 10, 64)
	if err != nil {
		return Record{}, fmt.Errorf("lock record %.64q: epoch: %w", value, err)
	}
	s, err := strconv.ParseUint(sequence, 10, 64)
	if err != nil {
		return Record{}, fmt.Errorf("lock record %.64q: sequence: %w", value, err)
	}
	record := Record{ID: id, Token: driver.Token{Epoch: e, Sequence: s}, Owner: owner}
	if at := grantedAt.FindStringIndex(owner); at != nil {
		ms, err := strconv.ParseInt(owner[at[0]+len(" @"):], 10, 64)
		if err != nil {
			return Record{}, fmt.Errorf("lock record %.64q: time of the grant: %w", value, err)
		}
		record.Owner, record.Since = owner[:at[0]], time.UnixMilli(ms).UTC()
	}
	return record, nil
}

// grantedAt finds the time of the grant, which has 13 digits until the year 2286.
var grantedAt = regexp.MustCompile(` @[0-9]{13}$`)

// Epoch is the epoch record of a lock namespace.
type Epoch struct {
	// Number is the first part of every fencing token.
	Number uint64
	// MaxTTL is the longest TTL that is granted, in whole milliseconds; zero is any. A quarantine lasts that long.
	MaxTTL time.Duration
	// SelfArm says that the server may grant after a restart without waiting for the operator: for one server that acknowledges
	// nothing before it is on disk. On a server without functions it says that the server may grant now.
	SelfArm bool
}

// String is the value of the epoch record.
func (e Epoch) String() string {
	selfArm := 0
	if e.SelfArm {
		selfArm = 1
	}
	return fmt.Sprintf("%d %d %d", e.Number, e.MaxTTL.Milliseconds(), selfArm)
}

// ParseEpoch reads the value of an epoch record.
func ParseEpoch(value string) (Epoch, error) {
	fields := strings.Split(value, " ")
	if len(fields) != 3 || (fields[2] != "0" && fields[2] != "1") {
		return Epoch{}, fmt.Errorf("epoch record %.64q is not <epoch> <longest TTL in ms> <0 or 1>", value)
	}
	number, err := strconv.ParseUint(fields[0], 10, 64)
	if err != nil {
		return Epoch{}, fmt.Errorf("epoch record %.64q: epoch: %w", value, err)
	}
	const longest = int64(1<<63-1) / int64(time.Millisecond)
	maxTTL, err := strconv.ParseInt(fields[1], 10, 64)
	if err != nil || maxTTL < 0 || maxTTL > longest {
		return Epoch{}, fmt.Errorf("epoch record %.64q: longest TTL is not a number of milliseconds", value)
	}
	return Epoch{Number: number, MaxTTL: time.Duration(maxTTL) * time.Millisecond, SelfArm: fields[2] == "1"}, nil
}

// NextEpoch is the epoch after a possible loss of data: greater than what the server and the status of the instance tell, and, when
// both were lost with the object, greater than any epoch that was made in the past, since it is at least the Unix time in seconds.
func NextEpoch(server, status uint64, unixSeconds int64) uint64 {
	return max(server, status, uint64(max(unixSeconds-1, 0))) + 1
}
