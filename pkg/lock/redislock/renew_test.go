// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redislock_test

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net"
	"strings"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/pkg/lock/redislock"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
)

func TestEachRenewalOfABatchHasItsOwnOutcome(t *testing.T) {
	bothAccesses(t, func(t *testing.T, access binding.Access) {
		server := startServer(t, access)
		d := openTenant(t, server.Addr(), access, nil)
		first, second, foreign, stranger := request("order:1"), request("order:2"), request("order:3"), request("order:4")
		mustAcquire(t, d, first)
		mustAcquire(t, d, second)
		mustAcquire(t, d, request("order:4"))
		if err := server.Admin(t).Set(t.Context(), prefix+"lock:order:3", "somebody", 0).Err(); err != nil {
			t.Fatal(err)
		}
		elsewhere := request("order:1")
		elsewhere.Key.Prefix = theirs
		fraction := renew(second)
		fraction.TTL++
		got := d.RenewBatch(t.Context(), []driver.RenewRequest{
			renew(first), renew(foreign), renew(stranger), renew(request("free")), fraction, renew(elsewhere), renew(second),
		})
		if got[0].Err != nil || got[0].Renewal.TTL != longTTL || got[6].Err != nil {
			t.Errorf("renewals by the holders: %+v, %+v", got[0], got[6])
		}
		wantIs(t, got[1].Err, driver.ErrForeign)
		wantIs(t, got[2].Err, driver.ErrNotHolder)
		wantIs(t, got[3].Err, driver.ErrNotHolder)
		wantFault(t, got[4].Err, driver.ErrUnavailable, redislock.ReasonBadRequest)
		wantFault(t, got[5].Err, driver.ErrUnavailable, redislock.ReasonNoEpoch, redislock.ReasonPermission)
	})
}

// A script that the server has forgotten is sent again for each renewal that it has not run for.
func TestABatchSendsScriptsThatTheServerForgot(t *testing.T) {
	server := startServer(t, binding.AccessScripts)
	d := openClient(t, server.ClientOptions("admin", server.AdminPassword()), &redislock.Options{Access: binding.AccessScripts})
	reqs := make([]driver.RenewRequest, 3)
	for i := range reqs {
		req := request(fmt.Sprint("order:", i))
		mustAcquire(t, d, req)
		reqs[i] = renew(req)
	}
	if err := server.Admin(t).ScriptFlush(t.Context()).Err(); err != nil {
		t.Fatal(err)
	}
	for i, outcome := range d.RenewBatch(t.Context(), reqs) {
		if outcome.Err != nil {
			t.Errorf("renewal %d: %v", i, outcome.Err)
		}
	}
}

// scripted is a server that accepts the handshake and answers every other request as it is told: with nothing, or by ending the connection.
func scripted(t *testing.T, answer func(words []string) (reply string, end bool)) (address string) {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	serve := func(conn net.Conn) {
		defer conn.Close()
		reader := bufio.NewReader(conn)
		for {
			words, err := readRequest(reader)
			if err != nil {
				return
			}
			reply, end := "+OK\r\n", false
			switch strings.ToLower(words[0]) {
			case "hello":
				reply = "-ERR unknown command\r\n"
			case "fcall":
				reply, end = answer(words)
			}
			if _, err := io.WriteString(conn, reply); err != nil || end {
				return
			}
		}
	}
	var work sync.WaitGroup
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
	return listener.Addr().String()
}

// What was answered before the connection broke is certain, the rest was sent and nobody knows.
func TestABrokenConnectionMakesTheUnansweredRenewalsUnknown(t *testing.T) {
	read := 0
	address := scripted(t, func([]string) (string, bool) {
		if read++; read < 4 {
			return "", false
		}
		return ":1\r\n:1\r\n", true
	})
	d := openTenant(t, address, binding.AccessFunctions, nil)
	reqs := make([]driver.RenewRequest, 4)
	for i := range reqs {
		reqs[i] = renew(request(fmt.Sprint("order:", i)))
	}
	for i, outcome := range d.RenewBatch(t.Context(), reqs) {
		if i < 2 {
			if outcome.Err != nil {
				t.Errorf("renewal %d was answered: %v", i, outcome.Err)
			}
			continue
		}
		wantFault(t, outcome.Err, driver.ErrUnknown, redislock.ReasonConnection)
	}
}

func TestABatchThatWasNotWrittenWasNotApplied(t *testing.T) {
	d, _, proxy := openFaulty(t, nil)
	proxy.Refuse()
	reqs := []driver.RenewRequest{renew(request("order:1")), renew(request("order:2"))}
	for _, outcome := range d.RenewBatch(t.Context(), reqs) {
		wantFault(t, outcome.Err, driver.ErrUnavailable, redislock.ReasonConnect)
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for _, outcome := range d.RenewBatch(ended, reqs) {
		wantIs(t, outcome.Err, driver.ErrUnavailable)
		wantIs(t, outcome.Err, context.Canceled)
	}
	proxy.Heal()
}

func TestABatchWithoutAnAnswerIsUnknown(t *testing.T) {
	d, _, proxy := openFaulty(t, brief)
	held := request("order:1")
	mustAcquire(t, d, held)
	// One healthy round opens a connection for pipelines, so that the fault hits the renewals and not a handshake.
	if _, err := d.Renew(t.Context(), renew(held)); err != nil {
		t.Fatal(err)
	}
	proxy.HoldResponses()
	for _, outcome := range d.RenewBatch(t.Context(), []driver.RenewRequest{renew(held), renew(request("order:2"))}) {
		wantFault(t, outcome.Err, driver.ErrUnknown, redislock.ReasonTimeout)
	}
	proxy.Heal()
}

// Hundreds of acquires that hang take all the connections that there are for them. The locks that are held are renewed all the same.
func TestRenewalsDoNotStarveBehindAcquires(t *testing.T) {
	var acquires atomic.Int32
	address := scripted(t, func(words []string) (string, bool) {
		if words[1] == redisproto.FunctionRenew {
			return ":1\r\n", false
		}
		acquires.Add(1)
		return "", false
	})
	d := openTenant(t, address, binding.AccessFunctions, &redislock.Options{AttemptTimeout: patience})
	busy, cancel := context.WithCancel(t.Context())
	var work sync.WaitGroup
	for i := range 300 {
		work.Go(func() { _, _ = d.Acquire(busy, request(fmt.Sprint("order:", i))) })
	}
	eventually(t, "the acquires taking all connections", func() bool { return acquires.Load() == redislock.PoolSize })
	for range 10 {
		if _, err := d.Renew(t.Context(), renew(request("held"))); err != nil {
			t.Error(err)
		}
		for _, outcome := range d.RenewBatch(t.Context(), []driver.RenewRequest{renew(request("held:1")), renew(request("held:2"))}) {
			if outcome.Err != nil {
				t.Error(outcome.Err)
			}
		}
	}
	if n := acquires.Load(); n != redislock.PoolSize {
		t.Errorf("%d acquires were sent on %d connections", n, redislock.PoolSize)
	}
	cancel()
	work.Wait()
}
