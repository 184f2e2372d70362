// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"context"
	"errors"
	"fmt"
	"net"
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
	// remedy is empty for what passes by itself, so that waiters ride it out.
	remedy string
}

const (
	remedyConnect  = "check that the server runs and that this process may reach it: kubectl get redisinstances --all-namespaces"
	remedyRights   = "check the ACL rules of the user: the operator programs them anew within minutes; without the operator give it redisproto.TenantRules"
	remedyPassword = "mount the current binding Secret, or wait until the kubelet has brought the rotated one"
	remedyLibrary  = "see the RedisInstance's conditions; without the operator load redisproto.Library, or use Options.Access = binding.AccessScripts"
	remedyCluster  = "connect to the primary that serves the key, with a client for clusters"
	remedyEpoch    = "the server lost its data, or the lock namespace was never prepared: see the conditions of the LockNamespace and its RedisInstance"
)

// refusals are tried in order.
func refusals() []refusal {
	return []refusal{
		{redisproto.CodeNotArmed, ReasonNotArmed, ""},
		{redisproto.CodeNoEpoch, ReasonNoEpoch, remedyEpoch},
		{redisproto.CodeTTLTooLong, ReasonTTLTooLong, "ask for a shorter TTL, or raise spec.ttl.max of the LockNamespace"},
		{redisproto.CodeBadTTL, ReasonBadRequest, "give a TTL in whole milliseconds"},
		{redisproto.CodeBadID, ReasonBadRequest, "give an acquisition id of 32 hexadecimal digits"},
		{redisproto.CodeBadKeys, ReasonBadRequest, "use a prefix of the form <root>:{<name>}:"},
		{"NOAUTH", ReasonAuthentication, remedyPassword},
		{"WRONGPASS", ReasonAuthentication, remedyPassword},
		{"NOPERM", ReasonPermission, remedyRights},
		// What Redis says within functions and scripts, up to 7.0 and from 7.2 on.
		{"ERR The user executing the script can't", ReasonPermission, remedyRights},
		{"ERR ACL failure in script", ReasonPermission, remedyRights},
		{"ERR Function not found", ReasonNoFunction, remedyLibrary},
		{"ERR unknown command", ReasonNoFunction, remedyLibrary},
		{"NOSCRIPT", ReasonNoScript, ""},
		{"OOM", ReasonOOM, "raise the server's maxmemory, or remove other data from it"},
		{"READONLY", ReasonReadOnly, "connect to the primary, not to a replica"},
		{"NOREPLICAS", ReasonReadOnly, ""},
		{"MASTERDOWN", ReasonReadOnly, ""},
		{"LOADING", ReasonLoading, ""},
		{"BUSY", ReasonBusy, ""},
		{"MISCONF", ReasonPersistence, "see the server's log: it cannot write to its disk"},
		{"MOVED", ReasonCluster, remedyCluster},
		{"ASK", ReasonCluster, remedyCluster},
		{"CLUSTERDOWN", ReasonCluster, ""},
		{"TRYAGAIN", ReasonCluster, ""},
		// The slot moves, and the epoch record is on the other node. It is read before anything is written.
		{"ERR Script attempted to access a non local key", ReasonCluster, ""},
		{"ERR max number of clients reached", ReasonTooManyClients, "raise the server's maxclients, or run fewer clients"},
	}
}

// foreign reports whether the server's text says that the lock's key has a value of somebody else.
func foreign(text string) bool {
	return strings.HasPrefix(text, redisproto.CodeForeign) || strings.HasPrefix(text, "WRONGTYPE")
}

// refused finds what the server's text means.
func refused(text string) (refusal, bool) {
	for _, r := range refusals() {
		if strings.HasPrefix(text, r.start) {
			return r, true
		}
	}
	return refusal{}, false
}

// explain turns the failure of a request into an outcome. Written says whether any of the request may have left.
func explain(op, key string, written bool, err error) error {
	outcome := driver.ErrUnavailable
	if written {
		outcome = driver.ErrUnknown
	}
	fault := &driver.StoreError{Outcome: outcome, Op: op, Reason: ReasonConnection, Err: hideContext(err)}
	var server redis.Error
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
		if r, known := refused(server.Error()); known {
			fault.Outcome, fault.Reason, fault.Remedy, fault.Lasting = driver.ErrUnavailable, r.reason, r.remedy, r.remedy != ""
		}
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
	err := context.Cause(ctx)
	if !errors.Is(err, ctx.Err()) {
		err = fmt.Errorf("%w: %w", ctx.Err(), err)
	}
	return &driver.StoreError{Outcome: outcome, Op: op, Reason: ReasonContext, Err: err}
}

// malformed is the outcome of an answer that the server-side code never gives.
func malformed(op string, err error) error {
	return &driver.StoreError{
		Outcome: driver.ErrUnknown, Op: op, Reason: ReasonMalformedReply, Err: err,
		Remedy: "check that the address is a Redis server, and that its function library is of this version", Lasting: true,
	}
}
