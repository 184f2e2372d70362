// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package resource_test

import (
	"path/filepath"
	"testing"

	"github.com/lockstead/lockstead/pkg/lock/driver"
	"github.com/lockstead/lockstead/test/fault/resource"
)

// A holder that was paused writes back what it had read before the next one: without a fence that loses an update, and with one it is refused.
func TestAStaleHolderIsRefusedByTheFenceAlone(t *testing.T) {
	t.Parallel()
	path := filepath.Join(t.TempDir(), "s")
	server, err := resource.Listen(path)
	if err != nil {
		t.Fatal(err)
	}
	c, err := resource.Dial(path)
	if err != nil {
		t.Fatal(err)
	}
	ask := func(do, id string, sequence uint64, base resource.Answer) resource.Answer {
		t.Helper()
		a, err := c.Ask(resource.Request{Do: do, Key: "k", ID: id, Token: driver.Token{Epoch: 1, Sequence: sequence}, Open: base.Open, Fenced: base.Fenced})
		if err != nil {
			t.Fatal(err)
		}
		return a
	}
	stale := ask("read", "a", 1, resource.Answer{})
	fresh := ask("read", "b", 2, resource.Answer{})
	ask("write", "b", 2, fresh)
	ask("confirm", "b", 2, fresh)
	if got := ask("write", "a", 1, stale); got.Fenced != -1 {
		t.Errorf("the fence let an older token pass: %+v", got)
	}
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	lists := server.Close()["k"]
	open, fenced := lists[0], lists[1]
	if len(open.Final) != 1 || open.Final[0] != "a" {
		t.Errorf("without a fence the list is %v, want that the update of b is lost", open.Final)
	}
	if len(fenced.Final) != 1 || fenced.Final[0] != "b" || !fenced.Writes[0].Valid {
		t.Errorf("with a fence the list is %v after %+v", fenced.Final, fenced.Writes)
	}
}
