// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"bufio"
	"context"
	"errors"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"

	"github.com/lockstead/lockstead/pkg/lock/driver"
)

var someID = strings.Repeat("0a", 16)

// FuzzAnswersOfTheServer lets a server answer anything to an acquire: there is a grant only for the one right answer.
func FuzzAnswersOfTheServer(f *testing.F) {
	f.Add("*3\r\n:1\r\n$10\r\n1764550000\r\n:5\r\n")
	f.Add("*3\r\n:0\r\n:1000\r\n$39\r\n" + someID + " 7-1 me\r\n")
	f.Add("*-1\r\n")
	f.Add("$-1\r\n")
	f.Add("+OK\r\n")
	f.Add(":1\r\n")
	f.Add("-ERR no\r\n")
	f.Add("*3\r\n:1\r\n$-1\r\n:5\r\n")
	f.Add("")
	f.Fuzz(func(t *testing.T, text string) {
		near, far := net.Pipe()
		served := make(chan struct{})
		go func() {
			defer close(served)
			defer far.Close()
			reader := bufio.NewReader(far)
			// An acquire ends with the line of its owner.
			for {
				line, err := reader.ReadString('\n')
				if err != nil {
					return
				}
				if strings.HasPrefix(line, "hello") {
					if _, err := far.Write([]byte("-ERR unknown command\r\n")); err != nil {
						return
					}
				}
				if line == "the-owner\r\n" {
					_, _ = far.Write([]byte(text))
					return
				}
			}
		}()
		client := redis.NewClient(&redis.Options{
			Dialer:   func(context.Context, string, string) (net.Conn, error) { return near, nil },
			Protocol: 2, MaxRetries: -1, DialerRetries: 1, DisableIdentity: true, ContextTimeoutEnabled: true, PipelinePoolSize: -1,
			MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
		})
		d, err := New(client, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			_ = client.Close()
			_ = d.Close()
			_ = near.Close()
			<-served
		}()
		grant, err := d.Acquire(t.Context(), driver.AcquireRequest{
			Key: driver.Key{Prefix: "lk:{a/b}:", Name: "k"}, ID: someID, TTL: time.Minute, Owner: "the-owner", OnLost: func(error) {},
		})
		if err == nil {
			if grant.Token.Sequence == 0 {
				t.Errorf("%q grants %+v", text, grant)
			}
			return
		}
		outcomes := 0
		for _, outcome := range []error{driver.ErrHeld, driver.ErrUnavailable, driver.ErrUnknown, driver.ErrForeign} {
			if errors.Is(err, outcome) {
				outcomes++
			}
		}
		if outcomes != 1 {
			t.Errorf("%q gives an error with %d outcomes: %v", text, outcomes, err)
		}
	})
}
