// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package golangci_test

import (
	"testing"

	"github.com/golangci/plugin-module-register/register"

	"github.com/lockstead/lockstead/pkg/idemlint"
	_ "github.com/lockstead/lockstead/pkg/idemlint/golangci"
)

func TestPluginIsRegistered(t *testing.T) {
	t.Parallel()
	newPlugin, err := register.GetPlugin("idemlint")
	if err != nil {
		t.Fatal(err)
	}
	plugin, err := newPlugin(nil)
	if err != nil {
		t.Fatal(err)
	}
	analyzers, err := plugin.BuildAnalyzers()
	if err != nil || len(analyzers) != 1 || analyzers[0] != idemlint.Analyzer {
		t.Errorf("BuildAnalyzers: %v, %v, want idemlint.Analyzer", analyzers, err)
	}
	// Without types the analysis would find nothing.
	if mode := plugin.GetLoadMode(); mode != register.LoadModeTypesInfo {
		t.Errorf("load mode %q, want %q", mode, register.LoadModeTypesInfo)
	}
	if _, err := newPlugin(map[string]any{"routes": 1}); err == nil {
		t.Error("settings that do not exist were accepted")
	}
}
