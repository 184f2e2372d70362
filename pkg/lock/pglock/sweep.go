// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package pglock

import (
	"context"
	"time"

	"github.com/jackc/pgx/v5"
)

// Rows that ran out more than an hour ago are swept away now and then: those of holders that vanished, for keys that nobody asks for any more.
const (
	sweepFirst = time.Minute
	sweepEvery = time.Hour
)

func (d *Driver) sweepAll() {
	for pause := sweepFirst; ; pause = sweepEvery {
		timer := d.options.Clock.NewTimer(pause)
		select {
		case <-timer.C():
		case <-d.ctx.Done():
			timer.Stop()
			return
		}
		if err := d.sweep(); err != nil {
			d.options.Logger.DebugContext(d.ctx, "rows that ran out were not swept away", "error", err)
		}
	}
}

func (d *Driver) sweep() error {
	return d.request(d.ctx, "sweep", nil, func(ctx context.Context, _ *session, conn *pgx.Conn) error {
		_, err := conn.Exec(ctx, d.sql.sweep)
		return err
	})
}
