// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package idempotency

import (
	"crypto/sha256"
	"encoding/binary"
	"hash"
	"net"
	"net/http"
	"net/netip"
	"strings"
)

// The kinds of subjects. An address that looks like a caller's name is none.
const (
	kindCaller  = "caller"
	kindAddress = "address"
)

type subject struct{ kind, name string }

// subjectOf is who sends r: the caller that the application knows, else the address. It reports false if there is neither.
func subjectOf(r *http.Request, caller, address func(*http.Request) string) (subject, bool) {
	if caller != nil {
		if name := caller(r); name != "" {
			return subject{kindCaller, name}, true
		}
	}
	if address != nil {
		if name := address(r); name != "" {
			return subject{kindAddress, name}, true
		}
	}
	return subject{}, false
}

// storedKey is the key of the record. Another version of the layout is another key.
func storedKey(s subject, method, route, clientKey string) Key {
	h := sha256.New()
	writeParts(h, "lockstead-idempotency-key/1", s.kind, s.name, method, route, clientKey)
	return Key(h.Sum(nil))
}

// writeParts writes each part with its length before it, so that no two lists of parts look the same.
func writeParts(h hash.Hash, parts ...string) {
	var length [8]byte
	for _, part := range parts {
		binary.BigEndian.PutUint64(length[:], uint64(len(part)))
		_, _ = h.Write(length[:])
		_, _ = h.Write([]byte(part))
	}
}

// RemoteAddress is the address of the other end of the connection, for servers that clients reach directly. Behind a proxy or an ingress all
// callers share one: use ForwardedFor there.
func RemoteAddress(r *http.Request) string {
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return ""
	}
	return host
}

// ForwardedFor is the address of the client as the X-Forwarded-For header has it, for servers behind proxies: the last one that is not of a trusted proxy. The
// header is believed only as far as trusted proxies wrote it. An element that is no address ends the search, and the result is then the address of the
// proxy that sent it.
func ForwardedFor(trusted ...netip.Prefix) func(*http.Request) string {
	isTrusted := func(a netip.Addr) bool {
		for _, prefix := range trusted {
			if prefix.Contains(a) {
				return true
			}
		}
		return false
	}
	return func(r *http.Request) string {
		client, err := netip.ParseAddr(RemoteAddress(r))
		if err != nil {
			return ""
		}
		client = client.Unmap().WithZone("")
		hops := strings.Split(strings.Join(r.Header.Values("X-Forwarded-For"), ","), ",")
		for i := len(hops) - 1; i >= 0 && isTrusted(client); i-- {
			next, err := netip.ParseAddr(strings.TrimSpace(hops[i]))
			if err != nil {
				break
			}
			client = next.Unmap().WithZone("")
		}
		return client.String()
	}
}
