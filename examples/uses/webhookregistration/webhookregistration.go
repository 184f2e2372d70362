// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package webhookregistration

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/lockstead/lockstead/pkg/lock"
)

// Endpoint is a webhook as the provider lists it: without its secret.
type Endpoint struct {
	ID  string `json:"id"`
	URL string `json:"url"`
}

// Provider is the API of the payment provider.
type Provider interface {
	List(ctx context.Context) ([]Endpoint, error)
	// Create registers url and returns the secret that its calls will be signed with. It is not told again.
	Create(ctx context.Context, url string) (secret string, err error)
	Delete(ctx context.Context, id string) error
}

// Secrets is where the secret is kept. All replicas see it.
type Secrets interface {
	// Load returns the secret of the webhook at url; "" if there is none.
	Load(ctx context.Context, url string) (string, error)
	// Store keeps it unless one with a greater token is there: then it returns ErrStale.
	Store(ctx context.Context, url, secret string, token lock.Token) error
}

var (
	// ErrStale refuses the secret of a replica that lost its lock to a newer one.
	ErrStale = errors.New("a newer replica has stored a secret")
	// ErrNotRegistered says that there is no secret, and this replica did not get its turn to register. Try again.
	ErrNotRegistered = errors.New("the webhook is not registered yet")
)

// Options are what a Registrar can be told. The zero value, or nil, is ready to use.
type Options struct {
	// TTL is how long a replica that died keeps the others from registering. Defaults to 2 min.
	TTL time.Duration
	// Wait is how long a replica waits for the one that registers. Defaults to 30 s.
	Wait time.Duration
}

// Registrar sees to it that one webhook is registered once.
type Registrar struct {
	locks    *lock.Client
	provider Provider
	secrets  Secrets
	url      string
	options  Options
}

// New makes a registrar for the webhook at url.
func New(locks *lock.Client, provider Provider, secrets Secrets, url string, options *Options) *Registrar {
	o := Options{}
	if options != nil {
		o = *options
	}
	if o.TTL == 0 {
		o.TTL = 2 * time.Minute
	}
	if o.Wait == 0 {
		o.Wait = 30 * time.Second
	}
	return &Registrar{locks: locks, provider: provider, secrets: secrets, url: url, options: o}
}

// Ensure returns the secret of the webhook, and registers it before if that was not done. It may be called again after an error.
func (r *Registrar) Ensure(ctx context.Context) (string, error) {
	secret, err := r.secrets.Load(ctx, r.url)
	if err != nil || secret != "" {
		return secret, err
	}
	err = r.locks.Do(ctx, lock.Key("webhook", r.url), func(ctx context.Context, h *lock.Handle) error {
		var err error
		secret, err = r.register(ctx, h.Token())
		return err
	}, &lock.DoOptions{TTL: r.options.TTL, Wait: r.options.Wait})
	if errors.Is(err, lock.ErrHeld) || errors.Is(err, lock.ErrUnavailable) || errors.Is(err, lock.ErrUnknown) {
		return r.lastLook(ctx, err)
	}
	if err != nil {
		return "", fmt.Errorf("register webhook %s: %w", r.url, err)
	}
	return secret, nil
}

// register runs under the lock. ctx ends with the lock, and the calls of the provider with ctx.
func (r *Registrar) register(ctx context.Context, token lock.Token) (string, error) {
	// Whoever held the lock before has most likely done it.
	if secret, err := r.secrets.Load(ctx, r.url); err != nil || secret != "" {
		return secret, err
	}
	endpoints, err := r.provider.List(ctx)
	if err != nil {
		return "", err
	}
	for _, e := range endpoints {
		if e.URL != r.url {
			continue
		}
		// It was created by a replica that died before it stored the secret.
		if err := r.provider.Delete(ctx, e.ID); err != nil {
			return "", err
		}
	}
	secret, err := r.provider.Create(ctx, r.url)
	if err != nil {
		return "", err
	}
	if err := r.secrets.Store(ctx, r.url, secret, token); err != nil {
		return "", fmt.Errorf("store the secret: %w", err)
	}
	return secret, nil
}

// lastLook is what a replica does that did not get the lock, for the reason why.
func (r *Registrar) lastLook(ctx context.Context, why error) (string, error) {
	secret, err := r.secrets.Load(ctx, r.url)
	if err != nil {
		return "", errors.Join(why, err)
	}
	if secret == "" {
		return "", fmt.Errorf("%w: %w", ErrNotRegistered, why)
	}
	return secret, nil
}
