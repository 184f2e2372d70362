// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/streaming/pkg/httpstream"
	"k8s.io/streaming/pkg/httpstream/spdy"

	"github.com/lockstead/lockstead/api/v1alpha1"
	"github.com/lockstead/lockstead/pkg/binding"
	"github.com/lockstead/lockstead/pkg/lock/redislock/redistest"
)

// forwarder stands in for the API server and the kubelet behind it, with the protocol of port-forward over SPDY. The real ones are in test/e2e. A target ""
// is a port that nobody listens at.
func forwarder(t *testing.T, target string) (config *rest.Config, cut func()) {
	t.Helper()
	connections := make(chan httpstream.Connection, 16)
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if r.URL.Path != "/api/v1/namespaces/lockstead-system/pods/default-redis-0/portforward" {
			http.NotFound(w, r)
			return
		}
		if r.Method != http.MethodPost {
			// An API server that does not forward ports over WebSocket.
			http.Error(w, "unable to upgrade", http.StatusBadRequest)
			return
		}
		if _, err := httpstream.Handshake(r, w, []string{portforward.PortForwardProtocolV1Name}); err != nil {
			return
		}
		streams := make(chan httpstream.Stream, 2)
		connection := spdy.NewResponseUpgrader().UpgradeResponse(w, r, func(stream httpstream.Stream, _ <-chan struct{}) error {
			streams <- stream
			return nil
		})
		if connection == nil {
			return
		}
		defer func() { _ = connection.Close() }()
		connections <- connection
		serveForward(connection, streams, target)
	}))
	t.Cleanup(server.Close)
	return &rest.Config{Host: server.URL}, func() { _ = (<-connections).Close() }
}

func serveForward(connection httpstream.Connection, streams <-chan httpstream.Stream, target string) {
	var problems, data httpstream.Stream
	for problems == nil || data == nil {
		select {
		case s := <-streams:
			if s.Headers().Get(corev1.StreamType) == corev1.StreamTypeError {
				problems = s
			} else {
				data = s
			}
		case <-connection.CloseChan():
			return
		}
	}
	port := data.Headers().Get(corev1.PortHeader)
	conn, err := net.Dial("tcp", target)
	if target == "" || port != "6379" || err != nil {
		fmt.Fprintf(problems, "error forwarding port %s to pod x:\nconnection refused", port)
		_ = problems.Close()
		_ = data.Close()
		<-connection.CloseChan()
		return
	}
	defer conn.Close()
	go func() { _, _ = io.Copy(conn, data); _ = conn.Close() }()
	_, _ = io.Copy(data, conn)
}

func TestForwardedConnectionsAreConnections(t *testing.T) {
	echo, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer echo.Close()
	go func() {
		for {
			conn, err := echo.Accept()
			if err != nil {
				return
			}
			go func() { _, _ = io.Copy(conn, conn) }()
		}
	}()
	config, cut := forwarder(t, echo.Addr().String())
	conn, err := forward(t.Context(), config, "lockstead-system", "default-redis-0", 6379)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.WriteString(conn, "hello"); err != nil {
		t.Fatal(err)
	}
	got := make([]byte, 5)
	if _, err := io.ReadFull(conn, got); err != nil || string(got) != "hello" {
		t.Fatalf("it answers %q, %v", got, err)
	}
	if err := conn.SetReadDeadline(time.Unix(1, 0)); err != nil {
		t.Fatal(err)
	}
	if _, err := conn.Read(got); !isTimeout(err) {
		t.Errorf("after the deadline a read gives %v", err)
	}
	if err := conn.SetReadDeadline(time.Time{}); err != nil {
		t.Fatal(err)
	}
	cut()
	if _, err := conn.Read(got); !errors.Is(err, io.EOF) {
		t.Errorf("on a connection that was cut off a read gives %v", err)
	}
}

func isTimeout(err error) bool {
	timeout, ok := errors.AsType[net.Error](err)
	return ok && timeout.Timeout()
}

func TestForwardTellsWhyItEnded(t *testing.T) {
	config, _ := forwarder(t, "")
	conn, err := forward(t.Context(), config, "lockstead-system", "default-redis-0", 6379)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Read(make([]byte, 1)); err == nil || !strings.Contains(err.Error(), "connection refused") {
		t.Errorf("a read gives %v", err)
	}
	if _, err := forward(t.Context(), config, "lockstead-system", "another-0", 6379); err == nil {
		t.Error("a pod that does not exist was connected to")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := forward(ended, config, "lockstead-system", "default-redis-0", 6379); !errors.Is(err, context.Canceled) {
		t.Errorf("with an ended context it gives %v", err)
	}
}

// A managed server is reached through its pod, also by those who may not read its RedisInstance.
func TestAManagedServerIsReachedThroughItsPod(t *testing.T) {
	a := onRedis(t, redistest.Start(t, nil), environment.Namespace(t, nil), "billing")
	mustHold(t, a.locks(t), "order:17")
	config, _ := forwarder(t, a.binding.Redis.Address())
	c, err := newCluster(config, a.lns.Namespace, "")
	if err != nil {
		t.Fatal(err)
	}
	managed, b := a.lns.DeepCopy(), *a.binding
	managed.Status.InstanceRef = &v1alpha1.BoundInstance{Namespace: "lockstead-system", Name: "default"}
	server := *b.Redis
	server.Host, server.Port, b.Redis = "default-redis.lockstead-system.svc", 6379, &server
	s, err := c.openRedis(managed, &b)
	if err != nil {
		t.Fatal(err)
	}
	defer s.close()
	for held, err := range s.List(t.Context()) {
		if err != nil || held.Key != "order:17" {
			t.Fatalf("through the pod there is %+v, %v", held, err)
		}
		return
	}
	t.Error("through the pod no lock is seen")
}

func TestTheWayToAServer(t *testing.T) {
	managed := &v1alpha1.BoundInstance{Namespace: "ns", Name: "locks"}
	for _, tc := range []struct {
		host, address string
		instance      *v1alpha1.BoundInstance
		want          way
	}{
		{host: "locks-redis.ns.svc", instance: managed, want: way{namespace: "ns", pod: "locks-redis-0", port: 6379}},
		{host: "locks-redis.ns.svc.cluster.local", instance: managed, want: way{namespace: "ns", pod: "locks-redis-0", port: 6379}},
		{host: "locks-redis.ns.svcs.example.com", instance: managed, want: way{address: "locks-redis.ns.svcs.example.com:6379"}},
		{host: "redis.example.com", instance: managed, want: way{address: "redis.example.com:6379"}},
		{host: "redis.example.com", want: way{address: "redis.example.com:6379"}},
		{host: "locks-redis.ns.svc", instance: managed, address: "localhost:7000", want: way{address: "localhost:7000", given: true}},
	} {
		if got := wayTo(tc.instance, &binding.Redis{Host: tc.host, Port: 6379}, tc.address); got != tc.want {
			t.Errorf("the way to %s is %+v, want %+v", tc.host, got, tc.want)
		}
	}
}
