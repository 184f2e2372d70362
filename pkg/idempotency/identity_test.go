// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package idempotency_test

import (
	"net/http"
	"net/http/httptest"
	"net/netip"
	"testing"

	"github.com/lockstead/lockstead/pkg/idempotency"
)

func TestForwardedFor(t *testing.T) {
	address := idempotency.ForwardedFor(netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fd00::/8"))
	for name, tc := range map[string]struct {
		remote string
		lines  []string
		want   string
	}{
		"direct":                       {"192.0.2.1:1", nil, "192.0.2.1"},
		"direct, with a forged header": {"192.0.2.1:1", []string{"198.51.100.7"}, "192.0.2.1"},
		"one proxy":                    {"10.0.0.1:1", []string{"198.51.100.7"}, "198.51.100.7"},
		"two proxies":                  {"10.0.0.1:1", []string{"198.51.100.7, 10.0.0.2"}, "198.51.100.7"},
		"two lines":                    {"10.0.0.1:1", []string{"198.51.100.7", "10.0.0.2"}, "198.51.100.7"},
		"what the client forged":       {"10.0.0.1:1", []string{"203.0.113.9, 198.51.100.7"}, "198.51.100.7"},
		"no address":                   {"10.0.0.1:1", []string{"unknown, 10.0.0.2"}, "10.0.0.2"},
		"IPv6":                         {"[fd00::1]:1", []string{"2001:db8::1"}, "2001:db8::1"},
		"IPv4 as IPv6":                 {"[::ffff:10.0.0.1]:1", []string{"198.51.100.7"}, "198.51.100.7"},
		"no remote address":            {"pipe", []string{"198.51.100.7"}, ""},
	} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.RemoteAddr, r.Header["X-Forwarded-For"] = tc.remote, tc.lines
		if got := address(r); got != tc.want {
			t.Errorf("%s: %q, want %q", name, got, tc.want)
		}
	}
}
