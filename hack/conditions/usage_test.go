// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

// operator calls visit with every node of the controllers' code, without that of tests.
func operator(t *testing.T, visit func(*token.FileSet, ast.Node)) {
	t.Helper()
	files, set := 0, token.NewFileSet()
	err := filepath.WalkDir("../../controllers", func(path string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() || filepath.Ext(path) != ".go" || strings.HasSuffix(path, "_test.go") {
			return err
		}
		file, err := parser.ParseFile(set, path, nil, parser.SkipObjectResolution)
		if err != nil {
			return err
		}
		files++
		ast.Inspect(file, func(node ast.Node) bool {
			visit(set, node)
			return true
		})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if files == 0 {
		t.Fatal("the controllers have no code")
	}
}

// The page is about what the operator says. A constant that it never uses is a promise that nobody keeps.
func TestEveryConstantIsUsed(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../../" + source)
	if err != nil {
		t.Fatal(err)
	}
	used := map[string]bool{}
	operator(t, func(_ *token.FileSet, node ast.Node) {
		if selector, isSelector := node.(*ast.SelectorExpr); isSelector {
			if of, isName := selector.X.(*ast.Ident); isName && of.Name == "v1alpha1" {
				used[selector.Sel.Name] = true
			}
		}
	})
	names := regexp.MustCompile(`(?m)^\t((?:Reason|Condition)\w+) +=`).FindAllSubmatch(content, -1)
	if len(names) == 0 {
		t.Fatal("no constants were found")
	}
	for _, name := range names {
		if !used[string(name[1])] {
			t.Errorf("no controller uses %s", name[1])
		}
	}
}

// Who looks up a reason looks below the kind of the object.
func TestReasonsAreBelowTheirKind(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../../" + source)
	if err != nil {
		t.Fatal(err)
	}
	c, err := parse(source, content)
	if err != nil {
		t.Fatal(err)
	}
	for folder, name := range map[string]string{"locknamespace": "LockNamespace", "redisinstance": "RedisInstance"} {
		var page string
		for _, k := range c.kinds {
			if k.name == name {
				page = markdown(catalogue{kinds: []kind{k}})
			}
		}
		reasons := 0
		operator(t, func(set *token.FileSet, node ast.Node) {
			selector, isSelector := node.(*ast.SelectorExpr)
			if !isSelector || filepath.Base(filepath.Dir(set.Position(node.Pos()).Filename)) != folder {
				return
			}
			match := regexp.MustCompile(`\t` + selector.Sel.Name + ` = "(\w+)"`).FindSubmatch(content)
			if match == nil || !strings.HasPrefix(selector.Sel.Name, "Reason") {
				return
			}
			reasons++
			if !regexp.MustCompile(`\b` + string(match[1]) + `\b`).MatchString(page) {
				t.Errorf("%s: %s is not below %s in %s: name it in the comment of the reasons of its condition", set.Position(node.Pos()), selector.Sel.Name, name, source)
			}
		})
		if reasons == 0 {
			t.Errorf("controller %s uses no reasons", folder)
		}
	}
}

// words are those in code of the operator that look like reasons and are none.
var words = map[string]string{
	"ClusterRole": "kind", "LeaseList": "kind", "LockNamespace": "kind", "RedisInstance": "kind",
	// What happened once, and is no state that a condition could have.
	"DataMayBeLost": "reason of events", "PasswordRotated": "reason of events",
	"NoRedisConfigured": "what the library names when it warns about Leases",
}

// A type or reason of a condition that is written out would be missing on the page, and could be misspelt.
func TestNoLiteralReasons(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../../" + source)
	if err != nil {
		t.Fatal(err)
	}
	word := regexp.MustCompile(`^[A-Z][a-z]+[A-Z][A-Za-z]*$`)
	seen := map[string]bool{}
	operator(t, func(set *token.FileSet, node ast.Node) {
		literal, isLiteral := node.(*ast.BasicLit)
		if !isLiteral || literal.Kind != token.STRING {
			return
		}
		text, err := strconv.Unquote(literal.Value)
		isConstant := strings.Contains(string(content), "= "+literal.Value+"\n")
		if err != nil || (!isConstant && !word.MatchString(text)) {
			return
		}
		seen[text] = true
		if words[text] == "" {
			t.Errorf("%s: %q looks like a reason: make it a constant of api/v1alpha1, or say in this test what it is", set.Position(literal.Pos()), text)
		}
	})
	for text := range words {
		if !seen[text] {
			t.Errorf("%q is not in the code any more: take it off the list", text)
		}
	}
}
