// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lockstead_test

import (
	"context"
	"crypto/rand"
	"errors"
	"strings"
	"testing"
	"time"

	"k8s.io/client-go/rest"

	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/idempotency"
	"github.com/lockstead/lockstead/pkg/idempotency/redisstore"
	"github.com/lockstead/lockstead/pkg/idempotency/redisstore/recordproto"
	"github.com/lockstead/lockstead/pkg/lock/memlock"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
	"github.com/lockstead/lockstead/pkg/lockstead"
)

// allowRecords does what the operator does for spec.idempotencyRecords.
func allowRecords(t *testing.T, s *redistest.Server, b *binding.Binding) {
	t.Helper()
	admin := s.Admin(t)
	command := []any{"acl", "setuser", b.Redis.Username}
	for _, rule := range recordproto.TenantRules(redisproto.Root(b.Prefix), b.Prefix) {
		command = append(command, rule)
	}
	limits := recordproto.Limits{Share: b.Redis.Records.Share, MaxResponse: b.Redis.Records.MaxResponse}
	for _, command := range [][]any{
		command, {"function", "load", recordproto.Library()},
		{"fcall", recordproto.FunctionGrant, 1, recordproto.RecordsKey(b.Prefix), limits.String(), b.Redis.Username},
	} {
		if err := admin.Do(t.Context(), command...).Err(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestRecordStoreOfTheBinding(t *testing.T) {
	t.Parallel()
	ctx, cancel := context.WithTimeout(t.Context(), patience)
	defer cancel()
	s, b := newTenant(t)
	m := newMount(t, b)
	c := open(t, &lockstead.Options{BindingDir: m.dir, RefreshInterval: refresh})
	_, err := c.RecordStore()
	if refused, ok := errors.AsType[*lockstead.NoRecordsError](err); !ok || refused.LockNamespace != "payments/billing" || !strings.Contains(err.Error(), "spec.idempotencyRecords") {
		t.Errorf("without the opt-in: %v", err)
	}
	// The opt-in is picked up by the running process.
	b.Redis.Records = &binding.Records{Share: 1 << 20, MaxResponse: 8 << 10}
	allowRecords(t, s, b)
	m.replace(b)
	var store *redisstore.LockServer
	for store, err = c.RecordStore(); err != nil && ctx.Err() == nil; {
		store, err = c.RecordStore()
	}
	if err != nil {
		t.Fatal(err)
	}
	var key idempotency.Key
	_, _ = rand.Read(key[:])
	owner := idempotency.Ownership{Owner: rand.Text()}
	if _, err := store.Begin(ctx, key, idempotency.Claim{Ownership: owner, Lease: time.Minute, Retention: time.Hour}); err != nil {
		t.Fatal(err)
	}
	if err := store.Complete(ctx, key, owner, idempotency.Result{State: idempotency.Done, Response: []byte("answer"), Retention: time.Hour}); err != nil {
		t.Fatal(err)
	}
	other, err := open(t, &lockstead.Options{BindingDir: m.dir}).RecordStore()
	if err != nil {
		t.Fatal(err)
	}
	if record, err := other.Get(ctx, key); err != nil || string(record.Response) != "answer" {
		t.Errorf("the other replica: %+v, %v", record, err)
	}
	// An own client goes with the binding's prefix.
	own, err := open(t, &lockstead.Options{BindingDir: m.dir, Redis: s.Client(t, b.Redis.Username, b.Redis.Password)}).RecordStore()
	if err != nil {
		t.Fatal(err)
	}
	if record, err := own.Get(ctx, key); err != nil || record.State != idempotency.Done {
		t.Errorf("by an own client: %s, %v", record.State, err)
	}
}

func TestWithoutAPlaceForRecordsTheErrorSaysWhatToDo(t *testing.T) {
	t.Parallel()
	lease := newMount(t, leaseBinding("payments"))
	for name, tc := range map[string]struct {
		options *lockstead.Options
		want    string
	}{
		"no binding":            {&lockstead.Options{Driver: memlock.New(nil), Prefix: "app:"}, "no binding was read"},
		"locks in Leases":       {&lockstead.Options{BindingDir: lease.dir, RESTConfig: &rest.Config{Host: "https://127.0.0.1:1"}}, "not kept in Redis"},
		"a client of its own":   {&lockstead.Options{Redis: redistest.Start(t, nil).Admin(t), Prefix: "app:"}, "redisstore.New"},
		"another Redis instead": {&lockstead.Options{BindingDir: lease.dir, Redis: redistest.Start(t, nil).Admin(t)}, "not kept in Redis"},
	} {
		_, err := open(t, tc.options).RecordStore()
		if refused, ok := errors.AsType[*lockstead.NoRecordsError](err); !ok || !strings.Contains(refused.Error(), tc.want) {
			t.Errorf("%s: %v", name, err)
		}
	}
}
