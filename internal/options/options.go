// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package options are the flags of the operator.
package options

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"strings"

	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/validation"
)

// Options are what the operator was started with.
type Options struct {
	// MetricsAddress is where metrics are served over HTTPS; "0" is nowhere. Defaults to ":8443".
	MetricsAddress string
	// MetricsCertDir has tls.crt and tls.key for that; they are read anew when they change. Defaults to none: a certificate that signs itself.
	MetricsCertDir string
	// ProbeAddress is where /healthz and /readyz are served. Defaults to ":8081".
	ProbeAddress string
	// LeaderElect lets one of several operators act. Defaults to false.
	LeaderElect bool
	// LeaderElectionNamespace has the Lease of that election. Defaults to the namespace that the operator runs in.
	LeaderElectionNamespace string
	// DefaultInstance keeps the locks of LockNamespaces without an instanceRef. Defaults to none: those get Leases.
	DefaultInstance types.NamespacedName
	// OperatorNamespace and OperatorLabels are those of the operator's own pods, which the network policies of managed servers admit. Both or neither.
	// Defaults to neither: the operator runs outside of the cluster.
	OperatorNamespace string
	OperatorLabels    map[string]string
	// LogLevel is debug, info or error. Defaults to info.
	LogLevel slog.Level
	// ShowVersion prints the version and ends. Defaults to false.
	ShowVersion bool
}

// Parse reads the flags of a command line without its first word. Help goes to output, with the error flag.ErrHelp.
func Parse(arguments []string, output io.Writer) (Options, error) {
	var o Options
	flags := flag.NewFlagSet("manager", flag.ContinueOnError)
	flags.SetOutput(output)
	flags.StringVar(&o.MetricsAddress, "metrics-bind-address", ":8443", "where to serve metrics over HTTPS, to those whom RBAC lets read /metrics; 0 is nowhere")
	flags.StringVar(&o.MetricsCertDir, "metrics-cert-dir", "", "folder with tls.crt and tls.key for the metrics; without it the certificate signs itself")
	flags.StringVar(&o.ProbeAddress, "health-probe-bind-address", ":8081", "where to serve /healthz and /readyz")
	flags.BoolVar(&o.LeaderElect, "leader-elect", false, "let one of several operators act")
	flags.StringVar(&o.LeaderElectionNamespace, "leader-election-namespace", "", "namespace of the election's Lease (default: the one that the operator runs in)")
	flags.BoolVar(&o.ShowVersion, "version", false, "print the version and end")
	instance := flags.String("default-instance", "", "namespace/name of the RedisInstance for LockNamespaces without an instanceRef; without it they get Leases")
	flags.StringVar(&o.OperatorNamespace, "operator-namespace", "", "namespace of the operator's own pods, which the network policies of managed servers admit")
	ownLabels := flags.String("operator-labels", "", "labels of the operator's own pods, as key=value,key=value; belongs to --operator-namespace")
	level := flags.String("log-level", "info", "debug, info or error")
	if err := flags.Parse(arguments); err != nil {
		return Options{}, fmt.Errorf("flags: %w", err)
	}
	if flags.NArg() > 0 {
		return Options{}, fmt.Errorf("flags: unexpected argument %q", flags.Arg(0))
	}
	var err error
	if o.DefaultInstance, err = parseInstance(*instance); err != nil {
		return Options{}, fmt.Errorf("flag --default-instance: %w", err)
	}
	if o.OperatorLabels, err = parseLabels(*ownLabels); err != nil {
		return Options{}, fmt.Errorf("flag --operator-labels: %w", err)
	}
	if (o.OperatorNamespace == "") != (len(o.OperatorLabels) == 0) {
		return Options{}, errors.New("flags --operator-namespace and --operator-labels belong together: set both or neither")
	}
	if o.LogLevel, err = parseLevel(*level); err != nil {
		return Options{}, fmt.Errorf("flag --log-level: %w", err)
	}
	return o, nil
}

func parseInstance(value string) (types.NamespacedName, error) {
	if value == "" {
		return types.NamespacedName{}, nil
	}
	namespace, name, _ := strings.Cut(value, "/")
	problems := append(validation.IsDNS1123Label(namespace), validation.IsDNS1123Label(name)...)
	if len(problems) > 0 {
		return types.NamespacedName{}, fmt.Errorf("%q is not namespace/name, such as lock-system/locks", value)
	}
	return types.NamespacedName{Namespace: namespace, Name: name}, nil
}

func parseLabels(value string) (map[string]string, error) {
	if value == "" {
		return nil, nil
	}
	set, err := labels.ConvertSelectorToLabelsMap(value)
	if err != nil {
		return nil, fmt.Errorf("%q is not key=value,key=value: %w", value, err)
	}
	return set, nil
}

func parseLevel(value string) (slog.Level, error) {
	switch value {
	case "debug":
		return slog.LevelDebug, nil
	case "info":
		return slog.LevelInfo, nil
	case "error":
		return slog.LevelError, nil
	default:
		return 0, errors.New("write debug, info or error")
	}
}
