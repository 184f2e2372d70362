// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"encoding/json"
	"strings"
	"testing"
	"time"

	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

// onEach runs a test on both backends.
func onEach(t *testing.T, test func(t *testing.T, a application)) {
	t.Run("Redis", func(t *testing.T) {
		test(t, onRedis(t, redistest.Start(t, nil), environment.Namespace(t, nil), "billing"))
	})
	t.Run("Lease", func(t *testing.T) { test(t, onLeases(t, environment.Namespace(t, nil), "billing")) })
}

func TestLocksShowsWhoHolds(t *testing.T) {
	onEach(t, func(t *testing.T, a application) {
		config := kubeconfig(t, a.lns.Namespace)
		locks := a.locks(t)
		if s := wantDone(t, say(t, config, "", "locks")); s.out != "" || s.err != "No key is held.\n" {
			t.Errorf("without locks it says %q and %q", s.out, s.err)
		}
		h := mustHold(t, locks, lock.Key("order", "17"))
		mustHold(t, locks, "strange\x1b[2J\nkey")

		s := wantDone(t, say(t, config, "", "locks", "-o", "json"))
		var list lockList
		if err := json.Unmarshal([]byte(s.out), &list); err != nil {
			t.Fatal(err)
		}
		if len(list.Locks) != 2 || list.APIVersion != outputVersion || list.Kind != "LockList" {
			t.Fatalf("it prints %s", s.out)
		}
		held := list.Locks[0]
		if held.Key != "order:17" || held.Pod != pod || held.Token != h.Token() || held.Acquisition != h.ID() || held.LockNamespace != "billing" || held.Namespace != a.lns.Namespace {
			t.Errorf("it prints %+v, want the holder %s with %s", held, h.ID(), h.Token())
		}
		if held.Since == nil || time.Since(*held.Since).Abs() > time.Minute || held.RemainingSeconds == nil || *held.RemainingSeconds > 600 || *held.RemainingSeconds < 500 {
			t.Errorf("it is held since %v for %v", held.Since, held.RemainingSeconds)
		}

		for _, args := range [][]string{{"locks"}, {"locks", "billing"}, {"locks", "-A"}, {"locks", "-n", a.lns.Namespace, "-o", "wide"}} {
			s := wantDone(t, say(t, config, "", args...))
			if !strings.Contains(s.out, pod) || !strings.Contains(s.out, `"strange\x1b[2J\nkey"`) || strings.Contains(s.out, "\x1b") {
				t.Errorf("%v prints\n%s", args, s.out)
			}
			if a.binding.Redis != nil && strings.Contains(s.out+s.err, a.binding.Redis.Password) {
				t.Errorf("%v prints the password", args)
			}
		}
	})
}

func TestLocksOfAServerThatIsDown(t *testing.T) {
	namespace := environment.Namespace(t, nil)
	server := redistest.Start(t, nil)
	a := onRedis(t, server, namespace, "on-redis")
	mustHold(t, onLeases(t, namespace, "on-leases").locks(t), "still here")
	wantDone(t, say(t, kubeconfig(t, namespace), "", "locks", "--redis-address", server.Addr()))
	server.Kill(t)
	s := say(t, kubeconfig(t, namespace), "", "locks")
	wantProblem(t, s, ExitFailure, "LockNamespace "+namespace+"/on-redis", "the Redis server at "+server.Addr()+" cannot be reached", "connection refused", "--redis-address")
	if !strings.Contains(s.out, "still here") {
		t.Errorf("what can be read is not shown: %q", s.out)
	}
	if strings.Contains(s.out+s.err, a.binding.Redis.Password) {
		t.Error("it prints the password")
	}

	// A tunnel that leads nowhere.
	wantProblem(t, say(t, kubeconfig(t, namespace), "", "locks", "on-redis", "--redis-address", "127.0.0.1:1"), ExitFailure,
		"the Redis server at --redis-address 127.0.0.1:1 cannot be reached", "check the address")
}

// A server that does not know the application, as behind a tunnel to the wrong one.
func TestLocksWithAPasswordThatTheServerRefuses(t *testing.T) {
	a := onRedis(t, redistest.Start(t, nil), environment.Namespace(t, nil), "billing")
	s := say(t, kubeconfig(t, a.lns.Namespace), "", "locks", "--redis-address", redistest.Start(t, nil).Addr())
	wantProblem(t, s, ExitFailure, "refuses", "WRONGPASS")
	if strings.Contains(s.err, a.binding.Redis.Password) {
		t.Error("it prints the password")
	}
}
