// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package leaselock

import (
	"net"
	"net/http"
	"time"

	coordinationv1client "k8s.io/client-go/kubernetes/typed/coordination/v1"
	"k8s.io/client-go/rest"
	"k8s.io/client-go/transport"
)

// newLeases makes the client for the Leases of a namespace. Closer holds its connections. Traced tells whether the transport is known to report the connections that it takes.
func newLeases(config *rest.Config, namespace string) (leases coordinationv1client.LeaseInterface, closer http.RoundTripper, traced bool, err error) {
	own := rest.CopyConfig(config)
	own.QPS, own.Burst, own.RateLimiter = -1, 0, nil
	own.Timeout = 0
	own.ContentType = "application/vnd.kubernetes.protobuf"
	own.AcceptContentTypes = "application/vnd.kubernetes.protobuf,application/json"
	if own.UserAgent == "" {
		own.UserAgent = rest.DefaultKubernetesUserAgent() + "/lockstead"
	}
	settings, err := own.TransportConfig()
	if err != nil {
		return nil, nil, false, err
	}
	traced = settings.Transport == nil
	if traced {
		isolate(settings)
	}
	// The innermost transport, under the wrappers of the config, is what holds the connections. One that was handed in is not ours to close.
	settings.WrapTransport = transport.Wrappers(func(inner http.RoundTripper) http.RoundTripper {
		if traced {
			closer = inner
		}
		return inner
	}, settings.WrapTransport)
	roundTripper, err := transport.New(settings)
	if err != nil {
		return nil, nil, false, err
	}
	client, err := coordinationv1client.NewForConfigAndClient(own, &http.Client{Transport: decidesRetriesItself{roundTripper}})
	if err != nil {
		return nil, nil, false, err
	}
	return client.Leases(namespace), closer, traced, nil
}

// isolate keeps the transport from being shared with other clients of the process, and sets HTTP/1.1: there a request whose answer is
// late takes its connection with it, while over HTTP/2 all later renewals would queue up on the same dead connection.
func isolate(settings *transport.Config) {
	settings.TLS.NextProtos = []string{"http/1.1"}
	dial := (&net.Dialer{
		Timeout:         10 * time.Second,
		KeepAliveConfig: net.KeepAliveConfig{Enable: true, Idle: 10 * time.Second, Interval: 5 * time.Second, Count: 3},
	}).DialContext
	if settings.DialHolder != nil {
		dial = settings.DialHolder.Dial
	}
	// client-go shares transports between equal configs; the holder's address makes this one different.
	settings.DialHolder = &transport.DialHolder{Dial: dial}
}

// decidesRetriesItself takes away the header on which client-go repeats a request by itself: a repeated create or update would hide what became
// of the first one.
type decidesRetriesItself struct{ next http.RoundTripper }

func (t decidesRetriesItself) RoundTrip(request *http.Request) (*http.Response, error) {
	response, err := t.next.RoundTrip(request)
	if response != nil {
		response.Header.Del("Retry-After")
	}
	return response, err
}
