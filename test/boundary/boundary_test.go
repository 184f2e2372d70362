// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package boundary

import (
	"encoding/json"
	"errors"
	"io"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

// repository is the root of the work tree, seen from this package.
const repository = "../.."

func TestLibraryKeepsItsBoundaries(t *testing.T) {
	t.Parallel()
	for dir, module := range map[string]string{"pkg": libraryModule, "pkg/adapters": adaptersModule, "pkg/idemlint": lintModule, "pkg/lockstead": frontModule} {
		packages := listPackages(t, dir)
		if len(packages) == 0 {
			t.Fatalf("module %s has no packages: the test looks in the wrong place", dir)
		}
		for _, p := range packages {
			if !within(p.Path, module) {
				t.Fatalf("package %s was listed for module %s", p.Path, module)
			}
			for _, violation := range violations(p) {
				t.Error(violation)
			}
		}
	}
}

// An importer of module pkg ignores its replace lines, so what builds only with them is broken for everybody else.
func TestLibraryModuleHasNoReplace(t *testing.T) {
	t.Parallel()
	module := readModule(t, "pkg")
	if len(module.Replace) > 0 {
		t.Errorf("pkg/go.mod has replace lines: %+v", module.Replace)
	}
	for _, require := range module.Require {
		if isKubernetes(require.Path) || within(require.Path, rootModule) {
			t.Errorf("pkg/go.mod requires %s: it forces that version on applications that only use Redis locks", require.Path)
		}
	}
}

// "go test work" covers what go.work lists: a module that is missing there would never be tested.
func TestWorkspaceListsEveryProductModule(t *testing.T) {
	t.Parallel()
	var work struct{ Use []struct{ DiskPath string } }
	decode(t, goCommand(t, ".", "work", "edit", "-json"), &work)
	var listed []string
	for _, use := range work.Use {
		listed = append(listed, filepath.Clean(use.DiskPath))
	}
	slices.Sort(listed)
	if found := productModules(t); !slices.Equal(listed, found) {
		t.Errorf("go.work lists the modules %q, the tree has %q; only modules below hack may be left out", listed, found)
	}
}

// productModules finds the folders with a go.mod, except the tools below hack, which are not part of the product.
func productModules(t *testing.T) []string {
	t.Helper()
	var found []string
	err := filepath.WalkDir(repository, func(path string, entry fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		dir, err := filepath.Rel(repository, path)
		if err != nil {
			return err
		}
		if entry.IsDir() && (dir == "hack" || entry.Name() == "testdata" || entry.Name() == ".git" || entry.Name() == "node_modules") {
			return filepath.SkipDir
		}
		if entry.Name() == "go.mod" {
			found = append(found, filepath.Dir(dir))
		}
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	slices.Sort(found)
	return found
}

func listPackages(t *testing.T, dir string) []goPackage {
	t.Helper()
	decoder := json.NewDecoder(strings.NewReader(goCommand(t, dir, "list", "-json=ImportPath,Deps,TestImports,XTestImports", "./...")))
	var packages []goPackage
	for {
		var listed struct {
			ImportPath                      string
			Deps, TestImports, XTestImports []string
		}
		if err := decoder.Decode(&listed); errors.Is(err, io.EOF) {
			return packages
		} else if err != nil {
			t.Fatal(err)
		}
		packages = append(packages, goPackage{
			Path:        listed.ImportPath,
			Deps:        listed.Deps,
			TestImports: append(listed.TestImports, listed.XTestImports...),
		})
	}
}

type moduleFile struct {
	Require []struct{ Path string }
	Replace []struct{ Old, New struct{ Path string } }
}

func readModule(t *testing.T, dir string) moduleFile {
	t.Helper()
	var module moduleFile
	decode(t, goCommand(t, dir, "mod", "edit", "-json"), &module)
	return module
}

// goCommand runs the go command in a folder of the repository and gives its standard output.
func goCommand(t *testing.T, dir string, args ...string) string {
	t.Helper()
	command := exec.CommandContext(t.Context(), "go", args...)
	command.Dir = filepath.Join(repository, dir)
	command.Stderr = os.Stderr
	output, err := command.Output()
	if err != nil {
		t.Fatalf("go %s in %s: %v", strings.Join(args, " "), dir, err)
	}
	return string(output)
}

func decode(t *testing.T, document string, into any) {
	t.Helper()
	if err := json.Unmarshal([]byte(document), into); err != nil {
		t.Fatal(err)
	}
}
