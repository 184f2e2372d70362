// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"strings"
)

const (
	release           = "lockstead"
	operatorNamespace = "lockstead-system"
	clusterProgram    = "hack/cluster/run"
)

// clusterUp brings up the cluster with the images loaded, and gives its kubeconfig.
func clusterUp(ctx context.Context, config config) (string, error) {
	// The programs are built while the cluster starts.
	built := make(chan error, 1)
	go func() { built <- command(ctx, "make", "--no-print-directory", "build") }()
	err := command(ctx, clusterProgram, "up")
	if err := errors.Join(err, <-built); err != nil {
		return "", err
	}
	kubeconfig, err := output(ctx, clusterProgram, "kubeconfig")
	if err != nil {
		return "", err
	}
	for name, dockerfile := range map[string]string{"lockstead": "Dockerfile", "lockstead-worker": "examples/worker/Dockerfile"} {
		if err := command(ctx, clusterProgram, "image", "build-load", dockerfile, ".", config.image(name)); err != nil {
			return kubeconfig, err
		}
	}
	return kubeconfig, nil
}

func (c config) image(name string) string { return c.registry + "/" + name + ":" + c.tag }

// clusterDown removes the cluster; from a cluster that is the user's, what the demo put there.
func clusterDown(ctx context.Context, config config, kubeconfig string) error {
	switch {
	case config.keep:
		return nil
	case !config.existing:
		return command(ctx, clusterProgram, "down")
	}
	var problems []error
	for _, p := range phases(config) {
		problems = append(problems, command(ctx, clusterProgram, "kubectl", "delete", "namespace", p.namespace, "--ignore-not-found"))
	}
	problems = append(problems,
		helm(ctx, kubeconfig, "uninstall", release, "--namespace", operatorNamespace, "--wait", "--ignore-not-found"),
		command(ctx, clusterProgram, "kubectl", "delete", "namespace", operatorNamespace, "--ignore-not-found"))
	return errors.Join(problems...)
}

// helmInstall installs the chart, or upgrades it to other values.
func helmInstall(ctx context.Context, config config, kubeconfig string, values ...string) error {
	args := []string{
		"upgrade", "--install", release, "charts/lockstead", "--namespace", operatorNamespace, "--create-namespace",
		"--wait", "--timeout", "3m", "--set", "image.repository=" + config.registry + "/lockstead,image.tag=" + config.tag,
	}
	for _, value := range values {
		args = append(args, "--set", value)
	}
	return helm(ctx, kubeconfig, args...)
}

func helm(ctx context.Context, kubeconfig string, args ...string) error {
	program, err := output(ctx, "hack/helm.sh")
	if err != nil {
		return err
	}
	if kubeconfig != "" {
		args = append(args, "--kubeconfig", kubeconfig)
	}
	return quiet(ctx, program, args...)
}

// command runs a program whose messages are for the user.
func command(ctx context.Context, name string, args ...string) error {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return nil
}

// quiet runs a program whose messages matter only when it fails.
func quiet(ctx context.Context, name string, args ...string) error {
	messages, err := exec.CommandContext(ctx, name, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, messages)
	}
	return nil
}

// output runs a program for the one line that it prints.
func output(ctx context.Context, name string, args ...string) (string, error) {
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Stderr = os.Stderr
	printed, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return string(bytes.TrimSpace(printed)), nil
}
