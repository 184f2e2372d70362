// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package idempotency

import "context"

// stripes serve when there is no lock that all replicas see: semaphores of this process, each for many keys. A wait for one ends only with the request,
// since the holder may be of another key, of which nothing can be said to the client.
type stripes [256]chan struct{}

func newStripes() *stripes {
	var s stripes
	for i := range s {
		s[i] = make(chan struct{}, 1)
	}
	return &s
}

// acquire waits for the stripe of key. The error is the cause of ctx.
func (s *stripes) acquire(ctx context.Context, key Key) (release func(), err error) {
	stripe := s[key[0]]
	select {
	case stripe <- struct{}{}:
		return func() { <-stripe }, nil
	case <-ctx.Done():
		return nil, context.Cause(ctx)
	}
}
