// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisproto

import (
	"crypto/sha1" //nolint:gosec // Redis names scripts by their SHA-1.
	"crypto/sha256"
	_ "embed"
	"encoding/hex"
)

//go:embed protocol.lua
var protocol string

//go:embed functions.lua
var functions string

//go:embed check_epoch.lua
var checkEpoch string

//go:embed check_operated.lua
var checkOperated string

// LibraryName is the name of the function library.
const LibraryName = "lockstead"

// The functions of the library. Tenants may call all of them; the last two refuse a user who cannot touch ArmKey. Those that take, renew or free a lock keep
// the list of held keys only if HeldKey is the third key; without it they do all else.
const (
	// FunctionAcquire: keys LockKey, SequenceKey; arguments id, TTL in ms, owner. Replies {1, epoch, sequence} when
	// granted and {0, remaining ms, record} when held.
	FunctionAcquire = "lockstead_acquire"
	// FunctionPass: keys LockKey, SequenceKey; arguments new id, TTL in ms, owner, id of the holder. Replies as FunctionAcquire, or {} if
	// nobody holds the lock. It publishes nothing.
	FunctionPass = "lockstead_pass"
	// FunctionRenew: keys LockKey, SequenceKey; arguments id, TTL in ms. Replies 1, or 0 if the id is not the holder's.
	FunctionRenew = "lockstead_renew"
	// FunctionRelease: keys LockKey, SequenceKey; arguments id, Channel. Replies 1, or 0 if the id is not the holder's.
	FunctionRelease = "lockstead_release"
	// FunctionForceRelease: keys LockKey, SequenceKey; argument id, or "" for whoever holds the lock. Replies {remaining ms, record, epoch, sequence} of what
	// was taken away and of a token after it, or {}.
	FunctionForceRelease = "lockstead_force_release"
	// FunctionList, by FCALL_RO: key SequenceKey; arguments cursor or "", limit. Replies {next cursor or "", name, remaining ms, record, name, …}.
	FunctionList = "lockstead_list"
	// FunctionInspect, by FCALL_RO: key LockKey. Replies {} or {remaining ms, record}.
	FunctionInspect = "lockstead_inspect"
	// FunctionArm: key ArmKey; arguments prefix, epoch. Replies 1; refuses an epoch that is not the record's.
	FunctionArm = "lockstead_arm"
	// FunctionArmedEpochs, by FCALL_RO: key ArmKey; arguments are prefixes. Replies the epoch that each is armed for, or "".
	FunctionArmedEpochs = "lockstead_armed_epochs"
)

// Codes with which the errors of the server-side code begin.
const (
	// CodeNoEpoch: the epoch record is missing: the lock namespace was never prepared, or the server lost its data.
	CodeNoEpoch = "LS_NOEPOCH"
	// CodeNotArmed: the server may have lost data and waits for the operator.
	CodeNotArmed = "LS_NOTARMED"
	// CodeTTLTooLong: the TTL is above the epoch record's.
	CodeTTLTooLong = "LS_TTLTOOLONG"
	// CodeBadTTL: the TTL is not a whole number of milliseconds from 1 up.
	CodeBadTTL = "LS_BADTTL"
	// CodeBadID: the acquisition id is not 32 hexadecimal digits.
	CodeBadID = "LS_BADID"
	// CodeBadKeys: the keys do not belong to one lock namespace.
	CodeBadKeys = "LS_BADKEYS"
	// CodeForeign: the key of the lock has a value that this protocol did not write.
	CodeForeign = "LS_FOREIGN"
)

// Library is the source of the function library, for FUNCTION LOAD. Loading it again disarms the server.
func Library() string {
	return "#!lua name=" + LibraryName + "\n" + protocol + functions
}

// LibraryDigest names this version of the library, so that the operator loads it only when the server has another one.
func LibraryDigest() string {
	sum := sha256.Sum256([]byte(Library()))
	return hex.EncodeToString(sum[:8])
}

// Script is server-side code for servers without functions.
type Script struct {
	// Source is the text for EVAL and SCRIPT LOAD.
	Source string
	// SHA1 is the name for EVALSHA.
	SHA1 string
}

// The scripts have the keys, arguments and replies of the functions of the same name.
//
// They have no "#!lua" line, which servers before Redis 7 do not know. Without it a server that is out of memory refuses single commands
// and not the whole script, so that release and renew, which need no memory, still run.
func scriptOf(call string) Script {
	source := protocol + call
	sum := sha1.Sum([]byte(source)) //nolint:gosec // Redis names scripts by their SHA-1.
	return Script{Source: source, SHA1: hex.EncodeToString(sum[:])}
}

const (
	callAcquire = "return acquire(KEYS, ARGV, check_epoch)\n"
	callPass    = "return pass(KEYS, ARGV, check_epoch)\n"
)

// AcquireScript is FunctionAcquire as a script for a server that no operator looks after. There is no arming: a server that lost its data
// grants again at once, with a greater epoch taken from its clock, so exclusion does not survive the loss, and tokens grow as long as
// that clock is not set back.
func AcquireScript() Script { return scriptOf(checkEpoch + callAcquire) }

// PassScript is FunctionPass as a script for the same.
func PassScript() Script { return scriptOf(checkEpoch + callPass) }

// AcquireOperatedScript is FunctionAcquire as a script for a server that an operator looks after. SelfArm of the epoch record says whether it
// grants. Only the operator loads it: a server that has restarted does not have it, and grants nothing until the operator has found out
// whether locks were lost.
func AcquireOperatedScript() Script { return scriptOf(checkOperated + callAcquire) }

// PassOperatedScript is FunctionPass as a script for the same.
func PassOperatedScript() Script { return scriptOf(checkOperated + callPass) }

// RenewScript is FunctionRenew as a script.
func RenewScript() Script { return scriptOf("return renew(KEYS, ARGV)\n") }

// ReleaseScript is FunctionRelease as a script.
func ReleaseScript() Script { return scriptOf("return release(KEYS, ARGV)\n") }

// InspectScript is FunctionInspect as a script.
func InspectScript() Script { return scriptOf("return inspect(KEYS)\n") }

// ForceReleaseScript is FunctionForceRelease as a script.
func ForceReleaseScript() Script { return scriptOf("return force_release(KEYS, ARGV)\n") }

// ListScript is FunctionList as a script.
func ListScript() Script { return scriptOf("return list(KEYS, ARGV)\n") }

// HolderScripts are what holders and people need, which an operator loads at any time.
func HolderScripts() []Script {
	return []Script{RenewScript(), ReleaseScript(), InspectScript(), ForceReleaseScript(), ListScript()}
}

// GrantScripts are what grants locks, which an operator loads when the server may grant.
func GrantScripts() []Script { return []Script{AcquireOperatedScript(), PassOperatedScript()} }
