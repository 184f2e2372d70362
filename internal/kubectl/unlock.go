// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/pkg/lock"
	"github.com/lockstead/lockstead/pkg/lock/driver"
)

func newUnlock(terminal Terminal, a *access) *cobra.Command {
	var name string
	var yes bool
	command := &cobra.Command{
		Use:   "unlock KEY",
		Short: "Take a lock away from its holder, after asking",
		Long: `Take a lock away from its holder, and free it for others.

The holder's work is not stopped: its handle ends at its next renewal, and until then it may go on while somebody else holds the lock. So end
the pod first where you can. The command prints a fencing token that is greater than the holder's, for resources that check tokens.`,
		Example: `  kubectl lockstead unlock order:17 -n payments
  kubectl lockstead unlock order:17 -n payments --lock-namespace billing --yes`,
		Args: cobra.ExactArgs(1),
		RunE: func(command *cobra.Command, args []string) error {
			c, err := a.connect()
			if err != nil {
				return err
			}
			return runUnlock(command.Context(), terminal, c, name, args[0], yes)
		},
	}
	command.Flags().StringVar(&name, "lock-namespace", "", "the LockNamespace that the key is of (default: the only one of the namespace)")
	command.Flags().BoolVarP(&yes, "yes", "y", false, "do not ask")
	return command
}

func runUnlock(ctx context.Context, terminal Terminal, c *cluster, name, key string, yes bool) error {
	lns, err := c.tenant(ctx, name)
	if err != nil {
		return err
	}
	s, err := c.open(ctx, lns, true)
	if err != nil {
		return err
	}
	defer s.close()
	holding, err := s.Inspect(ctx, key)
	switch {
	case errors.Is(err, lock.ErrInvalid):
		return usagef("%s is no key (%s): kubectl lockstead locks shows those that are held", shown(key), oneLine(err.Error()))
	case err != nil:
		return s.explain(c, "look at key "+shown(key), err)
	case !holding.Held:
		return problemf("nobody holds key %s of LockNamespace %s/%s: kubectl lockstead locks shows those that are held", shown(key), lns.Namespace, lns.Name)
	}
	fmt.Fprint(terminal.Err, describeHolder(lns, key, holding, terminal.Clock.Now()))
	if !yes {
		fmt.Fprint(terminal.Err, "Take the lock away? [y/N] ")
		if !agreed(terminal.In) {
			return problemf("nothing was changed: answer y, or give --yes")
		}
	}
	forced, err := s.ForceRelease(ctx, key, holding.ID)
	if errors.Is(err, lock.ErrNotHeld) {
		return problemf("nothing was changed: that holder does not hold key %s any more: look again with kubectl lockstead locks", shown(key))
	}
	if err != nil {
		return s.explain(c, "take key "+shown(key)+" away", err)
	}
	return write(terminal.Out, fmt.Sprintf("Key %s is free. The holder's token was %s. Fence, greater than it: %s\n",
		shown(key), forced.Holding.Token, forced.Fence))
}

// describeHolder names whom a lock is about to be taken from, and what to do first.
func describeHolder(lns *v1alpha1.LockNamespace, key string, holding driver.Holding, now time.Time) string {
	var b strings.Builder
	fmt.Fprintf(&b, "Key %s of LockNamespace %s/%s is held by %s", shown(key), lns.Namespace, lns.Name, shown(holding.Owner))
	if !holding.Since.IsZero() {
		fmt.Fprintf(&b, " for %s", span(now.Sub(holding.Since)))
	}
	fmt.Fprintf(&b, ", with token %s", shortToken(holding.Token))
	if holding.Remaining > 0 {
		fmt.Fprintf(&b, "; unless it renews, the lock ends within %s", span(holding.Remaining))
	}
	b.WriteString(".\nThe holder's work is not stopped: end its pod first if you can.\n")
	return b.String()
}

// agreed reads an answer. Only a clear yes is one.
func agreed(in io.Reader) bool {
	line, err := bufio.NewReader(io.LimitReader(in, 64)).ReadString('\n')
	if err != nil && !errors.Is(err, io.EOF) {
		return false
	}
	switch strings.ToLower(strings.TrimSpace(line)) {
	case "y", "yes":
		return true
	}
	return false
}
