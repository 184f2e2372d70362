// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"
	apierrors "k8s.io/apimachinery/pkg/api/errors"
	"sigs.k8s.io/controller-runtime/pkg/client"

	"github.com/lockstead/lockstead/api/v1alpha1"
)

func newRotate(terminal Terminal, a *access) *cobra.Command {
	return &cobra.Command{
		Use:   "rotate [LOCKNAMESPACE]",
		Short: "Ask the operator for a new password of an application",
		Long: `Ask the operator for a new password on the Redis server: spec.credentials.rotationCounter grows by one.

The old password works on for spec.credentials.overlap, so no pod loses access. A rotation that is asked for while the previous one's
overlap lasts starts at its end.`,
		Example: "  kubectl lockstead rotate billing -n payments",
		Args:    cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			c, err := a.connect()
			if err != nil {
				return err
			}
			name := ""
			if len(args) > 0 {
				name = args[0]
			}
			return runRotate(command.Context(), terminal, c, name)
		},
	}
}

func runRotate(ctx context.Context, terminal Terminal, c *cluster, name string) error {
	lns, err := c.tenant(ctx, name)
	if err != nil {
		return err
	}
	if lns.Status.Backend == v1alpha1.BackendLease {
		return problemf("LockNamespace %s/%s has no password, since its locks are Leases: there is nothing to rotate", lns.Namespace, lns.Name)
	}
	before := lns.DeepCopy()
	lns.Spec.Credentials.RotationCounter = nextCounter(lns)
	// With the version that was read: two people who ask at once ask for two rotations, and the second one is told.
	err = c.client.Patch(ctx, lns, client.MergeFromWithOptions(before, client.MergeFromWithOptimisticLock{}))
	if apierrors.IsConflict(err) {
		return problemf("LockNamespace %s/%s was changed at the same moment, and nothing was asked for: run the command again", lns.Namespace, lns.Name)
	}
	if err != nil {
		return c.explain(fmt.Sprintf("change LockNamespace %s/%s", lns.Namespace, lns.Name), err)
	}
	return write(terminal.Out, rotationAsked(before, lns.Spec.Credentials.RotationCounter, terminal.Clock.Now()))
}

// nextCounter is a counter that the operator has not seen.
func nextCounter(lns *v1alpha1.LockNamespace) int64 {
	counter := lns.Spec.Credentials.RotationCounter
	if status := lns.Status.Credentials; status != nil {
		counter = max(counter, status.ObservedRotationCounter)
	}
	return counter + 1
}

// rotationAsked tells what will happen.
func rotationAsked(lns *v1alpha1.LockNamespace, counter int64, now time.Time) string {
	text := fmt.Sprintf("A new password was asked for (rotationCounter %d). ", counter)
	if status := lns.Status.Credentials; status != nil && status.PreviousValidUntil != nil && status.PreviousValidUntil.After(now) {
		return text + fmt.Sprintf("The previous rotation's overlap lasts until %s; it starts then.\n", status.PreviousValidUntil.UTC().Format(time.RFC3339))
	}
	return text + fmt.Sprintf("The old one works for %s more; status.credentials of LockNamespace %s has the times.\n", lns.Spec.Credentials.Overlap.Duration, lns.Name)
}
