// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"context"
	"encoding/base64"
	"errors"
	"fmt"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/lockstead/lockstead/pkg/lock/driver"
)

// row is what a table says about a holder.
type row struct {
	id, owner       string
	epoch, sequence int64
	since           time.Time
	left            int64
}

func (r *row) fields() []any {
	return []any{&r.id, &r.owner, &r.epoch, &r.sequence, &r.since, &r.left}
}

func (r *row) holding() driver.Holding {
	return driver.Holding{
		Held: true, ID: r.id, Owner: r.owner, Token: token(r.epoch, r.sequence), Since: r.since, Remaining: time.Duration(max(r.left, 0)) * time.Microsecond,
	}
}

// Inspect tells who holds the key: see driver.Driver.
func (d *Driver) Inspect(ctx context.Context, key driver.Key) (driver.Holding, error) {
	var found *row
	err := d.request(ctx, "inspect", nil, func(ctx context.Context, _ *session, conn *pgx.Conn) error {
		var r row
		err := conn.QueryRow(ctx, d.sql.inspect, []byte(key.Prefix), []byte(key.Name)).Scan(r.fields()...)
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		found = &r
		return err
	})
	if err != nil || found == nil {
		return driver.Holding{}, err
	}
	return found.holding(), nil
}

// List tells which keys of a lock namespace are held: see driver.Lister.
func (d *Driver) List(ctx context.Context, req driver.ListRequest) (driver.ListPage, error) {
	const op = "list"
	after, err := base64.RawURLEncoding.DecodeString(req.Cursor)
	if err != nil || req.Limit < 1 {
		return driver.ListPage{}, &driver.StoreError{
			Outcome: driver.ErrUnavailable, Op: op, Reason: ReasonServerError, Lasting: true, Err: err,
			Remedy: "give a limit above 0, and the cursor that the page before returned",
		}
	}
	var page driver.ListPage
	err = d.request(ctx, op, nil, func(ctx context.Context, _ *session, conn *pgx.Conn) error {
		rows, err := conn.Query(ctx, d.sql.list, []byte(req.Prefix), after, req.Limit)
		if err != nil {
			return err
		}
		got, err := pgx.CollectRows(rows, func(one pgx.CollectableRow) (driver.HeldKey, error) {
			var name []byte
			var r row
			err := one.Scan(append([]any{&name}, r.fields()...)...)
			return driver.HeldKey{Name: string(name), Holding: r.holding()}, err
		})
		if err != nil {
			return err
		}
		page.Held = got
		return nil
	})
	if err != nil {
		return driver.ListPage{}, err
	}
	if len(page.Held) == req.Limit {
		page.Next = base64.RawURLEncoding.EncodeToString([]byte(page.Held[len(page.Held)-1].Name))
	}
	return page, nil
}

// ForceRelease takes the lock away from its holder: see driver.ForceReleaser. A holder that has a session learns of it at once.
func (d *Driver) ForceRelease(ctx context.Context, req driver.ForceReleaseRequest) (driver.ForcedRelease, error) {
	const op = "force-release"
	var forced *driver.ForcedRelease
	err := d.request(ctx, op, nil, func(ctx context.Context, _ *session, conn *pgx.Conn) error {
		var r row
		var epoch, fence int64
		var told bool
		err := d.guarded(ctx, conn, KeyHash(req.Key), d.sql.force, []any{[]byte(req.Key.Prefix), []byte(req.Key.Name), req.ID}, append(r.fields(), &epoch, &fence, &told))
		if errors.Is(err, pgx.ErrNoRows) {
			return nil
		}
		if err == nil {
			forced = &driver.ForcedRelease{Holding: r.holding(), Fence: token(epoch, fence)}
		}
		return err
	})
	switch {
	case err != nil:
		return driver.ForcedRelease{}, err
	case forced == nil:
		return driver.ForcedRelease{}, fmt.Errorf("%s of lock %q: %w", op, req.Key.Name, driver.ErrNotHolder)
	}
	return *forced, nil
}
