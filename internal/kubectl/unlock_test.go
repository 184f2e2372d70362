// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"strings"
	"testing"

	"github.com/lockstead/lockstead/pkg/lock"
)

func TestUnlockAsksAndFences(t *testing.T) {
	onEach(t, func(t *testing.T, a application) {
		config, locks := kubeconfig(t, a.lns.Namespace), a.locks(t)
		wantProblem(t, say(t, config, "y\n", "unlock", "order:17"), ExitFailure, "nobody holds key order:17", "kubectl lockstead locks shows")
		wantProblem(t, say(t, config, "", "unlock", "", "-y"), ExitUsage, "is no key")
		wantProblem(t, say(t, config, "", "unlock"), ExitUsage, "accepts 1 arg(s)")
		wantProblem(t, say(t, config, "", "unlock", "order:17", "--lock-namespace", "other"), ExitFailure, "has no LockNamespace other: name one of billing")

		h := mustHold(t, locks, "order:17")
		for _, answer := range []string{"", "\n", "n\n", "yesterday\n"} {
			s := say(t, config, answer, "unlock", "order:17")
			if s.code != ExitFailure || !strings.Contains(s.err, "is held by "+pod+"/"+a.lns.Namespace+"/pid-1") || !strings.Contains(s.err, "end its pod first") ||
				!strings.Contains(s.err, "[y/N] error: nothing was changed") {
				t.Fatalf("to the answer %q it says %d: %s", answer, s.code, s.err)
			}
		}
		if err := h.Renew(t.Context(), 0); err != nil {
			t.Fatalf("an unlock that was not agreed to took the lock: %v", err)
		}

		s := wantDone(t, say(t, config, "y\n", "unlock", "order:17"))
		_, text, found := strings.Cut(strings.TrimSpace(s.out), "greater than it: ")
		var fence lock.Token
		if err := fence.UnmarshalText([]byte(text)); !found || err != nil || !h.Token().Less(fence) || !strings.Contains(s.out, "The holder's token was "+h.Token().String()) {
			t.Fatalf("it prints %q, want a fence above %s (%v)", s.out, h.Token(), err)
		}
		next := mustHold(t, locks, "order:17")
		if next.Token().Less(fence) {
			t.Errorf("the next holder has %s, less than the fence %s", next.Token(), fence)
		}
		wantDone(t, say(t, config, "", "unlock", "order:17", "--yes"))
	})
}
