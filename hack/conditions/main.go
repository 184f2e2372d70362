// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Command conditions writes the page of the conditions from the constants of the API and their comments.
// Run it from the root of the repository: go run ./hack/conditions
package main

import (
	"fmt"
	"os"
)

const (
	source = "api/v1alpha1/conditions.go"
	page   = "docs/conditions.md"
)

func main() {
	if err := generate(); err != nil {
		fmt.Fprintln(os.Stderr, "conditions:", err)
		os.Exit(1)
	}
}

func generate() error {
	content, err := os.ReadFile(source)
	if err != nil {
		return err
	}
	c, err := parse(source, content)
	if err != nil {
		return err
	}
	return os.WriteFile(page, []byte(markdown(c)), 0o644)
}
