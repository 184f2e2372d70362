// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package questioncap

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockstead/lockstead/pkg/lock"
)

// Questions is the table of the open questions. All replicas see it.
type Questions interface {
	// CountOpen tells how many open questions a user has in a session.
	CountOpen(ctx context.Context, session, user string) (int, error)
	// Insert adds one and returns its id.
	Insert(ctx context.Context, session, user, text string) (id string, err error)
}

// CapError refuses a question. It stands for the cap and for too many requests at once: the user should wait in both cases.
type CapError struct {
	// Cap is how many questions may be open.
	Cap int
}

func (e *CapError) Error() string {
	return fmt.Sprintf("no more than %d open questions; wait until one is answered", e.Cap)
}

// Options are what an Asker can be told. The zero value, or nil, is ready to use.
type Options struct {
	// Cap is how many questions a user may have open in a session. Defaults to 3.
	Cap int
	// TTL is how long a request that died keeps the user from asking. Defaults to 30 s.
	TTL time.Duration
	// Wait is how long a request waits for another of the same user. Defaults to 2 s.
	Wait time.Duration
}

// Asker takes questions. It is safe for concurrent use.
type Asker struct {
	locks     *lock.Client
	questions Questions
	options   Options
}

// New makes an asker.
func New(locks *lock.Client, questions Questions, options *Options) *Asker {
	o := Options{}
	if options != nil {
		o = *options
	}
	if o.Cap == 0 {
		o.Cap = 3
	}
	if o.TTL == 0 {
		o.TTL = 30 * time.Second
	}
	if o.Wait == 0 {
		o.Wait = 2 * time.Second
	}
	return &Asker{locks: locks, questions: questions, options: o}
}

// Ask opens a question and returns its id. The error is a *CapError, or a fault, after which the user may try again.
func (a *Asker) Ask(ctx context.Context, session, user, text string) (id string, err error) {
	err = a.locks.Do(ctx, lock.Key("question-cap", session, user), func(ctx context.Context, _ *lock.Handle) error {
		open, err := a.questions.CountOpen(ctx, session, user)
		if err != nil {
			return fmt.Errorf("count open questions: %w", err)
		}
		if open >= a.options.Cap {
			return &CapError{Cap: a.options.Cap}
		}
		// ctx ends with the lock, so a request that was stopped after it counted does not go on to insert.
		if id, err = a.questions.Insert(ctx, session, user, text); err != nil {
			return fmt.Errorf("insert the question: %w", err)
		}
		return nil
	}, &lock.DoOptions{TTL: a.options.TTL, Wait: a.options.Wait})
	switch {
	case errors.Is(err, lock.ErrHeld):
		return "", &CapError{Cap: a.options.Cap}
	case errors.Is(err, lock.ErrLost) && id != "":
		// The question is there. In the worst case it is one above the cap, which the library has logged.
		return id, nil
	case err != nil:
		return "", err
	}
	return id, nil
}
