// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package recordproto is what redisstore and the operator agree on for idempotency records on the server that keeps the locks: the keys, the functions, and the
// rules of the users. It does no I/O.
//
// The records of a lock namespace lie beside its locks, under its prefix. They are written by the functions of Library, which hold them to the share of the memory that
// the operator has set:
//
//	lk:{payments/billing}:!records         hash: the records, and the bytes that they are charged with
//	lk:{payments/billing}:!records-ends    sorted set: when their retention is over
//	lk:{payments/billing}:!records-limits  Limits; tenants can read it, not write it
//	lk:!records                            the thousandths of every share that may be used now; tenants can read it, not write it
//	lk:!records-index                      hash of the operator: which prefixes have a share, and the user that holds it
//
// The first two run out when the last record does.
package recordproto

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
)

//go:embed records.lua
var records string

// LibraryName is the name of the function library. It is another one than that of the locks, so that loading it disarms nobody.
const LibraryName = "lockstead_records"

// Library is the source of the function library, for FUNCTION LOAD.
func Library() string { return "#!lua name=" + LibraryName + "\n" + records }

// The functions. The key of all is RecordsKey. Those of records have the name of the record as the first argument, NameLength bytes; the others are the operator's, and
// refuse a user who cannot read IndexKey.
const (
	// FunctionGet, by FCALL_RO: replies {state, owner, token, fingerprint, rest of the lease in ms, response}.
	FunctionGet = "lockstead_record_get"
	// FunctionBegin: arguments owner, token, fingerprint, lease in ms, retention in ms. Replies as FunctionGet.
	FunctionBegin = "lockstead_record_begin"
	// FunctionComplete: arguments owner, token, state, response, retention in ms. Replies -1, or the state that it found instead of the owner's record.
	FunctionComplete = "lockstead_record_complete"
	// FunctionCompleteSmall is FunctionComplete for a response of at most SmallResponse bytes. It runs also on a server whose memory is full.
	FunctionCompleteSmall = "lockstead_record_complete_small"
	// FunctionExtend: arguments owner, token, lease in ms. Replies as FunctionComplete.
	FunctionExtend = "lockstead_record_extend"
	// FunctionAbort: arguments owner, token. Replies as FunctionComplete.
	FunctionAbort = "lockstead_record_abort"
	// FunctionGrant: arguments Limits, holder. It lets the holder of the prefix keep records; those of another holder go. Replies 1, or 0 if it was so already.
	FunctionGrant = "lockstead_records_grant"
	// FunctionWithdraw: argument holder. It removes the holder's records and limits. Replies 1, or 0 if the prefix is another's or nobody's.
	FunctionWithdraw = "lockstead_records_withdraw"
	// FunctionSweep removes what is over. Replies {bytes that are charged, records, 1 if they were counted anew, 1 if there are limits}.
	FunctionSweep = "lockstead_records_sweep"
)

// NameLength is the number of bytes of the name of a record.
const NameLength = 32

// SmallResponse is how many bytes of a response are taken whatever is left of the share.
const SmallResponse = 256

// Codes with which the errors of the functions begin.
const (
	// CodeFull: the share is used up, or may not be used now. "<bytes used> <bytes of the share>" follow.
	CodeFull = "LSR_FULL"
	// CodeTooLarge: the response is larger than Limits.MaxResponse. "<bytes> <most bytes>" follow.
	CodeTooLarge = "LSR_TOOLARGE"
	// CodeNoLimits: the operator has not set the limits, or somebody deleted them.
	CodeNoLimits = "LSR_NOLIMITS"
	// CodeForeign: a key holds what the library did not write.
	CodeForeign = "LSR_FOREIGN"
	// CodeBadCall: the key or the arguments are not what the function takes.
	CodeBadCall = "LSR_BADCALL"
)

// RecordsKey is the key of the records of a prefix.
func RecordsKey(prefix string) string { return prefix + "!records" }

// EndsKey is the key of the list of ends.
func EndsKey(prefix string) string { return prefix + "!records-ends" }

// LimitsKey is the key of the Limits.
func LimitsKey(prefix string) string { return prefix + "!records-limits" }

// PartKey is the key of a root with the thousandths of every share that may be used now.
func PartKey(root string) string { return root + ":!records" }

// IndexKey is the operator's key of a root.
func IndexKey(root string) string { return root + ":!records-index" }

// Limits are what a lock namespace may keep.
type Limits struct {
	// MaxResponse is the most bytes of a response.
	MaxResponse int64
	// Share is the bytes that all records together may be charged with. A record is charged with a quarter more than its bytes, and at least 1216.
	Share int64
}

// String is the value of LimitsKey.
func (l Limits) String() string { return fmt.Sprintf("%d %d", l.MaxResponse, l.Share) }

// ParseLimits reads the value of LimitsKey.
func ParseLimits(value string) (Limits, error) {
	most, share, ok := strings.Cut(value, " ")
	maxResponse, err := strconv.ParseInt(most, 10, 64)
	bytes, shareErr := strconv.ParseInt(share, 10, 64)
	if !ok || err != nil || shareErr != nil || maxResponse < 0 || bytes < 0 {
		return Limits{}, fmt.Errorf("limits %.64q are not <most bytes of a response> <share in bytes>", value)
	}
	return Limits{MaxResponse: maxResponse, Share: bytes}, nil
}

// Whole is the value of PartKey that lets every share be used. 0 lets none.
const Whole = 1000

// TenantRules are what a user that is limited to one lock namespace of a root needs for its records, beside redisproto.TenantRules for a server with functions.
func TenantRules(root, prefix string) []string {
	return []string{
		"%RW~" + RecordsKey(prefix), "%RW~" + EndsKey(prefix), "%R~" + LimitsKey(prefix), "%R~" + PartKey(root),
		"+hget", "+hset", "+hdel", "+hstrlen", "+hincrby",
	}
}
