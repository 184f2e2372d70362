// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redislock_test

import (
	"bufio"
	"errors"
	"io"
	"net"
	"strconv"
	"strings"
	"sync"
	"testing"

	"github.com/redis/go-redis/v9"

	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/redislock"
)

// liar accepts the handshake and answers every other request with the same bytes, then ends the connection.
func liar(t *testing.T, answer string) (address string, requests func() int) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	var work sync.WaitGroup
	var mu sync.Mutex
	count := 0
	serve := func(conn net.Conn) {
		defer conn.Close()
		reader := bufio.NewReader(conn)
		for {
			words, err := readRequest(reader)
			if err != nil {
				return
			}
			reply, last := answer, true
			switch strings.ToLower(words[0]) {
			case "hello":
				reply, last = "-ERR unknown command\r\n", false
			case "auth", "client":
				reply, last = "+OK\r\n", false
			default:
				mu.Lock()
				count++
				mu.Unlock()
			}
			if _, err := io.WriteString(conn, reply); err != nil || last {
				return
			}
		}
	}
	work.Go(func() {
		for {
			conn, err := listener.Accept()
			if err != nil {
				return
			}
			work.Go(func() { serve(conn) })
		}
	})
	t.Cleanup(func() {
		listener.Close()
		work.Wait()
	})
	return listener.Addr().String(), func() int {
		mu.Lock()
		defer mu.Unlock()
		return count
	}
}

// readRequest reads an array of strings.
func readRequest(reader *bufio.Reader) ([]string, error) {
	number := func(sign byte) (int, error) {
		line, err := reader.ReadString('\n')
		if err != nil || line[0] != sign {
			return 0, errors.Join(err, errors.New("not a request"))
		}
		return strconv.Atoi(strings.TrimSpace(line[1:]))
	}
	n, err := number('*')
	if err != nil {
		return nil, err
	}
	words := make([]string, n)
	for i := range words {
		length, err := number('$')
		if err != nil {
			return nil, err
		}
		word := make([]byte, length+2)
		if _, err := io.ReadFull(reader, word); err != nil {
			return nil, err
		}
		words[i] = string(word[:length])
	}
	return words, nil
}

// An answer that the server-side code never gives tells nothing about what the server did, and is no grant.
func TestAnswersOutsideTheProtocolAreUnknown(t *testing.T) {
	for name, answer := range map[string]string{
		"nothing":               "",
		"no answer but a nil":   "$-1\r\n",
		"status":                "+OK\r\n",
		"number":                ":1\r\n",
		"empty array":           "*0\r\n",
		"nil array":             "*-1\r\n",
		"grant cut short":       "*3\r\n:1\r\n$1\r\n5\r\n",
		"grant of two parts":    "*2\r\n:1\r\n$1\r\n5\r\n",
		"grant without numbers": "*3\r\n:1\r\n$3\r\nabc\r\n:1\r\n",
		"sequence zero":         "*3\r\n:1\r\n$1\r\n5\r\n:0\r\n",
		"sequence as text":      "*3\r\n:1\r\n$1\r\n5\r\n$1\r\n1\r\n",
		"epoch as a number":     "*3\r\n:1\r\n:5\r\n:1\r\n",
		"held by nobody":        "*3\r\n:0\r\n:5000\r\n$0\r\n\r\n",
		"held without an end":   "*3\r\n:0\r\n:-1\r\n$50\r\n0123456789abcdef0123456789abcdef 1764550000-7 pod 1\r\n",
		"array in an array":     "*3\r\n*1\r\n:1\r\n$1\r\n5\r\n:1\r\n",
		"not Redis":             "HTTP/1.1 400 Bad Request\r\n\r\n",
		"error of a proxy":      "-ERR upstream failure\r\n",
		"nested error":          "*3\r\n:1\r\n-ERR no\r\n:1\r\n",
	} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			address, requests := liar(t, answer)
			d := openTenant(t, address, binding.AccessFunctions, nil)
			_, err := d.Acquire(t.Context(), request("order:1"))
			wantOutcome(t, err, driver.ErrUnknown)
			if got := requests(); got != 1 {
				t.Errorf("the acquire was sent %d times, want once", got)
			}
		})
	}
}

// A client of the application may be set to retry. An acquire is not for that: between the two sends the first may have been granted and
// have run out, and the application must hear that nobody knows.
func TestV4_AcquireIsSentOnceWhateverTheClientRetries(t *testing.T) {
	for name, answer := range map[string]string{"connection lost": "", "starting": "-LOADING Redis is loading the dataset in memory\r\n"} {
		t.Run(strings.ReplaceAll(name, " ", "_"), func(t *testing.T) {
			address, requests := liar(t, answer)
			d := openClient(t, &redis.Options{Addr: address, Protocol: 2, MaxRetries: 3, DisableIdentity: true}, &redislock.Options{})
			if _, err := d.Acquire(t.Context(), request("order:1")); err == nil {
				t.Fatal("granted without an answer")
			}
			if got := requests(); got != 1 {
				t.Errorf("the acquire was sent %d times, want once", got)
			}
		})
	}
}

func wantOutcome(t *testing.T, err, outcome error) {
	t.Helper()
	for _, o := range []error{driver.ErrHeld, driver.ErrNotHolder, driver.ErrUnavailable, driver.ErrUnknown, driver.ErrForeign, driver.ErrBackendChanged} {
		if errors.Is(err, o) != errors.Is(outcome, o) {
			t.Errorf("error is %v, want one that matches %q and no other outcome", err, outcome)
			return
		}
	}
}
