// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package node

import (
	"bytes"
	"encoding/json"
	"os"

	"github.com/lockstead/lockstead/hack/cluster/internal/state"
)

// Spec says what a node runs. It is stored in the state folder.
type Spec struct {
	// Program is this program; a running node is replaced when it has changed.
	Program string `json:"program"`
	// Keep is the folder that stays visible where the node covers a folder of the
	// host that happens to hold it.
	Keep string `json:"keep"`
	// Binaries maps the names of package binaries to paths.
	Binaries map[string]string `json:"binaries"`
	// CNI is the folder of the network plugins.
	CNI string `json:"cni"`
	// Pause is the image of a pod's sandbox.
	Pause string `json:"pause"`
	// Archives are the image archives that are imported at the start.
	Archives []string `json:"archives"`
}

func specFile(dir state.Dir) string { return dir.Path("spec.json") }

// Save stores the spec.
func (s Spec) Save(dir state.Dir) error {
	content, err := s.encode()
	if err != nil {
		return err
	}
	return os.WriteFile(specFile(dir), content, 0o600)
}

// Saved tells whether the stored spec is this one.
func (s Spec) Saved(dir state.Dir) bool {
	stored, err := os.ReadFile(specFile(dir))
	if err != nil {
		return false
	}
	content, err := s.encode()
	return err == nil && bytes.Equal(stored, content)
}

func (s Spec) encode() ([]byte, error) { return json.MarshalIndent(s, "", "  ") }

func loadSpec(dir state.Dir) (Spec, error) {
	var s Spec
	content, err := os.ReadFile(specFile(dir))
	if err != nil {
		return s, err
	}
	return s, json.Unmarshal(content, &s)
}
