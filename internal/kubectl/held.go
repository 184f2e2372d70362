// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"cmp"
	"fmt"
	"slices"
	"strings"
	"time"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
)

// heldLock is a key that is held, as it is printed.
type heldLock struct {
	Namespace     string `json:"namespace"`
	LockNamespace string `json:"lockNamespace"`
	Backend       string `json:"backend"`
	Key           string `json:"key"`
	// Pod is what Owner begins with.
	Pod   string `json:"pod,omitempty"`
	Owner string `json:"owner,omitempty"`
	// Since is when the lock was granted. It is absent when the store does not know.
	Since *time.Time `json:"since,omitempty"`
	// RemainingSeconds is when the lock ends unless it is renewed. It is absent when the store does not know.
	RemainingSeconds *float64 `json:"remainingSeconds,omitempty"`
	// Token is the fencing token as lock.Token.String writes it.
	Token       lock.Token `json:"token"`
	Acquisition string     `json:"acquisition"`
}

// lockList is what locks prints for programs.
type lockList struct {
	typed
	Locks []heldLock `json:"locks"`
	// Problems say which LockNamespaces could not be asked.
	Problems []string `json:"problems,omitempty"`
}

func heldOf(lns *v1alpha1.LockNamespace, held lock.HeldKey) heldLock {
	h := heldLock{
		Namespace: lns.Namespace, LockNamespace: lns.Name, Backend: string(lns.Status.Backend), Key: held.Key,
		Pod: podOf(held.Owner), Owner: held.Owner, Token: held.Token, Acquisition: held.ID,
	}
	if !held.Since.IsZero() {
		since := held.Since.UTC()
		h.Since = &since
	}
	if held.Remaining > 0 {
		seconds := held.Remaining.Seconds()
		h.RemainingSeconds = &seconds
	}
	return h
}

// podOf is the first part of an owner, which the library makes of pod, namespace and process.
func podOf(owner string) string {
	pod, _, _ := strings.Cut(owner, "/")
	return pod
}

// shortToken is a token for people: as it is compared, without the zeros that make it sort as text.
func shortToken(token driver.Token) string { return fmt.Sprintf("%d.%d", token.Epoch, token.Sequence) }

func sortHeld(locks []heldLock) {
	slices.SortFunc(locks, func(x, y heldLock) int {
		return cmp.Or(cmp.Compare(x.Namespace, y.Namespace), cmp.Compare(x.LockNamespace, y.LockNamespace), cmp.Compare(x.Key, y.Key))
	})
}

var (
	heldHeader     = []string{"NAMESPACE", "LOCKNAMESPACE", "KEY", "POD", "SINCE", "REMAINING", "TOKEN"}
	heldHeaderWide = []string{"NAMESPACE", "LOCKNAMESPACE", "BACKEND", "KEY", "OWNER", "SINCE", "REMAINING", "TOKEN", "ACQUISITION"}
)

func headerOf(wide bool) []string {
	if wide {
		return heldHeaderWide
	}
	return heldHeader
}

// row is a lock as cells of headerOf.
func (h heldLock) row(wide bool, now time.Time) []string {
	since, remaining := "-", "-"
	if h.Since != nil {
		since = span(now.Sub(*h.Since))
	}
	if h.RemainingSeconds != nil {
		remaining = span(time.Duration(*h.RemainingSeconds * float64(time.Second)))
	}
	if wide {
		return []string{h.Namespace, h.LockNamespace, h.Backend, shown(h.Key), shown(h.Owner), since, remaining, h.Token.String(), h.Acquisition}
	}
	return []string{h.Namespace, h.LockNamespace, shown(h.Key), shown(h.Pod), since, remaining, shortToken(h.Token)}
}

// renderLocks is what locks prints for people.
func renderLocks(locks []heldLock, wide bool, now time.Time) string {
	if len(locks) == 0 {
		return ""
	}
	rows := make([][]string, len(locks))
	for i, h := range locks {
		rows[i] = h.row(wide, now)
	}
	return table(headerOf(wide), rows)
}
