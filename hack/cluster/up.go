// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/netip"
	"os"
	"os/exec"
	"time"

	"github.com/lockstead/lockstead/hack/cluster/internal/binaries"
	"github.com/lockstead/lockstead/hack/cluster/internal/debian"
	"github.com/lockstead/lockstead/hack/cluster/internal/image"
	"github.com/lockstead/lockstead/hack/cluster/internal/node"
)

func (t *tool) up(ctx context.Context) error {
	if t.existing {
		return t.reach(ctx)
	}
	if os.Geteuid() != 0 {
		return errors.New("the local cluster needs root; with CLUSTER=existing, a cluster that you have is used instead")
	}
	begin := time.Now()
	if err := debian.Ensure(ctx, debian.Node()); err != nil {
		return err
	}
	loadModules(ctx)
	spec, err := t.spec(ctx)
	if err != nil {
		return err
	}
	unlock, err := t.dir.Lock()
	if err != nil {
		return err
	}
	defer unlock()
	status, err := node.Inspect(t.dir)
	if err != nil {
		return err
	}
	if status.Ready && spec.Saved(t.dir) {
		return t.announce("runs already")
	}
	if err := node.Stop(ctx, t.dir); err != nil {
		return err
	}
	err = t.start(ctx, spec, begin)
	if ctx.Err() != nil {
		// Whoever interrupts does not want the cluster; after a failure it stays for a look.
		return errors.Join(errors.New("interrupted"), node.Stop(context.WithoutCancel(ctx), t.dir))
	}
	if err != nil {
		return err
	}
	return t.announce(fmt.Sprintf("is ready after %.1fs", time.Since(begin).Seconds()))
}

func (t *tool) start(ctx context.Context, spec node.Spec, begin time.Time) error {
	listener, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return err
	}
	defer listener.Close()
	server, err := netip.ParseAddrPort(listener.Addr().String())
	if err != nil {
		return err
	}
	if err := node.Prepare(t.dir, spec, server, time.Now()); err != nil {
		return err
	}
	if err := node.Start(t.dir, spec, listener.(*net.TCPListener)); err != nil {
		return err
	}
	return node.Follow(ctx, t.dir, func(step string) {
		fmt.Fprintf(os.Stderr, "%6.1fs  %s\n", time.Since(begin).Seconds(), step)
	})
}

// spec builds and assembles all that a node runs.
func (t *tool) spec(ctx context.Context) (node.Spec, error) {
	programs, err := t.programs.Ensure(ctx, binaries.Node()...)
	if err != nil {
		return node.Spec{}, err
	}
	cni, err := debian.CNI()
	if err != nil {
		return node.Spec{}, err
	}
	self, err := os.Executable()
	if err != nil {
		return node.Spec{}, err
	}
	pause, err := image.Pause(self, pauseCommand)
	if err != nil {
		return node.Spec{}, err
	}
	redis, err := image.Redis(ctx)
	if err != nil {
		return node.Spec{}, err
	}
	spec := node.Spec{Program: self, Keep: t.cache, Binaries: programs, CNI: cni, Pause: pause.Name}
	for _, i := range []image.Image{pause, redis} {
		archive, err := t.images.Put(i)
		if err != nil {
			return node.Spec{}, err
		}
		spec.Archives = append(spec.Archives, archive)
	}
	return spec, nil
}

// loadModules asks for what a node needs from the kernel. Where it is built in,
// or there are no modules, nothing has to happen; what really lacks is reported
// by the step that needs it.
func loadModules(ctx context.Context) {
	for module, sign := range map[string]string{
		"br_netfilter": "/proc/sys/net/bridge",
		"overlay":      "/sys/module/overlay",
	} {
		if _, err := os.Stat(sign); errors.Is(err, fs.ErrNotExist) {
			_ = exec.CommandContext(ctx, "modprobe", module).Run()
		}
	}
}

// reach checks that the user's own cluster answers.
func (t *tool) reach(ctx context.Context) error {
	program, environment, err := t.kubectlCommand(ctx)
	if err != nil {
		return err
	}
	cmd := exec.CommandContext(ctx, program, "version")
	cmd.Env = environment
	output, err := cmd.CombinedOutput()
	if err != nil {
		return fmt.Errorf("reach the existing cluster with kubectl: %w: %s", err, output)
	}
	fmt.Fprintf(os.Stderr, "using the existing cluster\n%s", output)
	return nil
}

func (t *tool) announce(how string) error {
	fmt.Fprintf(os.Stderr, "cluster %s %s\n", t.dir.Name(), how)
	_, err := fmt.Println("export KUBECONFIG=" + t.dir.Kubeconfig())
	return err
}

func (t *tool) down(ctx context.Context) error {
	if t.existing {
		fmt.Fprintln(os.Stderr, "the existing cluster is yours and stays")
		return nil
	}
	unlock, err := t.dir.Lock()
	if err != nil {
		return err
	}
	defer unlock()
	if err := node.Stop(ctx, t.dir); err != nil {
		return err
	}
	fmt.Fprintf(os.Stderr, "cluster %s is gone\n", t.dir.Name())
	return nil
}

func (t *tool) status(ctx context.Context) error {
	if t.existing {
		return t.reach(ctx)
	}
	s, err := node.Inspect(t.dir)
	if err != nil {
		return err
	}
	switch {
	case s.Ready:
		return t.announce("is ready")
	case s.Failed != "":
		return fmt.Errorf("cluster %s failed to start: %s", t.dir.Name(), s.Failed)
	case s.Running:
		return fmt.Errorf("cluster %s is starting; its logs are in %s", t.dir.Name(), t.dir.Path("logs"))
	}
	return fmt.Errorf("cluster %s does not run; start it with `make cluster-up`", t.dir.Name())
}
