// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lockstead_test

import (
	"context"
	"errors"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lockstead"
	"github.com/lockstead/lockstead/pkg/lockstead/internal/apiservertest"
)

func TestLeaseBindingLocksForAllReplicasAndWarnsOnce(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	namespace := server.Namespace(t)
	config := server.ServiceAccount(t, namespace, "default", apiservertest.LeaseVerbs)
	m := newMount(t, leaseBinding(namespace))
	log := &records{}
	first := open(t, &lockstead.Options{BindingDir: m.dir, RESTConfig: config, Logger: log.logger()})
	second := open(t, &lockstead.Options{BindingDir: m.dir, RESTConfig: config, Logger: log.logger()})
	if n := len(log.with(slog.LevelWarn, "")); n > 0 {
		t.Errorf("%d warnings before the first acquisition", n)
	}
	for range 3 {
		h, err := first.TryAcquire(ctx, "order:17", 0, 0)
		if err != nil {
			t.Fatal(err)
		}
		if h.TTL() != 20*time.Second || h.Token().Epoch != 1 {
			t.Errorf("TTL %s and epoch %d, want those of the binding", h.TTL(), h.Token().Epoch)
		}
		if _, err := second.TryAcquire(ctx, "order:17", 0, 0); !errors.Is(err, lock.ErrHeld) {
			t.Errorf("the other replica: %v, want held", err)
		}
		if err := h.Release(ctx); err != nil {
			t.Fatal(err)
		}
	}
	warnings := log.with(slog.LevelWarn, "Leases")
	if len(warnings) != 2 {
		t.Fatalf("%d warnings for two replicas, want one each: %q", len(warnings), warnings)
	}
	for _, part := range []string{"NoRedisConfigured", "create a RedisInstance", namespace + "/billing"} {
		if !strings.Contains(warnings[0], part) {
			t.Errorf("warning %q does not say %q", warnings[0], part)
		}
	}
	if _, err := first.TryAcquire(ctx, "order:17", 2*time.Hour, 0); !errors.Is(err, lock.ErrInvalid) {
		t.Errorf("a TTL above that of the binding: %v, want ErrInvalid", err)
	}
}

func TestMissingRightsAreNamed(t *testing.T) {
	t.Parallel()
	namespace := server.Namespace(t)
	config := server.ServiceAccount(t, namespace, "worker", nil)
	c := open(t, &lockstead.Options{BindingDir: newMount(t, leaseBinding(namespace)).dir, RESTConfig: config, Logger: slog.New(slog.DiscardHandler)})
	_, err := c.TryAcquire(t.Context(), "order:17", 0, 0)
	if !errors.Is(err, lock.ErrUnavailable) {
		t.Fatalf("error %v, want ErrUnavailable", err)
	}
	for _, part := range []string{"Role " + namespace + "/lockstead-billing", "service account " + namespace + "/worker"} {
		if !strings.Contains(err.Error(), part) {
			t.Errorf("error %q does not say %q", err, part)
		}
	}
}

func TestOpenWithoutAServerSucceedsAndTheFirstAcquireSaysWhy(t *testing.T) {
	t.Parallel()
	listener, err := (&net.ListenConfig{}).Listen(t.Context(), "tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	host := "https://" + listener.Addr().String()
	if err := listener.Close(); err != nil {
		t.Fatal(err)
	}
	c := open(t, &lockstead.Options{
		BindingDir: newMount(t, leaseBinding("payments")).dir, RESTConfig: &rest.Config{Host: host}, Logger: slog.New(slog.DiscardHandler),
	})
	if _, err := c.TryAcquire(t.Context(), "order:17", 0, 0); !errors.Is(err, lock.ErrUnavailable) {
		t.Errorf("error %v, want ErrUnavailable", err)
	}
}

func TestLeaseBindingOutsideAPodAsksForAConfig(t *testing.T) {
	t.Setenv("KUBERNETES_SERVICE_HOST", "")
	t.Setenv("KUBERNETES_SERVICE_PORT", "")
	_, err := lockstead.Open(t.Context(), &lockstead.Options{BindingDir: newMount(t, leaseBinding("payments")).dir})
	if err == nil || !strings.Contains(err.Error(), "Options.RESTConfig") {
		t.Errorf("error %v, want one that asks for Options.RESTConfig", err)
	}
}

func TestAnotherBackendEndsTheHandles(t *testing.T) {
	t.Parallel()
	for name, change := range map[string]func(*binding.Binding){
		"another instance": func(b *binding.Binding) { b.Instance = "instance-2" },
		"another prefix":   func(b *binding.Binding) { b.Prefix = "lk:{payments/other}:" },
		"another type": func(b *binding.Binding) {
			b.Type, b.Lease = binding.TypeRedis, nil
			b.Redis = &binding.Redis{Host: "127.0.0.1", Port: 6379, Username: "u", Password: "secret-word", Access: binding.AccessFunctions}
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			namespace := server.Namespace(t)
			config := server.ServiceAccount(t, namespace, "default", apiservertest.LeaseVerbs)
			b := leaseBinding(namespace)
			m := newMount(t, b)
			log := &records{}
			c := open(t, &lockstead.Options{BindingDir: m.dir, RESTConfig: config, Logger: log.logger(), RefreshInterval: refresh})
			h, err := c.TryAcquire(ctx, "order:17", 0, 0)
			if err != nil {
				t.Fatal(err)
			}
			change(b)
			m.replace(b)
			select {
			case <-h.Context().Done():
			case <-ctx.Done():
				t.Fatal("the handle did not end")
			}
			var lost *lock.LostError
			if !errors.As(context.Cause(h.Context()), &lost) || lost.Reason != lock.LossBackendChanged {
				t.Errorf("cause %v, want the changed backend", context.Cause(h.Context()))
			}
			_, err = c.TryAcquire(ctx, "order:18", 0, 0)
			if !errors.Is(err, lock.ErrBackendChanged) || !strings.Contains(err.Error(), "restart the process") {
				t.Errorf("error %v, want ErrBackendChanged and what to do", err)
			}
			if all := strings.Join(log.with(slog.LevelDebug, ""), "\n") + err.Error(); strings.Contains(all, "secret-word") {
				t.Errorf("a password is shown: %s", all)
			}
		})
	}
}

func TestRaisedEpochIsPickedUp(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	namespace := server.Namespace(t)
	config := server.ServiceAccount(t, namespace, "default", apiservertest.LeaseVerbs)
	b := leaseBinding(namespace)
	m := newMount(t, b)
	c := open(t, &lockstead.Options{BindingDir: m.dir, RESTConfig: config, Logger: slog.New(slog.DiscardHandler), RefreshInterval: refresh})
	b.Lease.Epoch = 7
	m.replace(b)
	for {
		h, err := c.TryAcquire(ctx, "order:17", 0, 0)
		if err != nil {
			t.Fatalf("tokens still have the old epoch: %v", err)
		}
		if err := h.Release(ctx); err != nil {
			t.Fatal(err)
		}
		if h.Token().Epoch == 7 {
			return
		}
	}
}

func TestUnusableFolderFailsWithTheVolumeToMount(t *testing.T) {
	t.Setenv(lockstead.EnvBinding, "")
	t.Setenv(lockstead.EnvServiceBindingRoot, "")
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	broken := newMount(t, leaseBinding("payments"))
	entries, err := leaseBinding("payments").Encode()
	if err != nil {
		t.Fatal(err)
	}
	delete(entries, binding.KeyPrefix)
	broken.put(entries)
	for name, dir := range map[string]string{
		"missing": filepath.Join(t.TempDir(), "none"), "empty": t.TempDir(), "a file": file, "an entry is missing": broken.dir,
	} {
		c, err := lockstead.Open(t.Context(), &lockstead.Options{BindingDir: dir})
		if c != nil {
			t.Fatalf("%s: a client without a binding", name)
		}
		if _, ok := errors.AsType[*binding.LoadError](err); !ok {
			t.Fatalf("%s: error %v, want a *binding.LoadError", name, err)
		}
		for _, part := range []string{"mountPath: " + dir, "volumes:", "secretName:"} {
			if !strings.Contains(err.Error(), part) {
				t.Errorf("%s: error %q does not show %q", name, err, part)
			}
		}
	}
}
