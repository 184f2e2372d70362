// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lockers

import (
	"context"
	"crypto/rand"
	"errors"
	"fmt"
	"os"
	"time"

	peerlock "github.com/bsm/redislock"
	"github.com/go-redsync/redsync/v4"
	goredis "github.com/go-redsync/redsync/v4/redis/goredis/v9"
	"github.com/redis/go-redis/v9"
	"github.com/redis/go-redis/v9/maintnotifications"
	"github.com/redis/rueidis"
	"github.com/redis/rueidis/rueidislock"

	"github.com/lockstead/lockstead/pkg/binding"
)

// RawRedis is the bare protocol: SET NX PX, and a script that deletes the key of its owner.
const RawRedis = "raw go-redis"

// poolSize is that of every connection pool, so that no subject waits for a connection.
const poolSize = 64

// OnRedis are all subjects on Redis.
func OnRedis() []Subject {
	functions := []string{"fcall", "fcall_ro", "subscribe", "unsubscribe", "ping"}
	scripts := []string{"eval", "evalsha", "subscribe", "unsubscribe", "ping"}
	return []Subject{
		{Name: RawRedis, Requests: []string{"set", "eval", "evalsha"}, Open: openRaw},
		{Name: Lockstead, Requests: functions, Open: openRedis(binding.AccessFunctions)},
		{Name: LocksteadScripts, Requests: scripts, Open: openRedis(binding.AccessScripts)},
		{Name: "bsm/redislock", Peer: true, Requests: []string{"eval", "evalsha"}, Open: openBSM(100 * time.Millisecond)},
		{Name: "bsm/redislock (1 ms)", Peer: true, Requests: []string{"eval", "evalsha"}, Open: openBSM(time.Millisecond)},
		{Name: "redsync", Peer: true, Requests: []string{"set", "eval", "evalsha"}, Open: openRedsync},
		{Name: "rueidislock", Peer: true, Requests: []string{"eval", "evalsha"}, Open: openRueidis},
	}
}

// goRedisOptions are those of every subject on go-redis.
func goRedisOptions(r Redis) *redis.Options {
	return &redis.Options{
		Addr: r.Address, Username: r.User, Password: r.Password, PoolSize: poolSize, MaxRetries: -1, ContextTimeoutEnabled: true,
		MaintNotificationsConfig: &maintnotifications.Config{Mode: maintnotifications.ModeDisabled},
	}
}

type raw struct {
	client *redis.Client
	delete *redis.Script
}

func openRaw(_ context.Context, servers Servers) (Locker, error) {
	return &raw{
		client: redis.NewClient(goRedisOptions(servers.Redis)),
		delete: redis.NewScript(`if redis.call("get", KEYS[1]) == ARGV[1] then return redis.call("del", KEYS[1]) else return 0 end`),
	}, nil
}

// Acquire implements Locker, for wait 0.
func (r *raw) Acquire(ctx context.Context, key string, _ time.Duration) (Release, error) {
	key = "raw:" + key
	id := rand.Text()
	err := r.client.SetArgs(ctx, key, id, redis.SetArgs{Mode: "NX", TTL: TTL}).Err()
	if errors.Is(err, redis.Nil) {
		return nil, ErrBusy
	}
	if err != nil {
		return nil, err
	}
	return func(ctx context.Context) error { return r.delete.Run(ctx, r.client, []string{key}, id).Err() }, nil
}

// Close implements Locker.
func (r *raw) Close() { _ = r.client.Close() }

type bsm struct {
	client  *redis.Client
	locks   *peerlock.Client
	backoff time.Duration
}

func openBSM(backoff time.Duration) func(context.Context, Servers) (Locker, error) {
	return func(_ context.Context, servers Servers) (Locker, error) {
		client := redis.NewClient(goRedisOptions(servers.Redis))
		return &bsm{client: client, locks: peerlock.New(client), backoff: backoff}, nil
	}
}

// Acquire implements Locker.
func (b *bsm) Acquire(ctx context.Context, key string, wait time.Duration) (Release, error) {
	var options *peerlock.Options
	if wait > 0 {
		var cancel context.CancelFunc
		ctx, cancel = context.WithTimeout(ctx, wait)
		defer cancel()
		options = &peerlock.Options{RetryStrategy: peerlock.LinearBackoff(b.backoff)}
	}
	l, err := b.locks.Obtain(ctx, "bsm:"+key, TTL, options)
	// The end of the wait may show as a timeout of the connection.
	if errors.Is(err, peerlock.ErrNotObtained) || wait > 0 && (errors.Is(err, context.DeadlineExceeded) || errors.Is(err, os.ErrDeadlineExceeded)) {
		return nil, ErrBusy
	}
	if err != nil {
		return nil, err
	}
	return l.Release, nil
}

// Close implements Locker.
func (b *bsm) Close() { _ = b.client.Close() }

type redsyncLocker struct {
	client *redis.Client
	locks  *redsync.Redsync
}

func openRedsync(_ context.Context, servers Servers) (Locker, error) {
	client := redis.NewClient(goRedisOptions(servers.Redis))
	return &redsyncLocker{client: client, locks: redsync.New(goredis.NewPool(client))}, nil
}

// Acquire implements Locker. Redsync gives up after a number of tries, 32 by default: it goes on here until the wait is over.
func (s *redsyncLocker) Acquire(ctx context.Context, key string, wait time.Duration) (Release, error) {
	mutex := s.locks.NewMutex("redsync:"+key, redsync.WithExpiry(TTL))
	release := func(ctx context.Context) error {
		if ok, err := mutex.UnlockContext(ctx); !ok {
			return fmt.Errorf("unlock: %w", err)
		}
		return nil
	}
	if wait == 0 {
		if err := mutex.TryLockContext(ctx); err != nil {
			return nil, taken(err)
		}
		return release, nil
	}
	ctx, cancel := context.WithTimeout(ctx, wait)
	defer cancel()
	for {
		err := mutex.LockContext(ctx)
		switch {
		case err == nil:
			return release, nil
		case ctx.Err() != nil:
			return nil, ErrBusy
		case !errors.Is(taken(err), ErrBusy):
			return nil, err
		}
	}
}

func taken(err error) error {
	var held *redsync.ErrTaken
	if errors.As(err, &held) || errors.Is(err, redsync.ErrFailed) {
		return ErrBusy
	}
	return err
}

// Close implements Locker.
func (s *redsyncLocker) Close() { _ = s.client.Close() }

type rueidisLocker struct{ locks rueidislock.Locker }

// openRueidis gives the settings that suit one server best: one key for a lock, and no notifications of the client's own writes.
func openRueidis(_ context.Context, servers Servers) (Locker, error) {
	locks, err := rueidislock.NewLocker(rueidislock.LockerOption{
		ClientOption:   rueidis.ClientOption{InitAddress: []string{servers.Redis.Address}, Username: servers.Redis.User, Password: servers.Redis.Password},
		KeyMajority:    1,
		NoLoopTracking: true,
		KeyValidity:    TTL,
		TryNextAfter:   2 * time.Second,
	})
	if err != nil {
		return nil, fmt.Errorf("open rueidislock: %w", err)
	}
	return &rueidisLocker{locks}, nil
}

// Acquire implements Locker.
func (r *rueidisLocker) Acquire(ctx context.Context, key string, wait time.Duration) (Release, error) {
	var release context.CancelFunc
	var err error
	if wait == 0 {
		_, release, err = r.locks.TryWithContext(ctx, key)
		if errors.Is(err, rueidislock.ErrNotLocked) {
			return nil, ErrBusy
		}
	} else {
		// Its wait ends with a context that the lock would end with too.
		waiting, cancel := context.WithCancel(ctx)
		timeout := time.AfterFunc(wait, cancel)
		_, release, err = r.locks.WithContext(waiting, key)
		if !timeout.Stop() && err != nil {
			return nil, ErrBusy
		}
		if err == nil {
			inner := release
			release = func() { inner(); cancel() }
		} else {
			cancel()
		}
	}
	if err != nil {
		return nil, err
	}
	return func(context.Context) error { release(); return nil }, nil
}

// Close implements Locker.
func (r *rueidisLocker) Close() { r.locks.Close() }
