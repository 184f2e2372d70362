// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package debian installs the Debian packages that the local cluster needs and
// that are missing. On other systems it names them.
package debian

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// Package is a Debian package and the file that tells that what it brings is there.
type Package struct {
	Name string
	// Files are alternatives; one without a slash is looked up in PATH.
	Files []string
}

// CNIFolders are where distributions put the network plugins.
var CNIFolders = []string{"/usr/lib/cni", "/opt/cni/bin", "/usr/libexec/cni"}

// Node lists what a node needs.
func Node() []Package {
	var bridges []string
	for _, folder := range CNIFolders {
		bridges = append(bridges, filepath.Join(folder, "bridge"))
	}
	return []Package{
		{"runc", []string{"runc"}},
		{"containernetworking-plugins", bridges},
		{"iptables", []string{"iptables"}},
		{"conntrack", []string{"conntrack"}},
		{"iproute2", []string{"ip"}},
		{"util-linux", []string{"nsenter"}},
		{"libc-bin", []string{"ldd"}},
		// The server's package would start a service; this one has the binary too.
		{"redis-tools", []string{"/usr/bin/redis-check-rdb"}},
	}
}

// Build lists what building an image from a Dockerfile needs.
func Build() []Package { return []Package{{"buildah", []string{"buildah"}}} }

// Ensure installs what is missing.
func Ensure(ctx context.Context, packages []Package) error {
	missing := lacking(packages)
	if len(missing) == 0 {
		return nil
	}
	names := strings.Join(missing, " ")
	if _, err := exec.LookPath("apt-get"); err != nil || os.Geteuid() != 0 {
		return fmt.Errorf("missing: install what Debian has in the packages %s", names)
	}
	fmt.Fprintln(os.Stderr, "installing", names)
	if install(ctx, missing) != nil {
		// The lists may be missing or old.
		if err := apt(ctx, "update"); err != nil {
			return err
		}
		if err := install(ctx, missing); err != nil {
			return err
		}
	}
	if still := lacking(packages); len(still) > 0 {
		return fmt.Errorf("still missing after their installation: %s", strings.Join(still, " "))
	}
	return nil
}

func lacking(packages []Package) []string {
	var missing []string
	for _, p := range packages {
		if !present(p) {
			missing = append(missing, p.Name)
		}
	}
	return missing
}

func present(p Package) bool {
	for _, file := range p.Files {
		var err error
		if strings.Contains(file, "/") {
			_, err = os.Stat(file)
		} else {
			err = lookup(file)
		}
		if err == nil {
			return true
		}
	}
	return false
}

// lookup looks where root's programs are, too: PATH does not always name it.
func lookup(program string) error {
	_, err := exec.LookPath(program)
	for _, folder := range []string{"/usr/sbin", "/sbin"} {
		if err == nil {
			break
		}
		_, err = os.Stat(filepath.Join(folder, program))
	}
	return err
}

func install(ctx context.Context, names []string) error {
	return apt(ctx, append([]string{"install", "--yes", "--no-install-recommends"}, names...)...)
}

func apt(ctx context.Context, args ...string) error {
	cmd := exec.CommandContext(ctx, "apt-get", append([]string{"--quiet", "--quiet"}, args...)...)
	cmd.Env = append(os.Environ(), "DEBIAN_FRONTEND=noninteractive")
	cmd.Stdout, cmd.Stderr = os.Stderr, os.Stderr
	if err := cmd.Run(); err != nil {
		return fmt.Errorf("apt-get %s: %w", strings.Join(args, " "), err)
	}
	return nil
}

// CNI returns the folder of the network plugins.
func CNI() (string, error) {
	for _, folder := range CNIFolders {
		if _, err := os.Stat(filepath.Join(folder, "bridge")); err == nil {
			return folder, nil
		}
	}
	return "", fmt.Errorf("no CNI plugin bridge in %s", strings.Join(CNIFolders, ", "))
}
