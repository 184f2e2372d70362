// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redislock

import (
	"context"

	"github.com/redis/go-redis/v9"

	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock/driver"
)

// Renew sets the time that is left: see driver.Driver.
func (d *Driver) Renew(ctx context.Context, req driver.RenewRequest) (driver.Renewal, error) {
	outcome := d.RenewBatch(ctx, []driver.RenewRequest{req})[0]
	return outcome.Renewal, outcome.Err
}

// RenewBatch sends many renewals in one pipeline: see driver.BatchRenewer. Pipelines have connections of their own, so renewals do not wait behind
// the acquires of a busy application.
func (d *Driver) RenewBatch(ctx context.Context, reqs []driver.RenewRequest) []driver.RenewOutcome {
	o := d.operations.renew
	outcomes := make([]driver.RenewOutcome, len(reqs))
	limit := d.options.AttemptTimeout
	batch := make([]*renewal, 0, len(reqs))
	for i, req := range reqs {
		err := d.check(o.name, req.ID, req.TTL)
		if err == nil {
			err = d.refuse(ctx, o, req.Key)
		}
		if err != nil {
			outcomes[i].Err = err
			continue
		}
		m := &mark{id: req.ID}
		limit = min(limit, req.TTL/2)
		batch = append(batch, &renewal{RenewRequest: req, index: i, mark: m, keys: d.lockKeys(req.Key), args: []any{m, req.TTL.Milliseconds()}})
	}
	if len(batch) == 0 {
		return outcomes
	}
	answers, gone := await(ctx, d, limit, func(attempt context.Context) []answer { return d.renew(attempt, batch) }, func() {
		for _, r := range batch {
			r.mark.abandon()
		}
	})
	for i, r := range batch {
		if gone != nil {
			outcomes[r.index].Err = gone.outcome(ctx, o, r.Key, r.mark)
			continue
		}
		outcomes[r.index] = r.decode(o, answers[i])
	}
	return outcomes
}

// renewal is one of a batch.
type renewal struct {
	driver.RenewRequest
	index int
	mark  *mark
	keys  []string
	args  []any
}

func (r *renewal) decode(o operation, a answer) driver.RenewOutcome {
	reply, err := finish(o, r.Key, r.mark, a)
	if err == nil {
		err = wasHolder(o.name, r.Key, reply)
	}
	if err != nil {
		return driver.RenewOutcome{Err: err}
	}
	return driver.RenewOutcome{Renewal: driver.Renewal{TTL: r.TTL}}
}

// renew sends the requests and reads the answers, one for each.
func (d *Driver) renew(ctx context.Context, batch []*renewal) []answer {
	answers := d.pipeline(ctx, batch)
	if d.rotated(answers[0].err) {
		answers = d.pipeline(ctx, batch)
	}
	var without []*renewal
	var places []int
	for i, r := range batch {
		if listRefused(r.keys, answers[i].err) {
			r.keys = r.keys[:listKey]
			without, places = append(without, r), append(places, i)
		}
	}
	if len(without) > 0 {
		for i, a := range d.pipeline(ctx, without) {
			answers[places[i]] = a
			d.unlisted.note(without[i].Key.Prefix, a.err)
		}
	}
	return answers
}

func (d *Driver) pipeline(ctx context.Context, batch []*renewal) []answer {
	o, access := d.operations.renew, d.access()
	pipeline := d.client.Pipeline()
	commands := make([]command, len(batch))
	for i, r := range batch {
		commands[i] = o.command(ctx, access, r.keys, r.args)
		_ = pipeline.Process(ctx, commands[i])
	}
	// Each command has its own error.
	_, _ = pipeline.Exec(ctx)
	answers := make([]answer, len(batch))
	for i, cmd := range commands {
		reply, err := cmd.Result()
		if reply != nil && err != nil {
			// It was read before the connection broke under the answer to another one.
			err = nil
		}
		if access == binding.AccessScripts && !d.options.Operated && redis.HasErrorPrefix(err, "NOSCRIPT") {
			reply, err = o.sendSource(ctx, d.client, batch[i].keys, batch[i].args, err)
		}
		answers[i] = answer{reply, err}
	}
	return answers
}
