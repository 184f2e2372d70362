// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package testcluster

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Names that the demo and the tests use.
const (
	Release           = "lockstead"
	OperatorNamespace = "lockstead-system"
	// InstanceName is the chart's default RedisInstance.
	InstanceName = "default"

	clusterProgram = "hack/cluster/run"
)

// Config is what the environment says.
type Config struct {
	// Root is the top folder of the checkout, as an absolute path.
	Root string
	// Existing: the cluster is the user's, at KUBECONFIG; its nodes must be able to pull the images.
	Existing bool
	// Keep leaves the cluster, or in an existing one the release and the namespaces, for a look around.
	Keep bool
	// Registry and Tag name the images.
	Registry, Tag string
}

// ConfigFromEnvironment reads CLUSTER, KEEP, IMAGE_REGISTRY and IMAGE_TAG. Root is the top folder of the checkout, as an absolute path.
func ConfigFromEnvironment(root string, getenv func(string) string) Config {
	fallback := func(name, value string) string {
		if given := getenv(name); given != "" {
			return given
		}
		return value
	}
	return Config{
		Root:     root,
		Existing: getenv("CLUSTER") == "existing",
		Keep:     !strings.Contains("|0|false|no|", "|"+strings.ToLower(fallback("KEEP", "0"))+"|"),
		Registry: fallback("IMAGE_REGISTRY", "localhost"),
		Tag:      fallback("IMAGE_TAG", "dev"),
	}
}

// Image is the full name of one of the product's images.
func (c Config) Image(name string) string { return c.Registry + "/" + name + ":" + c.Tag }

// Cluster is a cluster that runs.
type Cluster struct {
	*Kube

	config Config
}

// Up brings up the cluster with the images loaded. On an error the Cluster is not nil if there may be something to take down.
func Up(ctx context.Context, config Config) (*Cluster, error) {
	c := &Cluster{config: config}
	// The programs are built while the cluster starts.
	built := make(chan error, 1)
	go func() { built <- c.run(ctx, "make", "--no-print-directory", "build") }()
	err := c.run(ctx, clusterProgram, "up")
	if err := errors.Join(err, <-built); err != nil {
		return c, err
	}
	kubeconfig, err := c.output(ctx, clusterProgram, "kubeconfig")
	if err != nil {
		return c, err
	}
	if c.Kube, err = Connect(kubeconfig); err != nil {
		return c, err
	}
	for name, dockerfile := range map[string]string{"lockstead": "Dockerfile", "lockstead-worker": "examples/worker/Dockerfile"} {
		if err := c.run(ctx, clusterProgram, "image", "build-load", dockerfile, ".", config.Image(name)); err != nil {
			return c, err
		}
	}
	return c, nil
}

// Down removes the cluster; from a cluster that is the user's, the release and the namespaces that were put there.
func (c *Cluster) Down(ctx context.Context, namespaces ...string) error {
	switch {
	case c.config.Keep:
		return nil
	case !c.config.Existing:
		return c.run(ctx, clusterProgram, "down")
	}
	var problems []error
	for _, namespace := range namespaces {
		problems = append(problems, c.DeleteNamespace(ctx, namespace))
	}
	problems = append(problems, c.Uninstall(ctx), c.DeleteNamespace(ctx, OperatorNamespace))
	return errors.Join(problems...)
}

// Install installs the chart, or upgrades it to other values.
func (c *Cluster) Install(ctx context.Context, values ...string) error {
	args := []string{
		"upgrade", "--install", Release, "charts/lockstead", "--namespace", OperatorNamespace, "--create-namespace",
		"--wait", "--timeout", "3m", "--set", "image.repository=" + c.config.Registry + "/lockstead,image.tag=" + c.config.Tag,
	}
	for _, value := range values {
		args = append(args, "--set", value)
	}
	return c.helm(ctx, args...)
}

// Uninstall removes the release. The CRDs and the default RedisInstance stay.
func (c *Cluster) Uninstall(ctx context.Context) error {
	return c.helm(ctx, "uninstall", Release, "--namespace", OperatorNamespace, "--wait", "--ignore-not-found")
}

// RedisValues asks the chart for a default RedisInstance that every namespace may use.
func (c *Cluster) RedisValues(ctx context.Context) ([]string, error) {
	values := []string{
		"defaultRedisInstance.enabled=true",
		"defaultRedisInstance.spec.mode=Managed",
		"defaultRedisInstance.spec.managed.engine=Redis",
		"defaultRedisInstance.spec.allowedNamespaces.from=All",
	}
	image, err := c.RedisImage(ctx)
	if err != nil || image == "" {
		return values, err
	}
	return append(values, "defaultRedisInstance.spec.managed.image="+image), nil
}

// RedisImage is the image of the Redis server that the local cluster has. It is empty in a cluster that is the user's, which pulls the usual one.
func (c *Cluster) RedisImage(ctx context.Context) (string, error) {
	if c.config.Existing {
		return "", nil
	}
	return c.output(ctx, clusterProgram, "image", "redis")
}

// NoRedisValues takes the default RedisInstance out of the operator's settings.
func NoRedisValues() []string { return []string{"defaultRedisInstance.enabled=false"} }

// Kubectl runs kubectl and returns what it prints.
func (c *Cluster) Kubectl(ctx context.Context, args ...string) (string, error) {
	return c.output(ctx, clusterProgram, append([]string{"kubectl"}, args...)...)
}

// Show runs kubectl for a person to read.
func (c *Cluster) Show(ctx context.Context, args ...string) error {
	return c.run(ctx, clusterProgram, append([]string{"kubectl"}, args...)...)
}

// DeleteNamespace deletes a namespace and waits until it is gone.
func (c *Cluster) DeleteNamespace(ctx context.Context, namespace string) error {
	_, err := c.Kubectl(ctx, "delete", "namespace", namespace, "--ignore-not-found")
	return err
}

func (c *Cluster) helm(ctx context.Context, args ...string) error {
	program, err := c.output(ctx, "hack/helm.sh")
	if err != nil {
		return err
	}
	if c.Kube != nil && c.Kubeconfig != "" {
		args = append(args, "--kubeconfig", c.Kubeconfig)
	}
	messages, err := c.command(ctx, program, args...).CombinedOutput()
	if err != nil {
		return fmt.Errorf("%s %s: %w\n%s", program, strings.Join(args, " "), err, messages)
	}
	return nil
}

// command is a program that runs in the top folder; names of the project's own programs are relative to it.
func (c *Cluster) command(ctx context.Context, name string, args ...string) *exec.Cmd {
	if strings.Contains(name, "/") && !filepath.IsAbs(name) {
		name = filepath.Join(c.config.Root, name)
	}
	cmd := exec.CommandContext(ctx, name, args...)
	cmd.Dir = c.config.Root
	return cmd
}

// run runs a program whose messages are for the user.
func (c *Cluster) run(ctx context.Context, name string, args ...string) error {
	cmd := c.command(ctx, name, args...)
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("%s %s: %w", name, strings.Join(args, " "), err)
	}
	return nil
}

// output runs a program for what it prints.
func (c *Cluster) output(ctx context.Context, name string, args ...string) (string, error) {
	var messages strings.Builder
	cmd := c.command(ctx, name, args...)
	cmd.Stderr = &messages
	printed, err := cmd.Output()
	if err != nil {
		return "", fmt.Errorf("%s %s: %w\n%s", name, strings.Join(args, " "), err, messages.String())
	}
	return strings.TrimSpace(string(printed)), nil
}
