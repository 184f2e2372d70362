// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"context"
	"errors"
	"fmt"
	"net"
	"regexp"
	"strings"

	"github.com/redis/go-redis/v9"

	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
)

// The reasons of a *driver.StoreError of this driver.
const (
	// ReasonContext: the caller's context ended.
	ReasonContext = "context"
	// ReasonClosed: the driver or its client was closed.
	ReasonClosed = "closed"
	// ReasonConnect: no connection could be made.
	ReasonConnect = "connect"
	// ReasonPool: no connection of the client became free in time.
	ReasonPool = "pool"
	// ReasonTimeout: no answer within Options.AttemptTimeout.
	ReasonTimeout = "timeout"
	// ReasonConnection: the connection broke.
	ReasonConnection = "connection"
	// ReasonMalformedReply: the answer is not one of the protocol.
	ReasonMalformedReply = "malformed-reply"
	// ReasonServerError: the server refused with a text that the driver does not know.
	ReasonServerError = "server-error"
	// ReasonNotArmed: the server may have lost data, and waits for the operator.
	ReasonNotArmed = "not-armed"
	// ReasonNoEpoch: the server knows nothing of the lock namespace.
	ReasonNoEpoch = "no-epoch"
	// ReasonTTLTooLong: the TTL is above what the lock namespace allows.
	ReasonTTLTooLong = "ttl-too-long"
	// ReasonBadRequest: the request does not keep to the driver's contract.
	ReasonBadRequest = "bad-request"
	// ReasonPermission: the user lacks a right.
	ReasonPermission = "permission"
	// ReasonAuthentication: user or password are wrong.
	ReasonAuthentication = "authentication"
	// ReasonNoFunction: the server has no function library, or another version of it.
	ReasonNoFunction = "no-function"
	// ReasonNoScript: the scripts are not loaded, and the user may not load them.
	ReasonNoScript = "no-script"
	// ReasonOOM: the server's memory is full.
	ReasonOOM = "oom"
	// ReasonReadOnly: the server is a replica, or has too few.
	ReasonReadOnly = "read-only"
	// ReasonLoading: the server is starting.
	ReasonLoading = "loading"
	// ReasonBusy: the server runs a long script.
	ReasonBusy = "busy"
	// ReasonPersistence: the server cannot write to its disk.
	ReasonPersistence = "persistence"
	// ReasonCluster: the server is part of a cluster, and does not serve the key.
	ReasonCluster = "cluster"
	// ReasonTooManyClients: the server takes no more connections.
	ReasonTooManyClients = "too-many-clients"
)

// refusal is an answer that tells for certain that nothing was applied.
type refusal struct {
	// start is how the server's text begins.
	start  string
	reason string
	remedy string
	// lasting says that it does not pass by itself; waiters ride out what does.
	lasting bool
}

const (
	remedyConnect  = "check that the server runs and that this process may reach it: kubectl get redisinstances --all-namespaces"
	remedyRights   = "check the ACL rules of the user: the operator programs them anew within minutes; without the operator give it redisproto.TenantRules"
	remedyPassword = "mount the current binding Secret, or wait until the kubelet has brought the rotated one"
	remedyNoUsers  = "the server has no such user and asks for no password: see the conditions of its RedisInstance, or connect without a password"
	remedyLibrary  = "see the RedisInstance's conditions: the operator loads the library within minutes; without the operator load redisproto.Library, or use " +
		"Options.Access = binding.AccessScripts"
	remedyScripts = "the operator loads the scripts when the server may grant locks: see the RedisInstance's conditions; without the operator give the user the right to EVAL"
	remedyCluster = "connect to the primary that serves the key, with a client for clusters"
	remedySlots   = "the cluster is changing, or has lost nodes: see CLUSTER INFO if it lasts"
	remedyEpoch   = "the server lost its data, or the lock namespace was never prepared: see the conditions of the LockNamespace and its RedisInstance"
	remedyArming  = "the server may have lost locks, and the operator waits until the last of them has ended: see the condition LockSafe of the RedisInstance"
	remedyReplica = "the primary has too few replicas, or a replica has lost its primary: see INFO replication"
	remedyBusy    = "a script has run for longer than busy-reply-threshold: wait for it, or end it by SCRIPT KILL or FUNCTION KILL"
)

// What a server says to a connection that it does not take, before it hangs up.
const (
	tooManyClients = "ERR max number of clients"
	protectedMode  = "DENIED"
)

// refusals are tried in order.
func refusals() []refusal {
	const lasting, passing = true, false
	return []refusal{
		{redisproto.CodeNotArmed, ReasonNotArmed, remedyArming, passing},
		{redisproto.CodeNoEpoch, ReasonNoEpoch, remedyEpoch, lasting},
		{redisproto.CodeTTLTooLong, ReasonTTLTooLong, "ask for a shorter TTL, or raise spec.ttl.max of the LockNamespace", lasting},
		{redisproto.CodeBadTTL, ReasonBadRequest, "give a TTL in whole milliseconds", lasting},
		{redisproto.CodeBadID, ReasonBadRequest, "give an acquisition id of 32 hexadecimal digits", lasting},
		{redisproto.CodeBadKeys, ReasonBadRequest, "use a prefix of the form <root>:{<name>}:", lasting},
		{"NOAUTH", ReasonAuthentication, remedyPassword, lasting},
		{"WRONGPASS", ReasonAuthentication, remedyPassword, lasting},
		// What servers say that have no users, before and since Redis 6.
		{"ERR Client sent AUTH", ReasonAuthentication, remedyNoUsers, lasting},
		{"ERR AUTH", ReasonAuthentication, remedyNoUsers, lasting},
		{protectedMode, ReasonPermission, "the server is in protected mode: give it a user with a password, or switch protected-mode off", lasting},
		{"NOPERM", ReasonPermission, remedyRights, lasting},
		// What Redis says within functions and scripts, up to 7.0 and from 7.2 on.
		{"ERR The user executing the script can't", ReasonPermission, remedyRights, lasting},
		{"ERR ACL failure in script", ReasonPermission, remedyRights, lasting},
		{"ERR Function not found", ReasonNoFunction, remedyLibrary, lasting},
		{"ERR unknown command", ReasonNoFunction, remedyLibrary, lasting},
		{"NOSCRIPT", ReasonNoScript, remedyScripts, passing},
		{"OOM", ReasonOOM, "raise the server's maxmemory, or remove other data from it", lasting},
		{"READONLY", ReasonReadOnly, "connect to the primary, not to a replica", lasting},
		{"NOREPLICAS", ReasonReadOnly, remedyReplica, passing},
		{"MASTERDOWN", ReasonReadOnly, remedyReplica, passing},
		{"LOADING", ReasonLoading, "the server is reading its data after a start: wait", passing},
		{"BUSY", ReasonBusy, remedyBusy, passing},
		{"MISCONF", ReasonPersistence, "see the server's log: it cannot write to its disk", lasting},
		{"MOVED", ReasonCluster, remedyCluster, lasting},
		{"ASK", ReasonCluster, remedyCluster, lasting},
		{"CROSSSLOT", ReasonCluster, "use a prefix of the form <root>:{<name>}:, which keeps a lock namespace in one slot", lasting},
		{"CLUSTERDOWN", ReasonCluster, remedySlots, passing},
		{"TRYAGAIN", ReasonCluster, remedySlots, passing},
		// The slot moves, and the epoch record is on the other node. It is read before anything is written.
		{"ERR Script attempted to access a non local key", ReasonCluster, remedySlots, passing},
		{tooManyClients, ReasonTooManyClients, "raise the server's maxclients, or run fewer clients", lasting},
	}
}

// foreign reports whether the server's text says that the lock's key has a value of somebody else.
func foreign(text string) bool {
	return strings.HasPrefix(text, redisproto.CodeForeign) || strings.HasPrefix(text, "WRONGTYPE")
}

// insideScript is what a server before Redis 7 puts before the error of a command that a script called.
var insideScript = regexp.MustCompile(`^ERR Error running script \(call to [^)]*\): (?:@[a-z_]+: ?\d+: )*-?`)

// refused finds what the server's text means.
func refused(text string) (refusal, bool) {
	inner := insideScript.ReplaceAllString(text, "")
	for _, r := range refusals() {
		if strings.HasPrefix(inner, r.start) || (inner != text && strings.HasPrefix("ERR "+inner, r.start)) {
			return r, true
		}
	}
	return refusal{}, false
}

// refuse makes the fault that of a server that is known to have done nothing.
func refuse(fault *driver.StoreError, text string) {
	if r, known := refused(text); known {
		fault.Outcome, fault.Reason, fault.Remedy, fault.Lasting = driver.ErrUnavailable, r.reason, r.remedy, r.lasting
	}
}

// explain turns the failure of a request into an outcome. Written says whether any of the request may have left.
func explain(op, key string, written bool, err error) error {
	outcome := driver.ErrUnavailable
	if written {
		outcome = driver.ErrUnknown
	}
	fault := &driver.StoreError{Outcome: outcome, Op: op, Reason: ReasonConnection, Err: hideContext(err)}
	var server redis.Error
	var hung *hangUp
	var timeout net.Error
	switch {
	case errors.Is(err, driver.ErrBackendChanged):
		return fmt.Errorf("%s of lock %q: %w", op, key, err)
	case errors.Is(err, redis.Nil):
		fault.Reason = ReasonMalformedReply
	case errors.As(err, &server):
		if foreign(server.Error()) {
			return fmt.Errorf("%s of lock %q: %w: delete the key, or use another prefix: %w", op, key, driver.ErrForeign, server)
		}
		fault.Reason = ReasonServerError
		refuse(fault, server.Error())
	case errors.As(err, &hung):
		refuse(fault, hung.text)
	case errors.Is(err, redis.ErrClosed):
		fault.Reason = ReasonClosed
	case errors.Is(err, redis.ErrPoolTimeout), errors.Is(err, redis.ErrPoolExhausted):
		fault.Reason = ReasonPool
	case errors.Is(err, context.DeadlineExceeded), errors.As(err, &timeout) && timeout.Timeout():
		fault.Reason = ReasonTimeout
	case !written:
		fault.Reason, fault.Remedy = ReasonConnect, remedyConnect
	}
	return fault
}

// hideContext keeps the time-out of an attempt from looking like the end of the caller's context.
func hideContext(err error) error {
	if errors.Is(err, context.DeadlineExceeded) || errors.Is(err, context.Canceled) {
		return errors.New(err.Error())
	}
	return err
}

// ended is the outcome of a request whose caller has gone.
func ended(ctx context.Context, op string, outcome error) error {
	return &driver.StoreError{Outcome: outcome, Op: op, Reason: ReasonContext, Err: driver.ContextError(ctx)}
}

// malformed is the outcome of an answer that the server-side code never gives.
func malformed(op string, err error) error {
	return &driver.StoreError{
		Outcome: driver.ErrUnknown, Op: op, Reason: ReasonMalformedReply, Err: err,
		Remedy: "check that the address is a Redis server, and that its function library is of this version", Lasting: true,
	}
}
