// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package fault_test

import (
	"syscall"
	"testing"
	"time"
)

// faults are all that can be injected, in the order in which they run. The numbers have gaps: see doc.go for what is not built yet.
func faults() []*fault {
	both := []string{"redis", "postgres"}
	return []*fault{
		{name: "F0", title: "nothing: the same clients in health", backends: both, healthy: true, inject: func(r *rig) { r.pause(r.backend.ttl) }},
		{name: "F1", title: "a client is stopped (SIGSTOP) for 0.5, 1.5 or 5 TTL", usual: true, backends: both, inject: injectStop},
		{name: "F2", title: "a client is killed (SIGKILL) and another one takes its place", backends: both, inject: injectKill},
		{name: "F3", title: "the network to a client swallows everything for 0.5 to 2 TTL, and delivers it late", backends: both, inject: injectBlackHole},
		{name: "F4", title: "answers to a client are held back for 0.3 to 0.95 TTL, then delivered or cut off", backends: both, inject: injectHeldAnswers},
		{name: "F5", title: "requests of a client are applied and their answers lost", usual: true, backends: both, inject: injectLostAnswers},
		{name: "F6", title: "connections of a client are reset, or refused for a while", backends: both, inject: injectResets},
		{name: "F7", title: "the Redis server (AOF always) is killed and started again", usual: true, backends: []string{"redis"}, inject: func(r *rig) { injectRedisCrash(r, false) }},
		{name: "F13", title: "the sessions of PostgreSQL are terminated, or the server crashes and recovers", usual: true, backends: []string{"postgres"}, inject: injectPostgres},
	}
}

// starters start the servers of the backends.
func starters() map[string]func(*testing.T) *backend {
	return map[string]func(*testing.T) *backend{"redis": startRedis, "postgres": startPostgres}
}

func injectStop(r *rig) {
	s := r.anyone()
	times := []time.Duration{r.backend.ttl / 2, r.backend.ttl * 3 / 2, r.backend.ttl * 5}
	d := times[r.random.IntN(len(times))]
	r.during("F1", s.name(), func() {
		s.running.signal(syscall.SIGSTOP)
		r.pause(d)
		s.running.signal(syscall.SIGCONT)
	})
	r.pause(r.between(0, r.backend.ttl/2))
}

func injectKill(r *rig) {
	s := r.anyone()
	r.during("F2", s.name(), func() { s.kill() })
	r.pause(r.between(0, r.backend.ttl))
	if err := s.start(r.dir); err != nil {
		r.t.Fatal(err)
	}
	r.pause(r.between(r.backend.ttl/2, 2*r.backend.ttl))
}

func injectBlackHole(r *rig) {
	s := r.anyone()
	r.during("F3", s.name(), func() {
		s.path.BlackHole()
		r.pause(r.between(r.backend.ttl/2, 2*r.backend.ttl))
		s.path.Heal()
	})
	r.pause(r.between(0, r.backend.ttl))
}

func injectHeldAnswers(r *rig) {
	s := r.anyone()
	r.during("F4", s.name(), func() {
		s.path.HoldResponses()
		r.pause(r.between(r.backend.ttl*3/10, r.backend.ttl*19/20))
		if r.random.IntN(2) == 0 {
			s.path.Cut()
		}
		s.path.Heal()
	})
	r.pause(r.between(0, r.backend.ttl/2))
}

func injectLostAnswers(r *rig) {
	s := r.anyone()
	r.during("F5", s.name(), func() {
		s.path.DropResponses()
		r.pause(r.between(r.backend.ttl/5, r.backend.ttl))
		s.path.Heal()
	})
	r.pause(r.between(0, r.backend.ttl/2))
}

func injectResets(r *rig) {
	s := r.anyone()
	r.during("F6", s.name(), func() {
		if r.random.IntN(2) == 0 {
			s.path.Cut()
			return
		}
		s.path.Refuse()
		r.pause(r.between(0, r.backend.ttl/2))
		s.path.Heal()
	})
	r.pause(r.between(0, r.backend.ttl/2))
}

// injectRedisCrash ends the server as a crash does; forgets says that its data is gone afterwards.
func injectRedisCrash(r *rig, forgets bool) {
	r.during("F7", server, func() {
		r.backend.redis.Kill(r.t)
		if forgets {
			r.backend.redis.RemoveData(r.t)
		} else {
			r.pause(r.between(0, r.backend.ttl/2))
		}
		r.backend.redis.Run(r.t)
	})
	r.pause(r.between(r.backend.ttl, 2*r.backend.ttl))
}

func injectPostgres(r *rig) {
	r.during("F13", server, func() {
		if r.random.IntN(2) == 0 {
			r.backend.postgres.Exec(r.t, "postgres", "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE datname = $1", r.backend.database)
			return
		}
		r.backend.postgres.Kill(r.t)
		r.backend.postgres.Run(r.t)
	})
	r.pause(r.between(r.backend.ttl, 3*r.backend.ttl))
}
