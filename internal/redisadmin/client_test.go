// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisadmin

import (
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"syscall"
	"testing"
)

func TestUnreachableIsSaidInTheSameWordsAtEveryAttempt(t *testing.T) {
	t.Parallel()
	from := func(port int) net.Addr { return &net.TCPAddr{IP: net.IPv4(10, 0, 0, 5), Port: port} }
	for want, cause := range map[string]func(port int) error{
		"server is not reachable: read: connection reset by peer": func(port int) error {
			return &net.OpError{Op: "read", Net: "tcp", Source: from(port), Addr: from(6379), Err: syscall.ECONNRESET}
		},
		"server is not reachable: read: i/o timeout": func(port int) error {
			return fmt.Errorf("ping: %w", &net.OpError{Op: "read", Net: "tcp", Source: from(port), Addr: from(6379), Err: os.ErrDeadlineExceeded})
		},
		"server is not reachable: lookup redis.example.com: timeout": func(port int) error {
			text := fmt.Sprintf("read udp 10.0.0.5:%d->10.96.0.10:53: i/o timeout", port)
			return &net.OpError{Op: "dial", Net: "tcp", Err: &net.DNSError{Err: text, Name: "redis.example.com", Server: "10.96.0.10:53", IsTimeout: true}}
		},
		"server is not reachable: lookup redis.example.com: no such host": func(int) error {
			return &net.DNSError{Err: "no such host", Name: "redis.example.com", Server: "10.96.0.10:53", IsNotFound: true}
		},
		"server is not reachable: EOF": func(int) error { return io.EOF },
	} {
		for _, port := range []int{40001, 40002} {
			err := classify(cause(port))
			if err.Error() != want {
				t.Errorf("said %q, want %q", err, want)
			}
			if !errors.Is(err, ErrUnreachable) {
				t.Errorf("%v is not ErrUnreachable", err)
			}
		}
	}
	if err := classify(&net.OpError{Op: "read", Err: syscall.ECONNRESET}); !errors.Is(err, syscall.ECONNRESET) {
		t.Error("the cause is gone")
	}
}
