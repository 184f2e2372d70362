// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Command chart generates the parts of the Helm chart that would drift if they were kept by hand: the CRDs and the manager's
// rules, from what controller-gen wrote below config. Run it from the root of the repository: go run ./hack/chart
package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
)

func main() {
	if err := generate("config", "charts/lockstead/templates"); err != nil {
		fmt.Fprintln(os.Stderr, "chart:", err)
		os.Exit(1)
	}
}

// generate writes the generated templates and removes those whose source is gone.
func generate(config, templates string) error {
	sources, err := filepath.Glob(filepath.Join(config, "crd", "bases", "*.yaml"))
	if err != nil {
		return err
	}
	if len(sources) == 0 {
		return fmt.Errorf("%s has no CRDs: run 'make manifests'", filepath.Join(config, "crd", "bases"))
	}
	crds := filepath.Join(templates, "crds")
	if err := os.RemoveAll(crds); err != nil {
		return err
	}
	var problems []error
	for _, source := range sources {
		problems = append(problems, convert(source, filepath.Join(crds, filepath.Base(source)), crdTemplate))
	}
	problems = append(problems, convert(filepath.Join(config, "rbac", "role.yaml"), filepath.Join(templates, "rbac", "manager-role.yaml"), roleTemplate))
	return errors.Join(problems...)
}

func convert(source, destination string, template func(string) (string, error)) error {
	manifest, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	content, err := template(string(manifest))
	if err != nil {
		return fmt.Errorf("%s: %w", source, err)
	}
	if err := os.MkdirAll(filepath.Dir(destination), 0o755); err != nil {
		return err
	}
	return os.WriteFile(destination, []byte(content), 0o644)
}
