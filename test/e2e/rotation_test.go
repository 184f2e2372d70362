// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

//go:build e2e

package e2e

import (
	"context"
	"errors"
	"fmt"
	"net"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/redis/go-redis/v9"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstead/lockstead/internal/testcluster"
	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/redislock"
)

const (
	// overlap is how long both passwords work: the shortest that is allowed.
	overlap = 2 * time.Minute
	// staleness is how long the load goes on with a binding before it looks again, as a mounted Secret is late.
	staleness = 15 * time.Second
	// pace is how often each of the load's goroutines takes a lock.
	pace = 100 * time.Millisecond
)

// rotation is a rotation of the application's password while it is used.
type rotation struct {
	before, after *binding.Binding
	// stop ends the load and returns what it did.
	stop func() (acquired int64, failed []error)
}

// startRotation rotates the password under a load that connects anew for each lock, and goes on until the end of life.
func startRotation(t, life *testing.T) *rotation {
	t.Helper()
	r := &rotation{before: readBinding(t)}
	var address atomic.Value
	forward(life, testcluster.OperatorNamespace, testcluster.InstanceName+"-redis-0", &address)
	r.stop = startLoad(life, address.Load().(string))
	spec := lockNamespace(redisNamespace)
	spec.Object["spec"] = map[string]any{"credentials": map[string]any{"rotationCounter": int64(1), "overlap": overlap.String()}}
	must(t, cluster.Apply(t.Context(), spec))
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	waitFor(t, ctx, "the Secret has another password", func() bool {
		r.after = readBinding(t)
		return r.after.Redis.Password != r.before.Redis.Password
	})
	waitReady(t, testcluster.Kind("LockNamespace"), client.ObjectKey{Namespace: redisNamespace, Name: testcluster.WorkerName})
	for name, b := range map[string]*binding.Binding{"old": r.before, "new": r.after} {
		if err := login(ctx, address.Load().(string), b); err != nil {
			t.Errorf("the %s password right after the rotation: %v", name, err)
		}
	}
	return r
}

// finish waits until the old password is gone, and fails if any acquire did.
func (r *rotation) finish(t *testing.T) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), overlap+time.Minute)
	defer cancel()
	key := client.ObjectKey{Namespace: redisNamespace, Name: testcluster.WorkerName}
	waitFor(t, ctx, "the overlap is over", func() bool {
		object := &unstructured.Unstructured{}
		object.SetGroupVersionKind(testcluster.Kind("LockNamespace"))
		must(t, cluster.Client.Get(ctx, key, object))
		_, still, _ := unstructured.NestedString(object.Object, "status", "credentials", "previousValidUntil")
		return !still
	})
	acquired, failed := r.stop()
	if len(failed) > 0 {
		t.Errorf("%d of %d acquires failed, the first: %v", len(failed), acquired, failed[0])
	}
	if acquired < 100 {
		t.Errorf("the load acquired %d times, which is no load", acquired)
	}
	var address atomic.Value
	forward(t, testcluster.OperatorNamespace, testcluster.InstanceName+"-redis-0", &address)
	if err := login(ctx, address.Load().(string), r.before); err == nil || !redis.HasErrorPrefix(err, "WRONGPASS") {
		t.Errorf("the old password after the overlap: %v, want WRONGPASS", err)
	}
	if err := login(ctx, address.Load().(string), r.after); err != nil {
		t.Errorf("the new password after the overlap: %v", err)
	}
	t.Logf("%d acquires with a connection each, 0 failed", acquired)
}

func readBinding(t *testing.T) *binding.Binding {
	t.Helper()
	b, err := fetchBinding(t.Context())
	must(t, err)
	return b
}

func fetchBinding(ctx context.Context) (*binding.Binding, error) {
	secret := &corev1.Secret{}
	if err := cluster.Client.Get(ctx, client.ObjectKey{Namespace: redisNamespace, Name: testcluster.WorkerName + "-lock"}, secret); err != nil {
		return nil, err
	}
	return binding.Parse(secret.Data)
}

// at is the binding with the address of a forwarded port.
func at(b *binding.Binding, address string) (*binding.Binding, error) {
	host, port, err := net.SplitHostPort(address)
	if err != nil {
		return nil, err
	}
	moved, server := *b, *b.Redis
	server.Host = host
	server.Port, err = strconv.Atoi(port)
	moved.Redis = &server
	return &moved, err
}

func login(ctx context.Context, address string, b *binding.Binding) error {
	server := redis.NewClient(&redis.Options{Addr: address, Username: b.Redis.Username, Password: b.Redis.Password, MaxRetries: -1, DisableIdentity: true})
	defer func() { _ = server.Close() }()
	return server.Ping(ctx).Err()
}

// startLoad takes and releases locks, each on a new connection with a binding that may be a while old.
func startLoad(t *testing.T, address string) (stop func() (int64, []error)) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	var (
		acquired atomic.Int64
		mu       sync.Mutex
		failed   []error
		group    sync.WaitGroup
	)
	for i := range 4 {
		group.Go(func() {
			var b *binding.Binding
			var read time.Time
			ticker := time.NewTicker(pace)
			defer ticker.Stop()
			for ctx.Err() == nil {
				<-ticker.C
				if time.Since(read) > staleness {
					fresh, err := fetchBinding(ctx)
					if err != nil {
						continue
					}
					if b, err = at(fresh, address); err != nil {
						panic(err)
					}
					read = time.Now()
				}
				err := lockOnce(ctx, b, fmt.Sprintf("load-%d", i))
				if ctx.Err() != nil {
					return
				}
				acquired.Add(1)
				if err != nil {
					mu.Lock()
					failed = append(failed, err)
					mu.Unlock()
				}
			}
		})
	}
	stop = sync.OnceValues(func() (int64, []error) {
		cancel()
		group.Wait()
		return acquired.Load(), failed
	})
	t.Cleanup(func() { stop() })
	return stop
}

func lockOnce(ctx context.Context, b *binding.Binding, key string) error {
	d, err := redislock.FromBinding(b, nil)
	if err != nil {
		return err
	}
	defer func() { _ = d.Close() }()
	c, err := lock.New(d, b.Prefix, nil)
	if err != nil {
		return err
	}
	defer func() { _ = c.Close(ctx) }()
	h, err := c.TryAcquire(ctx, key, 10*time.Second, 0)
	if err != nil {
		return err
	}
	return errors.Join(h.Err(), h.Release(ctx))
}
