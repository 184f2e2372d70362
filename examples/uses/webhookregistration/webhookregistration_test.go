// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package webhookregistration_test

import (
	"context"
	"errors"
	"testing"
	"time"

	"github.com/lockstead/lockstead/examples/uses/replicatest"
	"github.com/lockstead/lockstead/examples/uses/webhookregistration"
	"github.com/lockstead/lockstead/pkg/lock"
)

func TestMain(m *testing.M) {
	replicatest.Main(m, map[string]replicatest.Role{"start": start, "victim": dieAfterCreating})
}

const webhook = "https://shop.example.org/payments/webhook"

func key() string { return lock.Key("webhook", webhook) }

// start is a process that starts. Its arguments are the address of the provider and the folder of the secrets.
func start(ctx context.Context, r *replicatest.Replica) error {
	registrar := webhookregistration.New(r.Client, provider{r.Args[0]}, secrets{dir: r.Args[1]}, webhook, nil)
	r.Say("ready")
	if _, err := r.Await(); err != nil {
		return err
	}
	secret, err := registrar.Ensure(ctx)
	if err != nil {
		return err
	}
	r.Say(secret)
	return nil
}

// Five processes start at once: the provider has one endpoint afterwards, and all know its secret.
func TestProcessesThatStartTogetherRegisterOnce(t *testing.T) {
	n, account, dir := replicatest.Start(t), newAccount(t), t.TempDir()
	var processes []*replicatest.Process
	for range 5 {
		processes = append(processes, n.Process(t, "start", account.url, dir))
	}
	for _, p := range processes {
		p.Expect(t, "ready")
	}
	for _, p := range processes {
		p.Say(t, "go")
	}
	for i, p := range processes {
		if said := p.Wait(t); len(said) != 1 || said[0] != "secret-1" {
			t.Errorf("process %d said %q, want the secret of the first endpoint", i, said)
		}
	}
	if account.created() != 1 || len(account.list()) != 1 {
		t.Errorf("%d endpoints were created, there are %v", account.created(), account.list())
	}
}

const killedTTL = 3 * time.Second

// dieAfterCreating is a process that is killed when the provider has created the endpoint and the secret is not stored.
func dieAfterCreating(ctx context.Context, r *replicatest.Replica) error {
	keeper := secrets{dir: r.Args[1], storing: func(ctx context.Context) error {
		r.Say("created")
		<-ctx.Done()
		return ctx.Err()
	}}
	_, err := webhookregistration.New(r.Client, provider{r.Args[0]}, keeper, webhook, &webhookregistration.Options{TTL: killedTTL}).Ensure(ctx)
	return err
}

// The holder dies with an endpoint created and its secret lost. A waiter gets the lock when the TTL has run out, and leaves one endpoint with a
// secret that is known.
func TestAnEndpointWhoseSecretWasLostIsReplaced(t *testing.T) {
	ctx, n, account, dir := replicatest.Context(t), replicatest.Start(t), newAccount(t), t.TempDir()
	victim := n.Process(t, "victim", account.url, dir)
	victim.Expect(t, "created")
	victim.Kill(t)
	secret, err := webhookregistration.New(n.Open(t), provider{account.url}, secrets{dir: dir}, webhook, nil).Ensure(ctx)
	if err != nil || secret != "secret-2" {
		t.Errorf("got %q, %v; want the secret of a new endpoint", secret, err)
	}
	if list := account.list(); len(list) != 1 || list[0].ID != "endpoint-2" {
		t.Errorf("endpoints: %v", list)
	}
}

// A waiter that gets the lock reads the secret again, and asks the provider nothing.
func TestTheWaiterReadsTheSecretAgain(t *testing.T) {
	ctx, n, account, dir := replicatest.Context(t), replicatest.Start(t), newAccount(t), t.TempDir()
	release := n.Hold(t, key())
	asked := make(chan struct{}, 2)
	waiting := secrets{dir: dir, loading: func() { asked <- struct{}{} }}
	got := make(chan string, 1)
	go func() {
		secret, err := webhookregistration.New(n.Open(t), provider{account.url}, waiting, webhook, nil).Ensure(ctx)
		if err != nil {
			t.Errorf("the waiter: %v", err)
		}
		got <- secret
	}()
	<-asked
	if err := (secrets{dir: dir}).Store(ctx, webhook, "of-the-holder", lock.Token{Epoch: 1, Sequence: 1}); err != nil {
		t.Fatal(err)
	}
	release()
	if secret := <-got; secret != "of-the-holder" || account.requests() != 0 {
		t.Errorf("got %q after %d requests to the provider", secret, account.requests())
	}
}

// A replica that never gets the lock reads once more, and leaves the provider alone.
func TestWithoutTheLockTheProviderIsLeftAlone(t *testing.T) {
	ctx, n, account, dir := replicatest.Context(t), replicatest.Start(t), newAccount(t), t.TempDir()
	n.Hold(t, key())
	impatient := &webhookregistration.Options{Wait: 50 * time.Millisecond}
	locks := n.Open(t)
	_, err := webhookregistration.New(locks, provider{account.url}, secrets{dir: dir}, webhook, impatient).Ensure(ctx)
	if !errors.Is(err, webhookregistration.ErrNotRegistered) || !errors.Is(err, lock.ErrHeld) {
		t.Errorf("without a secret: %v, want ErrNotRegistered and why", err)
	}
	loads := 0
	late := secrets{dir: dir, loading: func() {
		if loads++; loads == 2 {
			if err := (secrets{dir: dir}).Store(ctx, webhook, "in-the-end", lock.Token{Epoch: 1, Sequence: 1}); err != nil {
				t.Error(err)
			}
		}
	}}
	secret, err := webhookregistration.New(locks, provider{account.url}, late, webhook, impatient).Ensure(ctx)
	if err != nil || secret != "in-the-end" {
		t.Errorf("with a secret at the second look: %q, %v", secret, err)
	}
	if account.requests() != 0 {
		t.Errorf("the provider was asked %d times", account.requests())
	}
}

// With the store of locks down, a replica of a shop that is registered starts, and one of a shop that is not leaves the provider alone.
func TestAStoreThatIsDown(t *testing.T) {
	ctx, n, account, dir := replicatest.Context(t), replicatest.Start(t), newAccount(t), t.TempDir()
	registrar := webhookregistration.New(n.Open(t), provider{account.url}, secrets{dir: dir}, webhook, nil)
	n.Server.Kill(t)
	if _, err := registrar.Ensure(ctx); !errors.Is(err, webhookregistration.ErrNotRegistered) || !errors.Is(err, lock.ErrUnavailable) {
		t.Errorf("not registered: %v, want ErrNotRegistered and why", err)
	}
	if err := (secrets{dir: dir}).Store(ctx, webhook, "of-last-week", lock.Token{Epoch: 1, Sequence: 1}); err != nil {
		t.Fatal(err)
	}
	if secret, err := registrar.Ensure(ctx); err != nil || secret != "of-last-week" {
		t.Errorf("registered: %q, %v", secret, err)
	}
	if account.requests() != 0 {
		t.Errorf("the provider was asked %d times", account.requests())
	}
}

// A replica that goes on after it lost its lock cannot overwrite the secret of its successor.
func TestTheSecretOfAStaleReplicaIsRefused(t *testing.T) {
	ctx, n, account, dir := replicatest.Context(t), replicatest.Start(t), newAccount(t), t.TempDir()
	successor := webhookregistration.New(n.Open(t), provider{account.url}, secrets{dir: dir}, webhook, nil)
	stale := secrets{dir: dir, storing: func(context.Context) error {
		n.Remove(t, key())
		_, err := successor.Ensure(ctx)
		return err
	}}
	_, err := webhookregistration.New(n.Open(t), provider{account.url}, stale, webhook, nil).Ensure(ctx)
	if !errors.Is(err, webhookregistration.ErrStale) {
		t.Errorf("the stale replica got %v, want ErrStale", err)
	}
	if secret, err := successor.Ensure(ctx); err != nil || secret != "secret-2" || len(account.list()) != 1 {
		t.Errorf("afterwards: %q, %v, endpoints %v", secret, err, account.list())
	}
}
