// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"strings"
	"sync"
)

// makeNetwork gives the node an address, a default route, without which the
// kernel refuses to send to a Service before the firewall has rewritten the
// address, and the bridge of its pods. Nothing leads out of the namespace.
func makeNetwork(ctx context.Context) error {
	commands := []string{
		"link set lo up",
		// A pair with both ends in here is a device that is always up.
		"link add node0 type veth peer name node0-peer",
		"link set node0-peer up",
		"link set node0 up",
		"address add " + nodeNet.String() + " dev node0",
		"route add default dev node0",
		"link add " + bridgeName + " type bridge",
		"address add " + bridgeNet.String() + " dev " + bridgeName,
		"link set " + bridgeName + " up",
	}
	for _, c := range commands {
		output, err := exec.CommandContext(ctx, "ip", strings.Fields(c)...).CombinedOutput()
		if err != nil {
			return fmt.Errorf("ip %s: %w: %s", c, err, output)
		}
	}
	if err := os.WriteFile("/proc/sys/net/ipv4/ip_forward", []byte("1"), 0); err != nil {
		return err
	}
	// Packets between two pods cross the bridge only; kube-proxy's rules must see
	// them all the same, or an answer keeps the address of the pod behind the Service.
	const bridged = "/proc/sys/net/bridge/bridge-nf-call-iptables"
	err := os.WriteFile(bridged, []byte("1"), 0)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("%s is missing: load the kernel module br_netfilter", bridged)
	}
	return err
}

// forward carries each connection that the listener accepts, which may belong to
// another network namespace, to the address in this one.
func forward(ctx context.Context, listener net.Listener, address string) error {
	for {
		outside, err := listener.Accept()
		if err != nil {
			return fmt.Errorf("accept connections from the host: %w", err)
		}
		go func() {
			defer outside.Close()
			inside, err := (&net.Dialer{}).DialContext(ctx, "tcp", address)
			if err != nil {
				// The API server is not up yet; a client sees a closed connection and tries again.
				return
			}
			defer inside.Close()
			var both sync.WaitGroup
			both.Go(func() { pipe(inside, outside) })
			both.Go(func() { pipe(outside, inside) })
			both.Wait()
		}()
	}
}

// pipe copies one direction and passes its end on, so that the other direction
// can still finish. Errors end the connection, which is all a proxy can do.
func pipe(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	if tcp, ok := to.(*net.TCPConn); ok {
		_ = tcp.CloseWrite()
	}
}
