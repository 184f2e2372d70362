// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"context"
	"errors"
	"fmt"
	"strings"

	"github.com/spf13/cobra"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/pkg/lock/driver"
)

// locksOptions are the flags of locks.
type locksOptions struct {
	all    bool
	format string
}

func newLocks(terminal Terminal, a *access) *cobra.Command {
	var o locksOptions
	command := &cobra.Command{
		Use:   "locks [LOCKNAMESPACE]",
		Short: "List the keys that are held, and by whom",
		Long: `List the keys that are held: by which pod, since when, for how long unless it renews, and with which fencing token.

On Leases, REMAINING is an upper bound: it counts from when this command first saw the lock.`,
		Example: `  kubectl lockstead locks -n payments
  kubectl lockstead locks billing -n payments -o json
  kubectl lockstead locks -A`,
		Args: cobra.MaximumNArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			if err := checkOutput(o.format); err != nil {
				return err
			}
			if o.all && len(args) > 0 {
				return usagef("--all-namespaces and the name of a LockNamespace exclude each other: leave out one")
			}
			c, err := a.connect()
			if err != nil {
				return err
			}
			return runLocks(command.Context(), terminal, c, args, o)
		},
	}
	command.Flags().BoolVarP(&o.all, "all-namespaces", "A", false, "look in all namespaces")
	addOutput(command.Flags(), &o.format)
	return command
}

func runLocks(ctx context.Context, terminal Terminal, c *cluster, args []string, o locksOptions) error {
	tenants, err := c.asked(ctx, args, o.all)
	if err != nil {
		return err
	}
	list := lockList{typed: typed{outputVersion, "LockList"}, Locks: []heldLock{}}
	for i := range tenants {
		// One that cannot be asked is no reason not to show the others.
		locks, err := c.held(ctx, &tenants[i])
		list.Locks = append(list.Locks, locks...)
		if err != nil {
			if ctx.Err() != nil {
				return err
			}
			list.Problems = append(list.Problems, err.Error())
		}
	}
	sortHeld(list.Locks)
	if err := printLocks(terminal, list, tenants, o.format); err != nil {
		return err
	}
	for _, problem := range list.Problems {
		fmt.Fprintln(terminal.Err, "error:", problem)
	}
	if len(list.Problems) > 0 {
		return &Problem{Text: strings.Join(list.Problems, "; "), Told: true}
	}
	return nil
}

func printLocks(terminal Terminal, list lockList, tenants []v1alpha1.LockNamespace, format string) error {
	if format == formatJSON || format == formatYAML {
		return printDocument(terminal.Out, format, list)
	}
	if len(list.Locks) == 0 && len(list.Problems) < len(tenants) {
		fmt.Fprintln(terminal.Err, "No key is held.")
	}
	return write(terminal.Out, renderLocks(list.Locks, format == formatWide, terminal.Clock.Now()))
}

// asked are the LockNamespaces that a command line is about.
func (c *cluster) asked(ctx context.Context, args []string, all bool) ([]v1alpha1.LockNamespace, error) {
	if len(args) > 0 {
		lns, err := c.tenant(ctx, args[0])
		if err != nil {
			return nil, err
		}
		return []v1alpha1.LockNamespace{*lns}, nil
	}
	tenants, err := c.tenants(ctx, all)
	if err != nil {
		return nil, err
	}
	if len(tenants) == 0 && all {
		return nil, problemf("the cluster has no LockNamespace: create one in the namespace of the application")
	}
	if len(tenants) == 0 {
		_, err = choose(c.namespace, "", nil)
		return nil, err
	}
	return tenants, nil
}

// held lists the keys of one LockNamespace that are held. With an error it returns what was read before.
func (c *cluster) held(ctx context.Context, lns *v1alpha1.LockNamespace) ([]heldLock, error) {
	s, err := c.open(ctx, lns, false)
	if err != nil {
		return nil, err
	}
	defer s.close()
	var locks []heldLock
	for held, err := range s.List(ctx) {
		if err != nil {
			return locks, s.explain(c, "list the locks of LockNamespace "+lns.Namespace+"/"+lns.Name, err)
		}
		locks = append(locks, heldOf(lns, held))
	}
	return locks, nil
}

// explain tells what a fault of the store means. That of Leases is the API server.
func (s *store) explain(c *cluster, doing string, err error) error {
	if fault, isFault := errors.AsType[*driver.StoreError](err); isFault && fault.Err != nil && isLeases(s.way) {
		return c.explain(doing, fault.Err)
	}
	return explainStore(doing, s.way, err)
}

func isLeases(w fmt.Stringer) bool {
	_, ok := w.(leases)
	return ok
}
