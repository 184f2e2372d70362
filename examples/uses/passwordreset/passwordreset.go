// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package passwordreset

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"errors"
	"fmt"
	"time"

	"github.com/lockstead/lockstead/pkg/lock"
)

// Digest is what is kept of a token. A token has 128 random bits or more, so a plain SHA-256 cannot be guessed back.
type Digest [sha256.Size]byte

// DigestOf digests a token.
func DigestOf(token string) Digest { return sha256.Sum256([]byte(token)) }

// Resets is where the digests are kept until they expire, one an account. All replicas see it.
type Resets interface {
	// Find returns the digest of an account's token; false if the account has none, or it has expired.
	Find(ctx context.Context, account string) (Digest, bool, error)
	// Remove removes it. It is no error if there is none.
	Remove(ctx context.Context, account string) error
}

// Passwords sets passwords.
type Passwords interface {
	Set(ctx context.Context, account, password string) error
}

// ErrInvalidToken is the answer to a token that is unknown, expired, used, or being used.
var ErrInvalidToken = errors.New("the token is invalid or has expired")

// Options are what a Redeemer can be told. The zero value, or nil, is ready to use.
type Options struct {
	// TTL is how long a redemption that died keeps others from trying. Defaults to 10 s.
	TTL time.Duration
	// Wait is how long a second request with the token waits for the first. Defaults to 5 s.
	Wait time.Duration
}

// Redeemer redeems tokens. It is safe for concurrent use.
type Redeemer struct {
	locks     *lock.Client
	resets    Resets
	passwords Passwords
	options   Options
}

// New makes a redeemer.
func New(locks *lock.Client, resets Resets, passwords Passwords, options *Options) *Redeemer {
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
	return &Redeemer{locks: locks, resets: resets, passwords: passwords, options: o}
}

// Redeem sets the password of account if token is the account's. The token is used up by the first call that gets as far as removing it, whatever
// becomes of that call: one that dies before the password is set costs the user a new token, and never lets a token be used twice.
//
// The error is ErrInvalidToken, or a fault, after which the user may try again.
func (r *Redeemer) Redeem(ctx context.Context, account, token, password string) error {
	digest := DigestOf(token)
	err := r.locks.Do(ctx, lockKey(digest), func(ctx context.Context, _ *lock.Handle) error {
		return r.redeem(ctx, account, digest, password)
	}, &lock.DoOptions{TTL: r.options.TTL, Wait: r.options.Wait})
	if errors.Is(err, lock.ErrHeld) {
		return ErrInvalidToken
	}
	return err
}

// lockKey has the digest, since keys are readable where the locks are.
func lockKey(digest Digest) string { return lock.Key("password-reset", hex.EncodeToString(digest[:])) }

// redeem runs under the lock of the token. ctx ends with the lock, so a call that was stopped for long does not go on to remove.
func (r *Redeemer) redeem(ctx context.Context, account string, digest Digest, password string) error {
	stored, found, err := r.resets.Find(ctx, account)
	if err != nil {
		return fmt.Errorf("read the reset: %w", err)
	}
	if !found || subtle.ConstantTimeCompare(stored[:], digest[:]) != 1 {
		return ErrInvalidToken
	}
	if err := r.resets.Remove(ctx, account); err != nil {
		return fmt.Errorf("use up the reset: %w", err)
	}
	if err := r.passwords.Set(ctx, account, password); err != nil {
		return fmt.Errorf("set the password: %w", err)
	}
	return nil
}
