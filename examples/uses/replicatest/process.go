// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package replicatest

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/exec"
	"slices"
	"strings"
	"testing"

	"go.uber.org/goleak"

	"github.com/lockstead/lockstead/pkg/lock"
)

// Main is for TestMain. In a process that Namespace.Process started it plays the role that it was started for; otherwise it
// runs the tests and looks for goroutines that they left.
func Main(m *testing.M, roles map[string]Role) {
	role, ok := os.LookupEnv(roleVariable)
	if !ok {
		goleak.VerifyTestMain(m)
		return
	}
	if err := play(roles[role]); err != nil {
		fmt.Fprintf(os.Stderr, "replica %s: %v\n", role, err)
		os.Exit(1) //nolint:forbidigo // This is where the process of a replica ends.
	}
	os.Exit(0) //nolint:forbidigo // This is where the process of a replica ends.
}

// Role is what a process does as a replica.
type Role func(ctx context.Context, r *Replica) error

// Replica is a process from its inside.
type Replica struct {
	// Client is the process's own.
	Client *lock.Client
	// Log goes to the output of the test.
	Log *slog.Logger
	// Args are those of Namespace.Process.
	Args []string

	input *bufio.Scanner
}

// Say tells the test something: one line.
func (r *Replica) Say(line string) { _, _ = fmt.Fprintln(os.Stdout, line) }

// Await returns the next line that the test says; an error when the test has ended.
func (r *Replica) Await() (string, error) {
	if !r.input.Scan() {
		return "", io.ErrUnexpectedEOF
	}
	return r.input.Text(), nil
}

const (
	roleVariable = "LOCKSTEAD_REPLICA_ROLE"
	dirVariable  = "LOCKSTEAD_REPLICA_BINDING"
	argsVariable = "LOCKSTEAD_REPLICA_ARGS"
	argsJoin     = "\n"
)

func play(role Role) error {
	if role == nil {
		return fmt.Errorf("TestMain knows no such role")
	}
	ctx, cancel := context.WithTimeout(context.Background(), 2*Patience)
	defer cancel()
	log := slog.New(slog.NewTextHandler(os.Stderr, nil)).With("pid", os.Getpid())
	client, err := open(ctx, os.Getenv(dirVariable), log)
	if err != nil {
		return err
	}
	defer client.Close(ctx)
	return role(ctx, &Replica{
		Client: client.Client, Log: log, Args: strings.Split(os.Getenv(argsVariable), argsJoin), input: bufio.NewScanner(os.Stdin),
	})
}

// Process is a replica from its outside.
type Process struct {
	command *exec.Cmd
	input   io.WriteCloser
	output  *bufio.Scanner
	over    bool
}

// Process starts a process that plays a role of TestMain. It ends with the test.
func (n *Namespace) Process(t *testing.T, role string, args ...string) *Process {
	t.Helper()
	p := &Process{command: exec.CommandContext(t.Context(), os.Args[0])}
	p.command.Env = slices.Concat(os.Environ(), []string{
		roleVariable + "=" + role, dirVariable + "=" + n.dir, argsVariable + "=" + strings.Join(args, argsJoin),
	})
	p.command.Stderr = t.Output()
	input, err := p.command.StdinPipe()
	if err != nil {
		t.Fatal(err)
	}
	output, err := p.command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	p.input, p.output = input, bufio.NewScanner(output)
	if err := p.command.Start(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if !p.over {
			p.Kill(t)
		}
	})
	return p
}

// Expect reads the next line of the process, and fails the test unless it is the wanted one.
func (p *Process) Expect(t *testing.T, want string) {
	t.Helper()
	if !p.output.Scan() {
		t.Fatalf("the replica ended without saying %q", want)
	}
	if got := p.output.Text(); got != want {
		t.Fatalf("the replica said %q, want %q", got, want)
	}
}

// Say tells the process something: one line.
func (p *Process) Say(t *testing.T, line string) {
	t.Helper()
	if _, err := fmt.Fprintln(p.input, line); err != nil {
		t.Fatal(err)
	}
}

// Kill ends the process as a node that loses power ends it.
func (p *Process) Kill(t *testing.T) {
	t.Helper()
	p.over = true
	_ = p.command.Process.Kill()
	_ = p.command.Wait()
}

// Wait returns what else the process said, when it has ended in good order.
func (p *Process) Wait(t *testing.T) []string {
	t.Helper()
	var lines []string
	for p.output.Scan() {
		lines = append(lines, p.output.Text())
	}
	p.over = true
	if err := p.command.Wait(); err != nil {
		t.Fatalf("the replica failed: %v", err)
	}
	return lines
}
