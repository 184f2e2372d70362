// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package golangci is idemlint as a module plugin of golangci-lint v2.
//
// Name it in .custom-gcl.yml, and build with golangci-lint custom:
//
//	version: v2.15.0
//	plugins:
//	  - module: github.com/lockstead/lockstead/pkg/idemlint
//	    import: github.com/lockstead/lockstead/pkg/idemlint/golangci
//	    version: v0.1.0
//
// Then enable it in .golangci.yaml:
//
//	linters:
//	  enable: [idemlint]
//	  settings:
//	    custom:
//	      idemlint: {type: module}
package golangci

import (
	"fmt"

	"github.com/golangci/plugin-module-register/register"
	"golang.org/x/tools/go/analysis"

	"github.com/lockstead/lockstead/pkg/idemlint"
)

// golangci-lint finds its plugins by what they register when they are linked in.
func init() { register.Plugin("idemlint", New) }

// plugin implements register.LinterPlugin.
type plugin struct{}

// New makes the plugin. It has no settings, and refuses some.
func New(settings any) (register.LinterPlugin, error) {
	if settings != nil {
		return nil, fmt.Errorf("idemlint has no settings, got %v", settings)
	}
	return plugin{}, nil
}

// BuildAnalyzers implements register.LinterPlugin.
func (plugin) BuildAnalyzers() ([]*analysis.Analyzer, error) {
	return []*analysis.Analyzer{idemlint.Analyzer}, nil
}

// GetLoadMode implements register.LinterPlugin.
func (plugin) GetLoadMode() string { return register.LoadModeTypesInfo }
