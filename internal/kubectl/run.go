// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"
	"k8s.io/utils/clock"
)

// Terminal is where a command runs.
type Terminal struct {
	// In is read for answers, Out gets what was asked for, Err gets problems and questions.
	In       io.Reader
	Out, Err io.Writer
	// Clock tells the time that ages are counted to, and when a watch looks again.
	Clock clock.Clock
	// Version is that of the program.
	Version string
}

// The exit codes of Run, beside 0.
const (
	// ExitFailure: something could not be done, or a check did not pass.
	ExitFailure = 1
	// ExitUsage: the command line is wrong.
	ExitUsage = 2
)

// Run runs a command line, without the program's name, and returns the exit code. A failure is one line on Terminal.Err.
func Run(ctx context.Context, terminal Terminal, args []string) int {
	command := New(terminal)
	command.SetArgs(args)
	err := command.ExecuteContext(ctx)
	if err == nil {
		return 0
	}
	problem, known := errors.AsType[*Problem](err)
	switch {
	case known && problem.Told:
		return ExitFailure
	case known && problem.Usage:
		fmt.Fprintln(terminal.Err, "error:", problem)
		return ExitUsage
	case known:
		fmt.Fprintln(terminal.Err, "error:", problem)
		return ExitFailure
	default:
		// Only cobra's own errors are no Problems: an unknown verb or flag, an argument too many.
		text, _, _ := strings.Cut(err.Error(), "\n")
		fmt.Fprintf(terminal.Err, "error: %s: see 'kubectl lockstead --help'\n", text)
		return ExitUsage
	}
}

// New makes the command "kubectl lockstead".
func New(terminal Terminal) *cobra.Command {
	root := &cobra.Command{
		Use:   "kubectl-lockstead",
		Short: "See, check and repair the locks of a cluster's applications",
		Long: `See, check and repair the locks that Lockstead gives to the applications of a cluster.

Every verb takes the usual flags of kubectl (--kubeconfig, --context, --namespace) and uses your own rights.`,
		Annotations:   map[string]string{cobra.CommandDisplayNameAnnotation: "kubectl lockstead"},
		Version:       terminal.Version,
		SilenceUsage:  true,
		SilenceErrors: true,
	}
	root.SetIn(terminal.In)
	root.SetOut(terminal.Out)
	root.SetErr(terminal.Err)
	a := newAccess(root.PersistentFlags())
	root.AddCommand(
		newStatus(terminal, a),
		newLocks(terminal, a),
		newUnlock(terminal, a),
		newVerify(terminal, a),
		newRotate(terminal, a),
	)
	return root
}
