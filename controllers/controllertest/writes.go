// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package controllertest

import (
	"context"
	"fmt"
	"sync"

	"k8s.io/apimachinery/pkg/runtime"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/interceptor"
)

// Writes are the write requests that a client sent.
type Writes struct {
	mu   sync.Mutex
	sent []string
	fail func(write string) error
}

// Sent are the writes since the last Reset, such as "create *v1.Secret".
func (w *Writes) Sent() []string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return append([]string(nil), w.sent...)
}

// Reset forgets the writes.
func (w *Writes) Reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.sent = nil
}

// Fail makes writes fail for which f returns an error; they are not sent. Nil ends that.
func (w *Writes) Fail(f func(write string) error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.fail = f
}

func (w *Writes) note(verb string, object any) error {
	w.mu.Lock()
	defer w.mu.Unlock()
	write := fmt.Sprintf("%s %T", verb, object)
	if u, ok := object.(interface{ GetKind() string }); ok {
		write = verb + " " + u.GetKind()
	}
	if w.fail != nil {
		if err := w.fail(write); err != nil {
			return err
		}
	}
	w.sent = append(w.sent, write)
	return nil
}

// CountWrites wraps a client so that its write requests are noted, and can be made to fail.
func CountWrites(c client.WithWatch) (client.WithWatch, *Writes) {
	w := &Writes{}
	return interceptor.NewClient(c, interceptor.Funcs{
		Create: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.CreateOption) error {
			if err := w.note("create", object); err != nil {
				return err
			}
			return c.Create(ctx, object, options...)
		},
		Update: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.UpdateOption) error {
			if err := w.note("update", object); err != nil {
				return err
			}
			return c.Update(ctx, object, options...)
		},
		Patch: func(ctx context.Context, c client.WithWatch, object client.Object, patch client.Patch, options ...client.PatchOption) error {
			if err := w.note("patch", object); err != nil {
				return err
			}
			return c.Patch(ctx, object, patch, options...)
		},
		Apply: func(ctx context.Context, c client.WithWatch, object runtime.ApplyConfiguration, options ...client.ApplyOption) error {
			if err := w.note("apply", object); err != nil {
				return err
			}
			return c.Apply(ctx, object, options...)
		},
		Delete: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteOption) error {
			if err := w.note("delete", object); err != nil {
				return err
			}
			return c.Delete(ctx, object, options...)
		},
		DeleteAllOf: func(ctx context.Context, c client.WithWatch, object client.Object, options ...client.DeleteAllOfOption) error {
			if err := w.note("deleteAllOf", object); err != nil {
				return err
			}
			return c.DeleteAllOf(ctx, object, options...)
		},
		SubResourceUpdate: func(ctx context.Context, c client.Client, name string, object client.Object, options ...client.SubResourceUpdateOption) error {
			if err := w.note("update "+name, object); err != nil {
				return err
			}
			return c.SubResource(name).Update(ctx, object, options...)
		},
		SubResourcePatch: func(ctx context.Context, c client.Client, name string, object client.Object, patch client.Patch, options ...client.SubResourcePatchOption) error {
			if err := w.note("patch "+name, object); err != nil {
				return err
			}
			return c.SubResource(name).Patch(ctx, object, patch, options...)
		},
	}), w
}
