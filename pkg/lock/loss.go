// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lock

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/lockstead/lockstead/pkg/lock/driver"
)

// lossLog writes of lost locks, each on a goroutine of its own: a handler that blocks holds up neither the handle, nor who finds the loss, nor the
// driver that told of it. After close it writes nothing: a handle that is still held then has no log to end in, and Close has told of it.
type lossLog struct {
	mu     sync.Mutex
	closed bool
	// writing counts the records under way; idle is closed when there are none, if somebody waits for that.
	writing int
	idle    chan struct{}
}

func (l *lossLog) write(h *Handle, loss *LostError, held time.Duration) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return
	}
	l.writing++
	go func() {
		defer l.written()
		h.client.log.Warn("lock lost", "key", h.key, "token", h.token.String(), "reason", string(loss.Reason), "held", held, "error", loss)
	}()
}

func (l *lossLog) written() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.writing--; l.writing == 0 && l.idle != nil {
		close(l.idle)
		l.idle = nil
	}
}

// close waits until all records are written, or ctx ends.
func (l *lossLog) close(ctx context.Context) error {
	l.mu.Lock()
	l.closed = true
	if l.writing == 0 {
		l.mu.Unlock()
		return nil
	}
	if l.idle == nil {
		l.idle = make(chan struct{})
	}
	idle := l.idle
	l.mu.Unlock()
	select {
	case <-idle:
		return nil
	case <-ctx.Done():
		return fmt.Errorf("lock: the logger has not taken all records of lost locks: %w", driver.ContextError(ctx))
	}
}
