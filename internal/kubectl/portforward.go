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
	"strconv"
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/tools/portforward"
	"k8s.io/client-go/transport/spdy"
	"k8s.io/streaming/pkg/httpstream"
)

// forward connects to a port of a pod through the API server, as kubectl port-forward does, without a local port that others could use.
func forward(ctx context.Context, config *rest.Config, namespace, pod string, port int) (net.Conn, error) {
	dialer, err := forwardDialer(config, namespace, pod)
	if err != nil {
		return nil, err
	}
	type dialled struct {
		connection httpstream.Connection
		err        error
	}
	done := make(chan dialled, 1)
	go func() {
		connection, _, err := dialer.Dial(portforward.PortForwardProtocolV1Name)
		done <- dialled{connection, err}
	}()
	select {
	case d := <-done:
		if d.err != nil {
			return nil, fmt.Errorf("port-forward to pod %s/%s: %w", namespace, pod, d.err)
		}
		return newForwarded(d.connection, port)
	case <-ctx.Done():
		// The dialer takes no context.
		go func() {
			if d := <-done; d.err == nil {
				_ = d.connection.Close()
			}
		}()
		return nil, fmt.Errorf("port-forward to pod %s/%s: %w", namespace, pod, ctx.Err())
	}
}

// forwardDialer speaks WebSocket, and SPDY to API servers and proxies that do not know it.
func forwardDialer(config *rest.Config, namespace, pod string) (httpstream.Dialer, error) {
	// A stream lives longer than a request may take.
	config = rest.CopyConfig(config)
	config.Timeout = 0
	clientset, err := kubernetes.NewForConfig(config)
	if err != nil {
		return nil, fmt.Errorf("port-forward: %w", err)
	}
	url := clientset.CoreV1().RESTClient().Post().Resource("pods").Namespace(namespace).Name(pod).SubResource("portforward").URL()
	transport, upgrader, err := spdy.RoundTripperFor(config)
	if err != nil {
		return nil, fmt.Errorf("port-forward: %w", err)
	}
	older := spdy.NewDialerForStreaming(upgrader, &http.Client{Transport: transport}, http.MethodPost, url)
	newer, err := portforward.NewSPDYOverWebsocketDialerForStreaming(url, config)
	if err != nil {
		return nil, fmt.Errorf("port-forward: %w", err)
	}
	return portforward.NewFallbackDialerForStreaming(newer, older, func(err error) bool {
		return httpstream.IsUpgradeFailure(err) || httpstream.IsHTTPSProxyError(err)
	}), nil
}

// forwarded is a connection through the API server. The pipe gives it the deadlines that a stream lacks.
type forwarded struct {
	net.Conn // the user's end of the pipe
	inner    net.Conn
	stream   httpstream.Connection
	close    func() error

	mu sync.Mutex
	// refused is what the other side said before it ended.
	refused error
}

// wordsTimeout is how long a connection that has ended waits for the reason.
const wordsTimeout = time.Second

func newForwarded(connection httpstream.Connection, port int) (net.Conn, error) {
	headers := http.Header{}
	headers.Set(corev1.PortHeader, strconv.Itoa(port))
	headers.Set(corev1.PortForwardRequestIDHeader, "0")
	headers.Set(corev1.StreamType, corev1.StreamTypeError)
	problems, err := connection.CreateStream(headers)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("port-forward: %w", err), connection.Close())
	}
	// Nothing is ever written to it.
	_ = problems.Close()
	headers.Set(corev1.StreamType, corev1.StreamTypeData)
	data, err := connection.CreateStream(headers)
	if err != nil {
		return nil, errors.Join(fmt.Errorf("port-forward: %w", err), connection.Close())
	}
	outer, inner := net.Pipe()
	f := &forwarded{Conn: outer, inner: inner, stream: connection}
	f.close = sync.OnceValue(func() error { return errors.Join(outer.Close(), inner.Close(), connection.Close()) })
	told := make(chan struct{})
	go func() {
		defer close(told)
		if text, err := io.ReadAll(io.LimitReader(problems, 4096)); err == nil && len(text) > 0 {
			f.refuse(errors.New(oneLine(string(text))))
			_ = f.inner.Close()
		}
	}()
	go func() {
		_, _ = io.Copy(inner, data)
		// The words come on the other stream, which nobody is bound to end.
		ctx, cancel := context.WithTimeout(context.Background(), wordsTimeout)
		defer cancel()
		select {
		case <-told:
		case <-ctx.Done():
		}
		_ = connection.Close()
		_ = inner.Close()
	}()
	go func() {
		_, _ = io.Copy(data, inner)
		_ = connection.Close()
	}()
	return f, nil
}

func (f *forwarded) refuse(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.refused = err
}

// Read implements net.Conn. Where the other side said why it ended, the error says it.
func (f *forwarded) Read(p []byte) (int, error) {
	n, err := f.Conn.Read(p)
	if err == nil {
		return n, nil
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.refused != nil && errors.Is(err, io.EOF) {
		return n, f.refused
	}
	return n, err //nolint:wrapcheck // A net.Conn gives io.EOF as it is.
}

// Close implements net.Conn.
func (f *forwarded) Close() error { return f.close() }
