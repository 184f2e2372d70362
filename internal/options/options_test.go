// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package options

import (
	"errors"
	"flag"
	"io"
	"log/slog"
	"reflect"
	"strings"
	"testing"

	"k8s.io/apimachinery/pkg/types"
)

func TestParse(t *testing.T) {
	t.Parallel()
	defaults := Options{MetricsAddress: ":8443", ProbeAddress: ":8081", LogLevel: slog.LevelInfo}
	with := func(change func(*Options)) Options {
		o := defaults
		change(&o)
		return o
	}
	for name, tc := range map[string]struct {
		arguments string
		want      Options
		wantError string
	}{
		"nothing":          {"", defaults, ""},
		"addresses":        {"--metrics-bind-address=0 --health-probe-bind-address=:1", with(func(o *Options) { o.MetricsAddress, o.ProbeAddress = "0", ":1" }), ""},
		"leader election":  {"--leader-elect --leader-election-namespace=a", with(func(o *Options) { o.LeaderElect, o.LeaderElectionNamespace = true, "a" }), ""},
		"default instance": {"--default-instance=a/b", with(func(o *Options) { o.DefaultInstance = types.NamespacedName{Namespace: "a", Name: "b"} }), ""},
		"certificates":     {"--metrics-cert-dir=/certs", with(func(o *Options) { o.MetricsCertDir = "/certs" }), ""},
		"debug":            {"--log-level=debug", with(func(o *Options) { o.LogLevel = slog.LevelDebug }), ""},
		"version":          {"--version", with(func(o *Options) { o.ShowVersion = true }), ""},
		"own pods": {"--operator-namespace=a --operator-labels=b=c,d/e=f", with(func(o *Options) {
			o.OperatorNamespace, o.OperatorLabels = "a", map[string]string{"b": "c", "d/e": "f"}
		}), ""},
		"no labels":         {"--operator-namespace=a", Options{}, "belong together"},
		"no namespace":      {"--operator-labels=b=c", Options{}, "belong together"},
		"no label":          {"--operator-namespace=a --operator-labels=b", Options{}, "not key=value"},
		"only a name":       {"--default-instance=b", Options{}, "not namespace/name"},
		"too many parts":    {"--default-instance=a/b/c", Options{}, "not namespace/name"},
		"empty name":        {"--default-instance=a/", Options{}, "not namespace/name"},
		"unknown log level": {"--log-level=trace", Options{}, "write debug, info or error"},
		"unknown flag":      {"--nope", Options{}, "-nope"},
		"a word":            {"serve", Options{}, `unexpected argument "serve"`},
	} {
		got, err := Parse(strings.Fields(tc.arguments), io.Discard)
		if (err != nil) != (tc.wantError != "") || (err != nil && !strings.Contains(err.Error(), tc.wantError)) {
			t.Errorf("%s: error is %v, want %q", name, err, tc.wantError)
		}
		if !reflect.DeepEqual(got, tc.want) {
			t.Errorf("%s: got %+v", name, got)
		}
	}
	if _, err := Parse([]string{"--help"}, io.Discard); !errors.Is(err, flag.ErrHelp) {
		t.Errorf("--help: error is %v", err)
	}
}
