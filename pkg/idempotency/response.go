// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package idempotency

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
)

// response is an answer as it is kept.
type response struct {
	// status is that of the handler: 101 for a connection that it took over, 0 if it never decided. Only 200 and above can be replayed.
	status int
	// header has the names that the policy lists, values as the handler set them. A name without values is one that the handler set to nil, so that
	// net/http does not fill it in.
	header  http.Header
	trailer http.Header
	body    []byte
}

const responseVersion = 1

// errMalformed: what the store returned was not written by this version of this package.
var errMalformed = errors.New("idempotency: the stored response cannot be read")

func (r response) encode() []byte {
	b := make([]byte, 0, 64+len(r.body))
	b = append(b, responseVersion)
	b = binary.AppendUvarint(b, uint64(r.status))
	b = appendHeader(b, r.header)
	b = appendHeader(b, r.trailer)
	return append(binary.AppendUvarint(b, uint64(len(r.body))), r.body...)
}

func appendString(b []byte, s string) []byte {
	return append(binary.AppendUvarint(b, uint64(len(s))), s...)
}

func appendHeader(b []byte, h http.Header) []byte {
	names := make([]string, 0, len(h))
	for name := range h {
		names = append(names, name)
	}
	slices.Sort(names)
	b = binary.AppendUvarint(b, uint64(len(names)))
	for _, name := range names {
		b = appendString(b, name)
		b = binary.AppendUvarint(b, uint64(len(h[name])))
		for _, value := range h[name] {
			b = appendString(b, value)
		}
	}
	return b
}

// decodeResponse reads what encode wrote. The body is a part of b.
func decodeResponse(b []byte) (response, error) {
	if len(b) == 0 || b[0] != responseVersion {
		return response{}, fmt.Errorf("%w: unknown version", errMalformed)
	}
	d := decoder{rest: b[1:]}
	r := response{status: int(d.number(999)), header: d.header(), trailer: d.header(), body: d.bytes()}
	switch {
	case d.failed || len(d.rest) != 0:
		return response{}, fmt.Errorf("%w: wrong length", errMalformed)
	case r.status < 200 && r.status != http.StatusSwitchingProtocols && r.status != 0:
		return response{}, fmt.Errorf("%w: status %d", errMalformed, r.status)
	}
	return r, nil
}

type decoder struct {
	rest   []byte
	failed bool
}

func (d *decoder) number(most uint64) uint64 {
	n, size := binary.Uvarint(d.rest)
	if d.failed || size <= 0 || n > most {
		d.failed = true
		return 0
	}
	d.rest = d.rest[size:]
	return n
}

func (d *decoder) bytes() []byte {
	n := d.number(math.MaxInt32)
	if d.failed || n > uint64(len(d.rest)) {
		d.failed = true
		return nil
	}
	b := d.rest[:n:n]
	d.rest = d.rest[n:]
	return b
}

func (d *decoder) header() http.Header {
	// Every element takes a byte at least, which bounds what a damaged count can make us allocate.
	n := d.number(uint64(len(d.rest)))
	if n == 0 {
		return nil
	}
	h := make(http.Header)
	for range n {
		name := string(d.bytes())
		count := d.number(uint64(len(d.rest)))
		if d.failed {
			return nil
		}
		if _, twice := h[name]; twice || name == "" || name != http.CanonicalHeaderKey(name) || forbidden(name) {
			d.failed = true
			return nil
		}
		var values []string
		for range count {
			values = append(values, string(d.bytes()))
		}
		h[name] = values
	}
	return h
}

// kept are the headers that every replay has.
func kept() []string {
	return []string{"Content-Type", "Location", "Etag", "Content-Location", "Content-Language", "Content-Encoding", "Last-Modified", "Link"}
}

// forbidden reports whether a header is never kept: it belongs to one connection, one caller or one moment, or net/http sets it.
func forbidden(name string) bool {
	switch name {
	case "Set-Cookie", "Set-Cookie2", "Www-Authenticate", "Proxy-Authenticate", "Authorization", "Authentication-Info", "Proxy-Authentication-Info",
		"Connection", "Keep-Alive", "Proxy-Connection", "Transfer-Encoding", "Upgrade", "Te", "Trailer", "Content-Length", "Date", "Age", "Server-Timing",
		"Traceparent", "Tracestate", "Retry-After":
		return true
	}
	for _, prefix := range []string{"Access-Control-", "X-Ratelimit-", "Ratelimit"} {
		if strings.HasPrefix(name, prefix) {
			return true
		}
	}
	return false
}

// keep copies what of h is on the list.
func keep(h http.Header, list []string) http.Header {
	var out http.Header
	for _, name := range list {
		if values, ok := h[name]; ok {
			if out == nil {
				out = make(http.Header, len(list))
			}
			out[name] = slices.Clone(values)
		}
	}
	return out
}
