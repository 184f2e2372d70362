// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package leaselock

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/watch"

	"github.com/lockstead/lockstead/pkg/lockstead/leaselock/leaseformat"
)

const (
	// watchLife is how long the API server is asked to keep a watch: a path that died in silence is noticed after that.
	watchLife = 5 * time.Minute
	// watchGrace is what the server is given on top before the watch is ended from here.
	watchGrace = 15 * time.Second
	firstPause = 100 * time.Millisecond
	longPause  = 5 * time.Second
	listPage   = 500
)

// run keeps a watch until ctx ends. Interruptions are resumed from the last version; when the server no longer has that, everything is listed
// again.
func (s *space) run(ctx context.Context) {
	version := ""
	pause := firstPause
	for ctx.Err() == nil {
		start := s.driver.clock.Now()
		established, next, err := s.session(ctx, version)
		version = next
		if ctx.Err() != nil {
			return
		}
		if established && s.driver.clock.Now().Sub(start) > longPause {
			pause = firstPause
			if err == nil {
				// The server ended it in order, and not so soon that something must be wrong.
				continue
			}
		}
		if err != nil {
			s.setInterrupted(ctx, err)
		}
		timer := s.driver.clock.NewTimer(pause/2 + rand.N(pause))
		select {
		case <-timer.C():
		case <-ctx.Done():
			timer.Stop()
			return
		}
		pause = min(2*pause, longPause)
	}
}

// session runs one watch, after a list if there is no version to go on from. It returns where to go on, "" for a list.
func (s *space) session(ctx context.Context, version string) (established bool, next string, err error) {
	if version == "" {
		if version, err = s.list(ctx); err != nil {
			return false, "", err
		}
	}
	watchCtx, cancel := context.WithCancel(ctx)
	defer cancel()
	opening := s.driver.clock.AfterFunc(s.driver.options.AttemptTimeout, cancel)
	seconds := int64((watchLife - rand.N(watchLife/4)).Seconds())
	w, err := s.driver.leases.Watch(watchCtx, metav1.ListOptions{
		LabelSelector: leaseformat.PrefixSelector(s.prefix), ResourceVersion: version, AllowWatchBookmarks: true, TimeoutSeconds: &seconds,
	})
	inTime := opening.Stop()
	if err != nil {
		if gone(err) {
			return false, "", err
		}
		return false, version, fmt.Errorf("watch: %w", err)
	}
	defer w.Stop()
	if !inTime {
		return false, version, fmt.Errorf("watch: no answer from the Kubernetes API within %s", s.driver.options.AttemptTimeout)
	}
	end := s.driver.clock.AfterFunc(time.Duration(seconds)*time.Second+watchGrace, cancel)
	defer end.Stop()
	s.setEstablished(ctx)
	next, err = s.follow(watchCtx, w, version)
	return true, next, err
}

func (s *space) follow(ctx context.Context, w watch.Interface, version string) (next string, err error) {
	for {
		select {
		case <-ctx.Done():
			return version, errors.New("watch: no end from the server in time")
		case event, ok := <-w.ResultChan():
			if !ok {
				return version, nil
			}
			if event.Type == watch.Error {
				err := apierrors.FromObject(event.Object)
				if gone(err) {
					return "", err
				}
				return version, fmt.Errorf("watch: %w", err)
			}
			lease, ok := event.Object.(*coordinationv1.Lease)
			if !ok {
				return "", fmt.Errorf("watch: event %q with a %T", event.Type, event.Object)
			}
			version = lease.ResourceVersion
			s.receive(event.Type, lease)
		}
	}
}

// gone: the server no longer has the events from that version on.
func gone(err error) bool { return apierrors.IsResourceExpired(err) || apierrors.IsGone(err) }

// receive takes in one event of the watch.
func (s *space) receive(kind watch.EventType, lease *coordinationv1.Lease) {
	switch kind {
	case watch.Added, watch.Modified:
		s.received(lease)
		tell(s.driver.owners.sight(lease.Name, sighting{version: lease.ResourceVersion, lease: lease}))
	case watch.Deleted:
		// Deleted, or no longer selected by its labels: in both cases it is no lock now, at the version that the event carries.
		s.forget(lease.UID)
		tell(s.driver.owners.sight(lease.Name, sighting{version: lease.ResourceVersion}))
		s.wake(lease.Name)
	case watch.Bookmark, watch.Error:
		// A bookmark carries a version alone, and an error was dealt with before.
	}
}

// list takes in all Leases of the prefix and returns the version of the list.
func (s *space) list(ctx context.Context) (version string, err error) {
	present := map[string]bool{}
	uids := map[types.UID]bool{}
	options := metav1.ListOptions{LabelSelector: leaseformat.PrefixSelector(s.prefix), Limit: listPage}
	for {
		page, err := attempt(ctx, s.driver, "subscribe", false, s.driver.options.AttemptTimeout, func(ctx context.Context) (*coordinationv1.LeaseList, error) {
			return s.driver.leases.List(ctx, options)
		})
		if err != nil {
			return "", fmt.Errorf("list: %w", err)
		}
		for i := range page.Items {
			lease := &page.Items[i]
			present[lease.Name], uids[lease.UID] = true, true
			s.received(lease)
			tell(s.driver.owners.sight(lease.Name, sighting{version: lease.ResourceVersion, lease: lease}))
		}
		if page.Continue == "" {
			s.mu.Lock()
			s.observations.Keep(func(uid types.UID) bool { return uids[uid] })
			s.mu.Unlock()
			tell(s.driver.owners.sightAbsent(s.prefix, page.ResourceVersion, present))
			return page.ResourceVersion, nil
		}
		options.Continue = page.Continue
	}
}
