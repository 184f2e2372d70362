// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lockers

import (
	"context"
	"errors"
	"fmt"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/fields"
	"k8s.io/apimachinery/pkg/watch"
	"k8s.io/client-go/kubernetes"
	coordination "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/leaderelection"
	"k8s.io/client-go/tools/leaderelection/resourcelock"
)

// The names of what Leases are compared with.
const (
	PlainLease = "plain create and delete"
	ClientGo   = "client-go leaderelection"
)

// OnLeases are all subjects on Leases.
func OnLeases() []Subject {
	return []Subject{
		{Name: PlainLease, Open: openPlain},
		{Name: LocksteadLease, Open: openLease},
		{Name: ClientGo, Peer: true, Open: openElection},
	}
}

// Config is that of a client without a limit of its own.
func (a API) Config() *rest.Config {
	return &rest.Config{
		Host: a.Host, QPS: -1,
		TLSClientConfig: rest.TLSClientConfig{CertData: a.CertData, KeyData: a.KeyData, CAData: a.CA},
	}
}

type plainLease struct {
	leases coordination.LeaseInterface
}

func openPlain(_ context.Context, servers Servers) (Locker, error) {
	client, err := kubernetes.NewForConfig(servers.API.Config())
	if err != nil {
		return nil, fmt.Errorf("open the API client: %w", err)
	}
	return &plainLease{client.CoordinationV1().Leases(servers.API.Namespace)}, nil
}

// Acquire implements Locker: it creates a Lease, and after a refusal again when a watch tells that the Lease was deleted. It does not survive its
// holder, which is what a lock has to do beside it.
func (p *plainLease) Acquire(ctx context.Context, key string, wait time.Duration) (Release, error) {
	name := "plain-" + key
	holder := "somebody"
	seconds := int32(TTL / time.Second)
	lease := &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Spec:       coordinationv1.LeaseSpec{HolderIdentity: &holder, LeaseDurationSeconds: &seconds},
	}
	create := func() (Release, error) {
		if _, err := p.leases.Create(ctx, lease, metav1.CreateOptions{}); err != nil {
			return nil, err
		}
		return func(ctx context.Context) error { return p.leases.Delete(ctx, name, metav1.DeleteOptions{}) }, nil
	}
	release, err := create()
	if !apierrors.IsAlreadyExists(err) {
		return release, err
	}
	if wait == 0 {
		return nil, ErrBusy
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	watcher, err := p.leases.Watch(ctx, metav1.ListOptions{FieldSelector: fields.OneTermEqualSelector("metadata.name", name).String()})
	if err != nil {
		return nil, err
	}
	defer watcher.Stop()
	for {
		// Also at once: it may have been deleted before the watch began.
		if release, err = create(); !apierrors.IsAlreadyExists(err) {
			return release, err
		}
		for deleted := false; !deleted; {
			select {
			case event, ok := <-watcher.ResultChan():
				if !ok {
					return nil, ErrBusy
				}
				deleted = event.Type == watch.Deleted
			case <-ctx.Done():
				return nil, ErrBusy
			}
		}
	}
}

// Close implements Locker.
func (*plainLease) Close() {}

type election struct {
	client    *kubernetes.Clientset
	namespace string
	count     atomic.Int64
}

func openElection(_ context.Context, servers Servers) (Locker, error) {
	client, err := kubernetes.NewForConfig(servers.API.Config())
	if err != nil {
		return nil, fmt.Errorf("open the API client: %w", err)
	}
	return &election{client: client, namespace: servers.API.Namespace}, nil
}

// Acquire implements Locker, with the times that client-go's users give: 15, 10 and 2 seconds.
func (e *election) Acquire(ctx context.Context, key string, wait time.Duration) (Release, error) {
	started := make(chan struct{})
	elector, err := leaderelection.NewLeaderElector(leaderelection.LeaderElectionConfig{
		Lock: &resourcelock.LeaseLock{
			LeaseMeta:  metav1.ObjectMeta{Name: "election-" + key, Namespace: e.namespace},
			Client:     e.client.CoordinationV1(),
			LockConfig: resourcelock.ResourceLockConfig{Identity: strconv.Itoa(os.Getpid()) + "-" + strconv.FormatInt(e.count.Add(1), 10)},
		},
		LeaseDuration: 15 * time.Second, RenewDeadline: 10 * time.Second, RetryPeriod: 2 * time.Second, ReleaseOnCancel: true,
		Callbacks: leaderelection.LeaderCallbacks{OnStartedLeading: func(context.Context) { close(started) }, OnStoppedLeading: func() {}},
	})
	if err != nil {
		return nil, err
	}
	running, cancel := context.WithCancel(context.WithoutCancel(ctx))
	done := make(chan struct{})
	go func() {
		defer close(done)
		elector.Run(running)
	}()
	timeout, end := context.WithTimeout(ctx, max(wait, time.Second))
	defer end()
	select {
	case <-started:
		return func(context.Context) error { cancel(); <-done; return nil }, nil
	case <-timeout.Done():
		cancel()
		<-done
		return nil, errors.Join(ErrBusy, ctx.Err())
	}
}

// Close implements Locker.
func (*election) Close() {}
