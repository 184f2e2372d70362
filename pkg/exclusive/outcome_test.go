// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package exclusive_test

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strconv"
	"testing"

	"github.com/lockstead/lockstead/pkg/exclusive"
)

// A counter that lacks an outcome hides its first event from a rate.
func TestOutcomesAreAllThatAreDeclared(t *testing.T) {
	file, err := parser.ParseFile(token.NewFileSet(), "outcome.go", nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	var declared []exclusive.Outcome
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		if kind, ok := spec.Type.(*ast.Ident); ok && kind.Name == "Outcome" {
			word, err := strconv.Unquote(spec.Values[0].(*ast.BasicLit).Value)
			if err != nil {
				t.Fatal(err)
			}
			declared = append(declared, exclusive.Outcome(word))
		}
		return true
	})
	if listed := exclusive.Outcomes(); len(declared) == 0 || !slices.Equal(listed, declared) {
		t.Errorf("the outcomes are %q, declared are %q", listed, declared)
	}
}
