// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance_test

import (
	"fmt"
	"strconv"
	"testing"

	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstead/lockstead/pkg/lock/redislock/redisproto"
)

// What docs/restore.md tells people to do after they restored a volume of the same epoch, which nobody can notice.
func TestAnEpochThatIsRaisedByHandIsALoss(t *testing.T) {
	b, server := externalBench(t)
	b.reconcile()
	a := b.application("billing")
	a.program()
	b.reconcile()
	b.wantReady()
	b.events()
	epoch := b.instance.Status.Epoch
	patch := client.RawPatch("application/merge-patch+json", []byte(`{"status":{"epoch":`+strconv.FormatInt(epoch+100, 10)+`}}`))
	if err := environment.Admin.Status().Patch(t.Context(), b.instance, patch); err != nil {
		t.Fatal(err)
	}
	b.wantQuarantine(server, a, redisproto.CodeNotArmed)
	if got := a.acquire(server, "later"); got != fmt.Sprint(b.instance.Status.Epoch) || b.instance.Status.Epoch <= epoch+100 {
		t.Errorf("acquire after the restore: %s, epoch %d, before it %d", got, b.instance.Status.Epoch, epoch)
	}
}
