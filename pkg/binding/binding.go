// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package binding is the layout of the binding Secret: the one thing that the operator and the library agree on. The operator
// encodes a Binding into the Secret of a LockNamespace; the application mounts that Secret as a folder with a file an entry;
// the library loads the folder. It follows the Service Binding specification (an entry a file, "type" and "provider" first).
//
// A Redis binding:
//
//	type            redis
//	provider        lockstead
//	lock-namespace  payments/billing        Kubernetes namespace and name of the LockNamespace
//	prefix          lk:{payments/billing}:  every key of this lock namespace starts with it
//	instance        5f0c…                   identity of the backend: the UID of the RedisInstance
//	ttl-default     30s                     used when a caller gives no TTL
//	ttl-max         1h0m0s                  longer TTLs are refused
//	host, port      locks.lock-system.svc, 6379
//	username        lk-1f3a9c0b77de
//	password        …
//	uri             redis://…               the same once more for clients that want one string
//	tls             false
//	ca.crt          PEM, only with tls true and a private CA
//	access          functions               or scripts, for servers without functions
//	records-share   16777216                bytes that idempotency records may take, only if the LockNamespace has them
//	records-max-response  65536             bytes of the largest response that is kept, beside it
//
// A Lease binding has type lease, the entries down to ttl-max, and:
//
//	epoch               1                  first part of the fencing token; raised by hand after a restored etcd
//	fallback-condition  NoRedisConfigured  why Leases are used
//	fallback-fix        …                  what to do to use Redis instead
//
// Unknown entries are ignored, so that a newer operator can serve an older library.
package binding

import (
	"fmt"
	"net"
	"net/url"
	"strconv"
	"strings"
	"time"
)

// Entries of the Secret.
const (
	// KeyType: what kind of backend, a Type.
	KeyType = "type"
	// KeyProvider: always Provider.
	KeyProvider = "provider"
	// KeyLockNamespace: "<kubernetes namespace>/<name>" of the LockNamespace.
	KeyLockNamespace = "lock-namespace"
	// KeyPrefix: what all keys of the lock namespace begin with.
	KeyPrefix = "prefix"
	// KeyInstance: Binding.Instance.
	KeyInstance = "instance"
	// KeyTTLDefault: a duration in the form of time.ParseDuration.
	KeyTTLDefault = "ttl-default"
	// KeyTTLMax: a duration in the form of time.ParseDuration.
	KeyTTLMax = "ttl-max"
	// KeyHost: host name or address of the server. This one and those up to KeyAccess are there for Redis.
	KeyHost = "host"
	// KeyPort: a decimal number from 1 to 65535.
	KeyPort = "port"
	// KeyUsername: the ACL user.
	KeyUsername = "username"
	// KeyPassword: its password.
	KeyPassword = "password"
	// KeyURI: the same as host, port, username and password in one, for programs that are not built on this library.
	KeyURI = "uri"
	// KeyTLS: "true" or "false".
	KeyTLS = "tls"
	// KeyCA: a PEM bundle of authorities for the server's certificate.
	KeyCA = "ca.crt"
	// KeyAccess: an Access.
	KeyAccess = "access"
	// KeyRecordsShare: bytes that idempotency records may take on the server. It and the next are there when they may be kept.
	KeyRecordsShare = "records-share"
	// KeyRecordsMaxResponse: bytes of the largest response that is kept.
	KeyRecordsMaxResponse = "records-max-response"
	// KeyEpoch: the epoch of the fencing tokens, for Leases.
	KeyEpoch = "epoch"
	// KeyFallbackCondition: why locks are kept in Leases. This one and the next are there for Leases.
	KeyFallbackCondition = "fallback-condition"
	// KeyFallbackFix: what to do about it.
	KeyFallbackFix = "fallback-fix"
)

// Provider is the value of the "provider" entry.
const Provider = "lockstead"

// Type is the kind of backend.
type Type string

// The backends that a binding can name.
const (
	// TypeRedis: one Redis or Valkey server, in Binding.Redis.
	TypeRedis Type = "redis"
	// TypeLease: Kubernetes Leases in the namespace of the application, in Binding.Lease.
	TypeLease Type = "lease"
)

// SecretType is the type of the Kubernetes Secret that carries a binding of type t.
func (t Type) SecretType() string { return "servicebinding.io/" + string(t) }

// Access says how a Redis client runs the lock protocol.
type Access string

// The two ways.
const (
	// AccessFunctions: the operator loaded a function library, the client calls it by FCALL.
	AccessFunctions Access = "functions"
	// AccessScripts: the client sends the scripts itself, for servers without functions.
	AccessScripts Access = "scripts"
)

// Binding is a decoded binding. It contains the password: formatting, logging and encoding as JSON leave it out.
type Binding struct {
	Type Type
	// LockNamespace is "<kubernetes namespace>/<name>" of the LockNamespace.
	LockNamespace string
	// Prefix is what all keys of the lock namespace begin with, for example "lk:{payments/billing}:".
	Prefix string
	// Instance is an opaque identity of the backend; a binding with another one is another backend.
	Instance string
	// TTLDefault is what TTL 0 stands for.
	TTLDefault time.Duration
	// TTLMax is the longest TTL that the backend accepts.
	TTLMax time.Duration

	// Redis is set when Type is TypeRedis.
	Redis *Redis
	// Lease is set when Type is TypeLease.
	Lease *Lease
}

// Redis is how to reach the server.
type Redis struct {
	// Host and Port are where the server listens.
	Host string
	Port int
	// Username and Password are those of the ACL user, which may use the keys with the prefix.
	Username string
	Password string `json:"-"`
	// TLS says that the server speaks nothing else.
	TLS bool
	// CA is a PEM bundle; empty means the system's roots.
	CA []byte
	// Access is what the server offers.
	Access Access
	// Records is set when the LockNamespace may keep idempotency records on the server.
	Records *Records
}

// Records are what idempotency records may take. The server enforces both.
type Records struct {
	// Share is for all records together, and MaxResponse for the response of one, in bytes.
	Share, MaxResponse int64
}

// Lease is what the Lease backend needs besides a Kubernetes client.
type Lease struct {
	// Epoch is the first part of the fencing token.
	Epoch uint64
	// FallbackCondition is the reason for which Leases are used, as the LockNamespace's status names it.
	FallbackCondition string
	// FallbackFix tells people what to do to use Redis instead.
	FallbackFix string
}

// Namespace is the Kubernetes namespace of the LockNamespace.
func (b *Binding) Namespace() string {
	namespace, _, _ := strings.Cut(b.LockNamespace, "/")
	return namespace
}

// String names the binding without its credentials.
func (b Binding) String() string {
	return fmt.Sprintf("%s binding of LockNamespace %s (prefix %s, instance %s)", b.Type, b.LockNamespace, b.Prefix, b.Instance)
}

// Format writes String for every verb, so that none of them shows the password.
func (b Binding) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, b.String()) }

// String names the server and the user without the password.
func (r Redis) String() string { return r.Username + "@" + r.Address() }

// Format writes String for every verb, so that none of them shows the password.
func (r Redis) Format(f fmt.State, _ rune) { _, _ = fmt.Fprint(f, r.String()) }

// SameBackend reports whether locks taken by one of the two bindings exclude locks taken by the other. Credentials and
// durations do not matter.
func (b *Binding) SameBackend(other *Binding) bool {
	return b.Type == other.Type && b.Instance == other.Instance && b.Prefix == other.Prefix
}

// Address is "host:port", with brackets around an IPv6 address.
func (r Redis) Address() string { return net.JoinHostPort(r.Host, strconv.Itoa(r.Port)) }

// URI is the server, user and password as one string.
func (r Redis) URI() string {
	u := url.URL{Scheme: "redis", User: url.UserPassword(r.Username, r.Password), Host: r.Address()}
	if r.TLS {
		u.Scheme = "rediss"
	}
	return u.String()
}
