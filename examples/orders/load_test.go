// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/lockstead/lockstead/examples/orders/shop"
)

const (
	// patience is far longer than any healthy step takes.
	patience = time.Minute
	// lease is short, so that a repeat of what a dead replica has left does not wait for long.
	lease = 2 * time.Second
	// replicas is how many the service has.
	replicas = 3
	// duplicates is how often each order is sent before anybody asks for the answer, in two waves.
	duplicates = 8
	// clients is how many orders are being placed at a time.
	clients = 16
	// faultEvery is after how many requests the next replica is killed or stopped.
	faultEvery = 200
	// requestsVariable is how many requests the load has at least.
	requestsVariable = "ORDERS_TEST_REQUESTS"
	defaultRequests  = 1000
)

// load is a service of three replicas, and clients that repeat their orders while replicas are killed and stopped.
type load struct {
	t           *testing.T
	environment []string
	journal     *journal
	client      *http.Client
	// serving are the replicas as they live now.
	serving [replicas]atomic.Pointer[process]
	// sent counts requests; fault gets one signal for every faultEvery of them, and holds the clients back when the faults do not keep up.
	sent  atomic.Int64
	fault chan struct{}
	// last is closed when no new orders come: then nobody is held back.
	last chan struct{}
	// What became of requests.
	executed, replayed, inFlight, left, cut, failed, degraded atomic.Int64
	// What was done to replicas.
	kills, trapped, pauses, stops int
}

// placed is what the clients know of one order.
type placed struct {
	key, body string

	mu sync.Mutex
	// answer is what every answer must be.
	answer string
	// executions are answers of an execution that was guarded from its beginning to its end.
	executions int
}

func runLoad(t *testing.T, environment ...string) (*load, []*placed) {
	t.Helper()
	requests := defaultRequests
	if value := os.Getenv(requestsVariable); value != "" {
		var err error
		if requests, err = strconv.Atoi(value); err != nil {
			t.Fatalf("%s: %v", requestsVariable, err)
		}
	}
	transport := &http.Transport{MaxIdleConnsPerHost: clients}
	t.Cleanup(transport.CloseIdleConnections)
	l := &load{
		t: t, journal: newJournal(), client: &http.Client{Transport: transport}, fault: make(chan struct{}, 1), last: make(chan struct{}),
		environment: append(environment, "ORDERS_TOKENS=ann=tokenofann,bob=tokenofbob", "ORDERS_LEASE="+lease.String()),
	}
	t.Cleanup(func() {
		for i := range l.serving {
			if p := l.serving[i].Load(); p != nil {
				p.signal(syscall.SIGKILL)
				<-p.done
			}
		}
	})
	var starting sync.WaitGroup
	for i := range l.serving {
		starting.Go(func() { l.start(i) })
	}
	starting.Wait()
	if t.Failed() {
		t.FailNow()
	}
	begin := time.Now()
	all := make([]*placed, (requests+duplicates-1)/duplicates)
	work := make(chan *placed)
	var placing, breaking sync.WaitGroup
	for range clients {
		placing.Go(func() {
			for o := range work {
				l.place(o)
			}
		})
	}
	over := make(chan struct{})
	breaking.Go(func() { l.disturb(over) })
	for i := range all {
		item := []string{"tea", "coffee", "honey"}[i%3]
		all[i] = &placed{key: fmt.Sprint("order-", i), body: fmt.Sprintf(`{"item":%q,"quantity":%d}`, item, i/3%1000+1)}
		work <- all[i]
	}
	close(work)
	close(l.last)
	placing.Wait()
	close(over)
	breaking.Wait()
	took := time.Since(begin)
	l.judge(all)
	t.Logf("%d requests for %d orders on %d replicas in %s (%.0f/s): %d executed, %d replayed, %d in flight, %d clients left, %d cut off, %d failed, %d degraded",
		l.sent.Load(), len(all), replicas, took.Round(time.Millisecond), float64(l.sent.Load())/took.Seconds(),
		l.executed.Load(), l.replayed.Load(), l.inFlight.Load(), l.left.Load(), l.cut.Load(), l.failed.Load(), l.degraded.Load())
	l.journal.mu.Lock()
	defer l.journal.mu.Unlock()
	t.Logf("%d replicas killed, %d of them between the effect and its record; stopped %d times within the lease and %d times beyond; %d executions found the order of an earlier one; degraded: %v",
		l.kills+l.trapped, l.trapped, l.pauses, l.stops, l.journal.found, l.journal.degraded)
	return l, all
}

// start puts a new replica in a place.
func (l *load) start(slot int) {
	p, err := startProcess(l.journal, l.environment)
	if err != nil {
		l.journal.mu.Lock()
		defer l.journal.mu.Unlock()
		l.t.Errorf("%v; the last lines of the logs:\n%s", err, strings.Join(l.journal.lines, "\n"))
		return
	}
	l.serving[slot].Store(p)
}

// place sends an order several times at once, then again, and in the end until it has an answer.
func (l *load) place(o *placed) {
	for _, wave := range []int{5, duplicates - 5} {
		var sending sync.WaitGroup
		for i := range wave {
			sending.Go(func() {
				ctx, cancel := context.WithTimeout(l.t.Context(), patience)
				defer cancel()
				if i == 1 { // Some leave at some moment on the way.
					var leave context.CancelFunc
					ctx, leave = context.WithTimeout(ctx, rand.N(15*time.Millisecond)+time.Millisecond)
					defer leave()
				}
				_, _ = l.send(ctx, o)
			})
		}
		sending.Wait()
	}
	ctx, cancel := context.WithTimeout(l.t.Context(), patience)
	defer cancel()
	for {
		again, err := l.send(ctx, o)
		if err == nil && !again {
			return
		}
		pause := time.NewTimer(50 * time.Millisecond)
		select {
		case <-pause.C:
		case <-ctx.Done():
			l.t.Errorf("%s has no answer within %s: %v", o.key, patience, err)
			return
		}
	}
}

// send sends an order to one of the replicas, and judges the answer: again says that it is none yet.
func (l *load) send(ctx context.Context, o *placed) (again bool, err error) {
	p := l.serving[rand.N(replicas)].Load()
	for tries := 0; p.ended() && tries < 10*replicas; tries++ { // A Service sends nothing to a pod that is known to be dead.
		p = l.serving[rand.N(replicas)].Load()
	}
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, p.url+"/orders", strings.NewReader(o.body))
	if err != nil {
		return false, err
	}
	req.Header.Set("Idempotency-Key", o.key)
	req.Header.Set("Authorization", "Bearer tokenofann")
	if l.sent.Add(1)%faultEvery == 0 {
		select {
		case l.fault <- struct{}{}:
		case <-l.last:
		case <-ctx.Done():
		}
	}
	status, header, body, err := l.exchange(req)
	if err != nil {
		if ctx.Err() != nil {
			l.left.Add(1)
		} else {
			l.cut.Add(1)
		}
		return true, err
	}
	degraded := header["X-Idempotent-Degraded"]
	if len(degraded) > 0 {
		l.degraded.Add(1)
	}
	switch {
	case status == http.StatusConflict && header.Get("Retry-After") != "":
		l.inFlight.Add(1)
		return true, nil
	case status >= http.StatusInternalServerError:
		l.failed.Add(1)
		if len(degraded) == 0 && !p.disturbed.Load() {
			l.t.Errorf("%s got %d of a replica that nobody disturbed: %s", o.key, status, body)
		}
		return true, nil
	case status != http.StatusCreated:
		l.t.Errorf("%s got %d: %s", o.key, status, body)
		return false, nil
	}
	o.mu.Lock()
	defer o.mu.Unlock()
	if o.answer == "" {
		o.answer = body
	}
	if body != o.answer {
		l.t.Errorf("%s got %s, and before %s", o.key, body, o.answer)
	}
	switch {
	case header.Get("X-Idempotent-Replay") == "true":
		l.replayed.Add(1)
	case len(degraded) == 0:
		l.executed.Add(1)
		if o.executions++; o.executions > 1 {
			l.t.Errorf("%s was executed %d times by the word of its answers, and none said that it was degraded", o.key, o.executions)
		}
	}
	return false, nil
}

func (l *load) exchange(req *http.Request) (status int, header http.Header, body string, err error) {
	resp, err := l.client.Do(req)
	if err != nil {
		return 0, nil, "", err
	}
	defer resp.Body.Close()
	raw, err := io.ReadAll(resp.Body)
	return resp.StatusCode, resp.Header, string(raw), err
}

// disturb kills and stops replicas, one after the other, as the requests go on.
func (l *load) disturb(over <-chan struct{}) {
	for n := 0; ; n++ {
		select {
		case <-over:
			return
		case <-l.fault:
		}
		slot := n % replicas
		p := l.serving[slot].Load()
		p.disturbed.Store(true)
		switch n % 5 {
		case 0, 3: // Right after an effect, before its record.
			sprung := make(chan struct{})
			spring := func() {
				p.signal(syscall.SIGKILL)
				close(sprung)
			}
			p.trap.Store(&spring)
			select {
			case <-sprung:
				l.trapped++
			case <-over:
				p.signal(syscall.SIGKILL)
				l.kills++
			}
			<-p.done
			l.start(slot)
		case 2: // At any moment.
			p.signal(syscall.SIGKILL)
			<-p.done
			l.kills++
			l.start(slot)
		case 1:
			l.stops++
			l.stop(p, lease+lease/2)
		case 4:
			l.pauses++
			l.stop(p, lease/8)
		}
	}
}

// stop stops a process for a while, as a machine does that runs out of memory.
func (l *load) stop(p *process, d time.Duration) {
	p.signal(syscall.SIGSTOP)
	defer p.signal(syscall.SIGCONT)
	<-time.NewTimer(d).C
}

// judge looks at what all replicas logged: only one whose replica was killed, stopped or degraded may be followed by another execution.
func (l *load) judge(all []*placed) {
	l.journal.mu.Lock()
	defer l.journal.mu.Unlock()
	for operation, by := range l.journal.executions {
		whole := 0
		for _, p := range by {
			if !p.disturbed.Load() {
				whole++
			}
		}
		if whole > 1 {
			l.t.Errorf("operation %s was executed %d times by replicas that nobody disturbed", operation, whole)
		}
	}
	if n := len(l.journal.executions); n > len(all) {
		l.t.Errorf("%d operations were executed for %d orders", n, len(all))
	}
	answered := 0
	for _, n := range l.journal.degraded {
		answered += n
	}
	if int64(answered) < l.degraded.Load() {
		l.t.Errorf("%d answers were degraded, and the replicas tell of %d", l.degraded.Load(), answered)
	}
}

// finish ends all replicas in good order, after a look at what they serve beside orders.
func (l *load) finish(all []*placed) {
	l.t.Helper()
	var order shop.Order
	if err := json.Unmarshal([]byte(all[0].answer), &order); err != nil {
		l.t.Fatal(err)
	}
	for i := range l.serving {
		p := l.serving[i].Load()
		for _, want := range []struct {
			method, url, token, body string
			key                      bool
			status                   int
			part                     string
		}{
			{"GET", p.url + "/orders/" + order.ID, "tokenofann", "", false, http.StatusOK, order.ID},
			{"GET", p.url + "/orders/" + order.ID, "tokenofbob", "", false, http.StatusNotFound, ""},
			{"GET", p.url + "/orders/" + order.ID, "", "", false, http.StatusUnauthorized, "Bearer"},
			{"POST", p.url + "/orders", "tokenofann", all[0].body, false, http.StatusBadRequest, "idempotency-key-missing"},
			{"POST", p.url + "/orders", "tokenofann", all[1].body, true, http.StatusUnprocessableEntity, "idempotency-key-reused"},
			{"POST", p.url + "/orders", "tokenofann", `{"item":"gold","quantity":1}`, true, http.StatusUnprocessableEntity, ""},
			{"POST", p.url + "/quotes", "tokenofann", `{"item":"gold","quantity":1}`, false, http.StatusBadRequest, "the shop sells"},
			{"POST", p.url + "/quotes", "tokenofann", `{"item":"tea","quantity":2}`, false, http.StatusOK, `"cents":900`},
			{"POST", p.url + "/quotes", "tokenofann", `{"item":"tea","quantity":2}`, true, http.StatusBadRequest, "idempotency-key-unsupported"},
			{"GET", p.adminURL + "/healthz", "", "", false, http.StatusOK, ""},
			{"GET", p.adminURL + "/readyz", "", "", false, http.StatusOK, ""},
			{"GET", p.adminURL + "/metrics", "", "", false, http.StatusOK, `shop_idempotency_requests_total{outcome="mismatch",route="POST /orders"}`},
			{"GET", p.adminURL + "/metrics", "", "", false, http.StatusOK, "lockstead_lock_acquire_total"},
		} {
			req, err := http.NewRequestWithContext(l.t.Context(), want.method, want.url, strings.NewReader(want.body))
			if err != nil {
				l.t.Fatal(err)
			}
			if want.token != "" {
				req.Header.Set("Authorization", "Bearer "+want.token)
			}
			if want.key {
				req.Header.Set("Idempotency-Key", all[0].key)
			}
			if status, _, body, err := l.exchange(req); err != nil || status != want.status || !strings.Contains(body, want.part) {
				l.t.Errorf("%s %s with %q gets %d %s, %v; want %d with %q", want.method, want.url, want.body, status, body, err, want.status, want.part)
			}
		}
	}
	for i := range l.serving {
		l.serving[i].Load().signal(syscall.SIGTERM)
	}
	for i := range l.serving {
		p := l.serving[i].Load()
		<-p.done
		if code := p.cmd.ProcessState.ExitCode(); code != 0 {
			l.t.Errorf("a replica ended with %d", code)
		}
	}
	if l.t.Failed() {
		l.t.Logf("last lines of the logs:\n%s", strings.Join(l.journal.lines, "\n"))
	}
}
