// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"bytes"
	"fmt"
	"io"
	"os"
	"os/exec"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"

	"github.com/lockstead/lockstead/pkg/internal/child"
)

const (
	// BinaryVariable names the environment variable with the path of the one server to test against.
	BinaryVariable = "LOCKSTEAD_REDIS_SERVER"
	// MatrixVariable names the environment variable with all servers to test against, as hack/servers.sh prints them: one <name>=<path> a line,
	// or separated by semicolons. BinaryVariable wins over it.
	MatrixVariable = "LOCKSTEAD_REDIS_SERVERS"
)

// Program is a server's binary.
type Program struct {
	// Name is that of the matrix, for example "redis-8.0".
	Name string
	// Path is absolute, or to be looked up in the PATH.
	Path string
}

// required are the servers that continuous integration must not leave out.
func required() []string { return []string{"redis-7.0", "redis-8.0", "valkey-8.1"} }

// programs reads the variables. It asks for both, whatever they say, since go test takes a result from its cache when what a test asked for is as it was.
func programs(getenv func(string) string) ([]Program, error) {
	one, all, ci := getenv(BinaryVariable), getenv(MatrixVariable), getenv("CI")
	if one != "" {
		return []Program{{Name: one, Path: one}}, nil
	}
	var list []Program
	for _, entry := range strings.FieldsFunc(all, func(r rune) bool { return r == '\n' || r == ';' }) {
		entry = strings.TrimSpace(entry)
		if entry == "" {
			continue
		}
		name, path, _ := strings.Cut(entry, "=")
		if name == "" || path == "" || strings.Contains(name, "/") {
			return nil, fmt.Errorf("redistest: %s: %q is not <name>=<path of a server>", MatrixVariable, entry)
		}
		if slices.ContainsFunc(list, func(p Program) bool { return p.Name == name }) {
			return nil, fmt.Errorf("redistest: %s names %s twice", MatrixVariable, name)
		}
		list = append(list, Program{Name: name, Path: path})
	}
	if ci == "true" {
		for _, name := range required() {
			if !slices.ContainsFunc(list, func(p Program) bool { return p.Name == name }) {
				return nil, fmt.Errorf("redistest: CI is true and %s does not name %s: set it to what hack/servers.sh prints", MatrixVariable, name)
			}
		}
	}
	if len(list) == 0 {
		list = []Program{{Name: "redis-server", Path: "redis-server"}}
	}
	return list, nil
}

// Each runs a test once for each server of the matrix, one after the other, as subtests with their names. Without a matrix it runs it once, with the
// default server, and says so.
func Each(t *testing.T, test func(t *testing.T, p Program)) {
	t.Helper()
	list, err := programs(os.Getenv)
	if err != nil {
		t.Fatal(err)
	}
	if len(list) == 1 {
		t.Log(onlyOne(list[0]))
	}
	for _, p := range list {
		t.Run(strings.ReplaceAll(p.Name, "/", "_"), func(t *testing.T) { test(t, p) })
	}
}

func onlyOne(p Program) string {
	return fmt.Sprintf("redistest: the only server is %s; make test runs this on all that %s names", p.Path, MatrixVariable)
}

// PerServer is for TestMain. It runs all tests of the package once for each server of the matrix, side by side, each in a process of its own,
// so that what a test says of its process, for example that no goroutine is left behind, is said of one server:
//
//	func TestMain(m *testing.M) { goleak.VerifyTestMain(redistest.PerServer(m)) }
//
// Without a matrix, and for benchmarks and fuzzing, the tests run once, with the default server.
func PerServer(m *testing.M) interface{ Run() int } { return perServer{m} }

type perServer struct{ m *testing.M }

// Run runs the tests and returns the exit status.
func (s perServer) Run() int {
	list, err := programs(os.Getenv)
	if err != nil {
		_, _ = fmt.Fprintln(os.Stderr, err)
		return 1
	}
	if len(list) == 1 || runsOnce(os.Args[1:]) {
		if os.Getenv(BinaryVariable) == "" {
			_, _ = fmt.Fprintln(os.Stdout, onlyOne(list[0]))
		}
		return s.m.Run()
	}
	return runPerServer(list, os.Args[0], os.Args[1:], os.Stdout)
}

// flagNamed reports whether an argument sets a flag of the test binary.
func flagNamed(arg string, names ...string) bool {
	name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	return slices.Contains(names, name)
}

// runsOnce reports whether the arguments of the test binary ask for something that takes the machine for itself, or only for a list.
func runsOnce(args []string) bool {
	return slices.ContainsFunc(args, func(arg string) bool {
		return flagNamed(arg, "test.bench", "test.fuzz", "test.fuzzworker", "test.list")
	})
}

// runPerServer runs the test binary once for each server. It writes the output of one after that of the other.
func runPerServer(list []Program, binary string, args []string, out io.Writer) (status int) {
	var mu sync.Mutex
	var group sync.WaitGroup
	for i, p := range list {
		own := args
		if i > 0 {
			// These name a file, which is the first process's.
			own = slices.DeleteFunc(slices.Clone(args), func(arg string) bool {
				return flagNamed(arg, "test.testlogfile", "test.coverprofile", "test.cpuprofile", "test.memprofile",
					"test.blockprofile", "test.mutexprofile", "test.trace")
			})
		}
		group.Go(func() {
			var output bytes.Buffer
			code := runOn(p, binary, own, &output)
			mu.Lock()
			defer mu.Unlock()
			_, _ = fmt.Fprintf(out, "=== server %s: %s\n%s", p.Name, p.Path, output.Bytes())
			status = max(status, code)
		})
	}
	group.Wait()
	return status
}

// runOn runs the test binary with one server, and returns its exit status.
func runOn(p Program, binary string, args []string, output *bytes.Buffer) int {
	command := exec.Command(binary, args...)
	command.Env, command.Stdout, command.Stderr = append(os.Environ(), BinaryVariable+"="+p.Path), output, output
	process, err := child.Start(command, syscall.SIGKILL)
	if err != nil {
		_, _ = fmt.Fprintf(output, "redistest: %v\n", err)
		return 1
	}
	<-process.Done()
	code := process.State().ExitCode()
	if code < 0 {
		_, _ = fmt.Fprintf(output, "redistest: the tests on %s ended by %s\n", p.Name, process.State())
		return 1
	}
	return code
}
