// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"time"

	"github.com/lockstead/lockstead/hack/cluster/internal/binaries"
	"github.com/lockstead/lockstead/hack/cluster/internal/state"
)

// bringUpTimeout is far more than a slow machine needs.
const bringUpTimeout = 4 * time.Minute

// Lines that end the progress file.
const (
	progressReady  = "ready"
	progressFailed = "failed: "
)

// Run sets the node up, starts its components and stays. It reports to the
// progress file, so that it does not matter whether anyone is watching.
func Run(ctx context.Context, dir state.Dir) error {
	progress, err := os.OpenFile(dir.Progress(), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o644)
	if err != nil {
		return err
	}
	report := func(format string, args ...any) { fmt.Fprintf(progress, format+"\n", args...) }
	if err := bringUp(ctx, dir, report); err != nil {
		report(progressFailed+"%v", err)
		return err
	}
	report(progressReady)
	<-ctx.Done()
	return context.Cause(ctx)
}

func bringUp(ctx context.Context, dir state.Dir, report func(string, ...any)) error {
	spec, err := loadSpec(dir)
	if err != nil {
		return err
	}
	if err := syscall.Sethostname([]byte(dir.NodeName())); err != nil {
		return err
	}
	if err := makeMounts(dir, spec); err != nil {
		return err
	}
	if err := makeNetwork(ctx); err != nil {
		return err
	}
	if err := openVolumes(); err != nil {
		return err
	}
	listener, err := net.FileListener(os.NewFile(listenerFD, "listener"))
	if err != nil {
		return fmt.Errorf("take over the host's listener: %w", err)
	}
	go func() {
		err := forward(ctx, listener, net.JoinHostPort(nodeNet.Addr().String(), apiServerPort))
		fmt.Fprintln(os.Stderr, "forward to the API server:", err)
	}()
	report("namespaces, mounts and network are made")

	p, err := newProber(dir)
	if err != nil {
		return err
	}
	// The components live on under ctx; only the waiting has a limit.
	waiting, cancel := context.WithTimeoutCause(ctx, bringUpTimeout,
		fmt.Errorf("not ready within %s; see the logs in %s", bringUpTimeout, dir.Path("logs")))
	defer cancel()
	u := bringer{supervisor{dir, spec}, p, report}
	return u.startAll(ctx, waiting)
}

// bringer starts the components in an order that keeps two cores busy: images
// are imported while the control plane starts.
type bringer struct {
	supervisor
	probe  prober
	report func(string, ...any)
}

func (b bringer) startAll(ctx, waiting context.Context) error {
	if err := b.start(ctx, etcd(b.dir)); err != nil {
		return err
	}
	if err := b.start(ctx, containerd(b.dir)); err != nil {
		return err
	}
	if err := b.await(waiting, "etcd answers", b.probe.etcdReady); err != nil {
		return err
	}
	if err := b.start(ctx, apiServer(b.dir)); err != nil {
		return err
	}

	var imports sync.WaitGroup
	var importErr error
	imports.Go(func() { importErr = b.importImages(waiting) })

	if err := b.await(waiting, "the API server is ready", b.probe.apiServerReady); err != nil {
		return err
	}
	for _, c := range []component{controllerManager(b.dir), kubelet(b.dir), kubeProxy(b.dir), scheduler(b.dir)} {
		if err := b.start(ctx, c); err != nil {
			return err
		}
	}
	if err := b.applyAddons(waiting); err != nil {
		return err
	}
	if err := b.start(ctx, coreDNS(b.dir)); err != nil {
		return err
	}
	for _, step := range []struct {
		what  string
		ready func(context.Context) bool
	}{
		{"kube-proxy programs Services", b.probe.kubeProxyReady},
		{"pods can be made", b.probe.serviceAccountReady},
		{"CoreDNS answers", b.probe.dnsReady},
		{"the node is Ready", b.probe.nodeReady},
	} {
		if err := b.await(waiting, step.what, step.ready); err != nil {
			return err
		}
	}
	imports.Wait()
	return importErr
}

func (b bringer) await(ctx context.Context, what string, ready func(context.Context) bool) error {
	err := poll(ctx, probeInterval, func() (bool, error) { return ready(ctx), nil })
	if err != nil {
		return fmt.Errorf("wait until %s: %w", what, err)
	}
	b.report("%s", what)
	return nil
}

func (b bringer) importImages(ctx context.Context) error {
	connects := func(context.Context) bool {
		c, err := net.Dial("unix", containerdSocket)
		if err != nil {
			return false
		}
		return c.Close() == nil
	}
	if err := b.await(ctx, "containerd answers", connects); err != nil {
		return err
	}
	for _, archive := range b.spec.Archives {
		args := importArgs(archive)
		output, err := exec.CommandContext(ctx, b.spec.Binaries[binaries.Ctr], args...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("ctr %s: %w: %s", strings.Join(args, " "), err, output)
		}
	}
	b.report("images are imported")
	return nil
}

// importArgs are those of ctr for an import into the kubelet's images.
func importArgs(archive string) []string {
	return []string{"--address", containerdSocket, "--namespace", "k8s.io", "images", "import", archive}
}

// applyAddons tries again because the API server answers a little before it
// admits everything.
func (b bringer) applyAddons(ctx context.Context) error {
	var last error
	err := poll(ctx, 500*time.Millisecond, func() (bool, error) {
		output, err := exec.CommandContext(ctx, b.spec.Binaries[binaries.Kubectl],
			"--kubeconfig", b.dir.Path("config", adminUser+".kubeconfig"),
			"apply", "--validate=false", "-f", b.dir.Path("config", "addons.yaml")).CombinedOutput()
		if err != nil {
			last = fmt.Errorf("%w: %s", err, output)
		}
		return err == nil, nil
	})
	if err != nil {
		return errors.Join(fmt.Errorf("apply the addons: %w", err), last)
	}
	return nil
}
