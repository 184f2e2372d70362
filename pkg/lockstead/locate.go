// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lockstead

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/lockstead/lockstead/pkg/binding"
)

// Where Open looks for the binding.
const (
	// EnvBinding is the environment variable with the folder of the binding.
	EnvBinding = "LOCKSTEAD_BINDING"
	// EnvServiceBindingRoot is the environment variable of the Service Binding specification: a folder with a folder for each binding, of which the one of Provider "lockstead" is taken.
	EnvServiceBindingRoot = "SERVICE_BINDING_ROOT"
	// DefaultBindingDir is the folder when neither variable is set.
	DefaultBindingDir = "/var/run/lockstead"
)

// locate finds the folder of the binding. It does not read it.
func locate(given string, getenv func(string) string) (string, error) {
	if given != "" {
		return given, nil
	}
	if dir := getenv(EnvBinding); dir != "" {
		return dir, nil
	}
	root := getenv(EnvServiceBindingRoot)
	if root == "" {
		return DefaultBindingDir, nil
	}
	entries, err := os.ReadDir(root)
	if err != nil {
		return "", fmt.Errorf("lockstead: look for the binding under $%s: %w; mount bindings there, or name the folder of one in $%s",
			EnvServiceBindingRoot, err, EnvBinding)
	}
	var found []string
	for _, entry := range entries {
		dir := filepath.Join(root, entry.Name())
		provider, err := os.ReadFile(filepath.Join(dir, binding.KeyProvider))
		if err == nil && strings.TrimRight(string(provider), "\r\n") == binding.Provider {
			found = append(found, dir)
		}
	}
	switch len(found) {
	case 0:
		return DefaultBindingDir, nil
	case 1:
		return found[0], nil
	default:
		return "", fmt.Errorf("lockstead: $%s has %d bindings of provider %q (%s): name one in $%s or Options.BindingDir",
			EnvServiceBindingRoot, len(found), binding.Provider, strings.Join(found, ", "), EnvBinding)
	}
}
