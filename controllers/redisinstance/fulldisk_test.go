// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redisinstance_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

// onSmallDisk is a server whose files cannot grow beyond 256 KiB, after which a write fails as on a full disk.
func onSmallDisk(t *testing.T, config ...string) *redistest.Server {
	t.Helper()
	script := filepath.Join(t.TempDir(), "server")
	// Without the trap the server would be ended by the signal, and not see the error. The unit of POSIX shells is 512 bytes.
	text := "#!/bin/sh\ntrap '' XFSZ\nulimit -f 512\nexec " + redistest.Binary(t, "") + ` "$@"` + "\n"
	if err := os.WriteFile(script, []byte(text), 0o700); err != nil { //nolint:gosec // It is run.
		t.Fatal(err)
	}
	return redistest.Start(t, &redistest.Options{Binary: script, Config: config})
}

func TestAServerWhoseDiskIsFull(t *testing.T) {
	for policy, want := range map[string]func(*bench){
		// It goes on, and refuses writes.
		"everysec": func(b *bench) {
			b.wantCondition(v1alpha1.ConditionAvailable, metav1.ConditionTrue, v1alpha1.ReasonAvailable)
			condition := b.wantCondition(v1alpha1.ConditionLockSafe, metav1.ConditionFalse, v1alpha1.ReasonAOFWriteFailing)
			if !strings.Contains(condition.Message, "volume is full") {
				b.t.Errorf("message is %q", condition.Message)
			}
			b.wantCondition(v1alpha1.ConditionReady, metav1.ConditionFalse, v1alpha1.ReasonAOFWriteFailing)
		},
		// It ends, rather than to acknowledge what it cannot keep.
		"always": func(b *bench) { b.wantUnavailable(v1alpha1.ReasonUnreachable) },
	} {
		t.Run(policy, func(t *testing.T) {
			server := onSmallDisk(t, "appendfsync "+policy)
			b := newBench(t, external())
			b.address = server.Addr()
			b.secret("admin", map[string]string{"username": "admin", "password": server.AdminPassword()})
			b.reconcile()
			b.wantReady()
			admin, filler := server.Admin(t), strings.Repeat("x", 16<<10)
			var refused error
			for i := 0; i < 1000 && refused == nil; i++ {
				refused = admin.Set(t.Context(), "filler", filler, 0).Err()
			}
			if refused == nil {
				t.Fatal("the disk does not fill up")
			}
			b.reconcile()
			want(b)
			b.wantNoWrites()
		})
	}
}
