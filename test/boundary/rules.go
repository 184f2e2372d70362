// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package boundary

import (
	"fmt"
	"slices"
	"strings"
)

const (
	rootModule     = "github.com/lockstead/lockstead"
	libraryModule  = rootModule + "/pkg"
	frontModule    = rootModule + "/pkg/lockstead"
	adaptersModule = rootModule + "/pkg/adapters"
	lintModule     = rootModule + "/pkg/idemlint"
)

// goPackage is what the rules need to know about a package.
type goPackage struct {
	Path string
	// Deps are all packages that it needs, directly or not, without its tests.
	Deps []string
	// TestImports are what its tests import directly.
	TestImports []string
}

// within reports whether path is the module or package root, or lies below it.
func within(path, root string) bool { return path == root || strings.HasPrefix(path, root+"/") }

// isStandard reports whether path belongs to the standard library: those paths have no dot in their first element.
func isStandard(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return !strings.Contains(first, ".")
}

func isKubernetes(path string) bool {
	first, _, _ := strings.Cut(path, "/")
	return first == "k8s.io" || first == "sigs.k8s.io"
}

// isOperator reports whether path is a package of ours outside the library.
func isOperator(path string) bool { return within(path, rootModule) && !within(path, libraryModule) }

// violations judges one package of one of the library's modules. A sentence for each dependency that must not be.
func violations(p goPackage) []string {
	var found []string
	report := func(dep, rule string) { found = append(found, fmt.Sprintf("%s needs %s: %s", p.Path, dep, rule)) }
	for _, dep := range p.Deps {
		switch {
		case isOperator(dep):
			report(dep, "the library must not import the operator")
		case isKubernetes(dep) && !within(p.Path, frontModule):
			report(dep, "only module pkg/lockstead may depend on Kubernetes")
		case within(dep, frontModule) && !within(p.Path, frontModule):
			report(dep, "modules pkg and pkg/adapters must not depend on module pkg/lockstead")
		case within(dep, adaptersModule) && !within(p.Path, adaptersModule):
			report(dep, "modules pkg and pkg/lockstead must not depend on module pkg/adapters")
		case within(dep, lintModule) && !within(p.Path, lintModule):
			report(dep, "nothing depends on module pkg/idemlint, which looks at code and is no part of it")
		case within(p.Path, lintModule) && within(dep, libraryModule) && !within(dep, lintModule):
			report(dep, "module pkg/idemlint does without the library: it knows its names")
		case standardOnly(p.Path) && !isStandard(dep) && !within(dep, libraryModule):
			report(dep, "this package may use the standard library only")
		case strings.HasPrefix(dep, "testing") && !testSupport(p.Path) && isStandard(dep):
			report(dep, "test support must not be linked into applications")
		}
	}
	for _, dep := range p.TestImports {
		if isOperator(dep) || (isKubernetes(dep) && !within(p.Path, frontModule)) {
			report(dep, "the tests of the library must not import the operator or, outside module pkg/lockstead, Kubernetes")
		}
	}
	return found
}

// standardOnly lists the packages of the library's core.
func standardOnly(path string) bool {
	return slices.Contains([]string{
		libraryModule + "/binding",
		libraryModule + "/exclusive",
		libraryModule + "/lock",
		libraryModule + "/lock/clock",
		libraryModule + "/lock/driver",
		libraryModule + "/lock/memlock",
	}, path)
}

// testSupport reports whether the package exists for tests: by Go's convention its name, or that of a folder above it, ends in "test".
func testSupport(path string) bool {
	for element := range strings.SplitSeq(strings.TrimPrefix(path, libraryModule), "/") {
		if strings.HasSuffix(element, "test") {
			return true
		}
	}
	return false
}
