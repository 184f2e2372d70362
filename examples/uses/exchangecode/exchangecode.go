// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package exchangecode

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/memlock"
)

// Grant is what a user has allowed, until the code is redeemed.
type Grant struct {
	ClientID    string `json:"client_id"`
	RedirectURI string `json:"redirect_uri"`
	User        string `json:"user"`
}

// Grants is where they are kept by the digest of their code, until they expire. All replicas see it.
type Grants interface {
	// Find returns a grant; false if there is none.
	Find(ctx context.Context, digest string) (Grant, bool, error)
	// Remove removes it. It is no error if there is none.
	Remove(ctx context.Context, digest string) error
}

// Issuer makes an access token.
type Issuer interface {
	Issue(ctx context.Context, g Grant) (token string, err error)
}

// ErrInvalidGrant is the answer to a code that is unknown, expired, used, being used, or somebody else's.
var ErrInvalidGrant = errors.New("invalid_grant")

// Options are what an Exchange can be told. The zero value, or nil, is ready to use.
type Options struct {
	// TTL is how long a redemption that died keeps others from trying. Defaults to 10 s.
	TTL time.Duration
	// Wait is how long a second request with the code waits for the first. Defaults to 5 s.
	Wait time.Duration
	// Logger defaults to slog.Default.
	Logger *slog.Logger
}

// Exchange turns codes into tokens. It is safe for concurrent use.
type Exchange struct {
	locks   *lock.Client
	grants  Grants
	issuer  Issuer
	options Options
}

// New makes an exchange. Without locks, which is nil, codes are single-use per replica only, and New logs a warning.
func New(locks *lock.Client, grants Grants, issuer Issuer, options *Options) (*Exchange, error) {
	o := Options{}
	if options != nil {
		o = *options
	}
	if o.TTL == 0 {
		o.TTL = 10 * time.Second
	}
	if o.Wait == 0 {
		o.Wait = 5 * time.Second
	}
	if o.Logger == nil {
		o.Logger = slog.Default()
	}
	if locks == nil {
		o.Logger.Warn("no lock is configured: an exchange code is single-use per replica only; mount the binding of a LockNamespace before running a second replica")
		var err error
		if locks, err = lock.New(memlock.New(nil), "lk:{local/exchange}:", &lock.Options{Logger: o.Logger}); err != nil {
			return nil, err
		}
	}
	return &Exchange{locks: locks, grants: grants, issuer: issuer, options: o}, nil
}

// DigestOf is what a code is stored under. A code has 128 random bits or more, so it cannot be guessed back.
func DigestOf(code string) string {
	sum := sha256.Sum256([]byte(code))
	return hex.EncodeToString(sum[:])
}

// Redeem issues a token for a code of this client. The code is used up by the first call that gets as far as removing it, whatever becomes of
// that call. The error is ErrInvalidGrant, or a fault, after which the client may try again.
func (e *Exchange) Redeem(ctx context.Context, code, clientID, redirectURI string) (string, error) {
	digest, token := DigestOf(code), ""
	err := e.locks.Do(ctx, lock.Key("exchange-code", digest), func(ctx context.Context, _ *lock.Handle) error {
		g, found, err := e.grants.Find(ctx, digest)
		if err != nil {
			return fmt.Errorf("read the grant: %w", err)
		}
		if !found || g.ClientID != clientID || g.RedirectURI != redirectURI {
			return ErrInvalidGrant
		}
		// ctx ends with the lock, so a call that was stopped for long does not go on to remove.
		if err := e.grants.Remove(ctx, digest); err != nil {
			return fmt.Errorf("use up the grant: %w", err)
		}
		if token, err = e.issuer.Issue(ctx, g); err != nil {
			return fmt.Errorf("issue a token: %w", err)
		}
		return nil
	}, &lock.DoOptions{TTL: e.options.TTL, Wait: e.options.Wait})
	switch {
	case errors.Is(err, lock.ErrHeld):
		return "", ErrInvalidGrant
	case err != nil:
		return "", err
	}
	return token, nil
}
