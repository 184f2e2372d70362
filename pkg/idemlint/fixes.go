// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package idemlint

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"slices"

	"golang.org/x/tools/go/analysis"
)

// unsaid is the reason that a fix writes: it is refused, so that somebody has to think.
const unsaid = "TODO: say why this route must not be repeated"

// fixes suggests a declaration where a guard is in reach, for routers that take a handler of net/http. The first, which a driver may apply unasked, is the
// declaration that promises nothing.
func (c *checker) fixes(call *ast.CallExpr, r *registrar, read route, stack []ast.Node) []analysis.SuggestedFix {
	fn, ok := c.callee(call).(*types.Func)
	if !ok || fn.Pkg() == nil || !slices.Contains([]string{"net/http", chi, gorilla}, fn.Pkg().Path()) || r.Rest < 0 || len(call.Args) != r.Rest+1 {
		return nil
	}
	guard := c.guard(call)
	file, _ := stack[0].(*ast.File)
	if guard == "" || file == nil {
		return nil
	}
	name, importEdit := c.importName(file)
	handler := call.Args[r.Rest]
	before, after := "", ""
	if isHandlerFunc(c.pass.TypesInfo.TypeOf(handler).Underlying()) && !isType(c.pass.TypesInfo.TypeOf(handler), "net/http", "HandlerFunc") {
		before, after = "http.HandlerFunc(", ")"
	}
	closing := after + ")"
	last := fn.Signature().Params().At(fn.Signature().Params().Len() - 1).Type()
	if isHandlerFunc(last.Underlying()) {
		closing += ".ServeHTTP"
	}
	fix := func(message, declaration string) analysis.SuggestedFix {
		edits := []analysis.TextEdit{
			{Pos: handler.Pos(), End: handler.Pos(), NewText: fmt.Appendf(nil, "%s.Wrap(%s.%s, %s", guard, name, declaration, before)},
			{Pos: handler.End(), End: handler.End(), NewText: []byte(closing)},
		}
		if importEdit != nil {
			edits = append(edits, *importEdit)
		}
		return analysis.SuggestedFix{Message: message, TextEdits: edits}
	}
	found := []analysis.SuggestedFix{
		fix("Declare it non-idempotent", fmt.Sprintf("NonIdempotent(%q)", unsaid)),
		fix("Declare it idempotent", fmt.Sprintf("Idempotent(%s.Policy{})", name)),
	}
	if literal, ok := ast.Unparen(call.Args[0]).(*ast.BasicLit); ok && r.MethodInPattern && slices.Contains(read.methods, anyMethod) && literal.Kind == token.STRING {
		found = append(found, analysis.SuggestedFix{
			Message:   "Answer GET and HEAD only",
			TextEdits: []analysis.TextEdit{{Pos: literal.Pos() + 1, End: literal.Pos() + 1, NewText: []byte("GET ")}},
		})
	}
	return found
}

// guard names a *idempotency.Guard that is in scope at a call, the innermost first; fields of the receiver and of other variables count.
func (c *checker) guard(call *ast.CallExpr) string {
	for scope := c.pass.Pkg.Scope().Innermost(call.Pos()); scope != nil && scope != types.Universe; scope = scope.Parent() {
		for _, name := range scope.Names() {
			v, ok := scope.Lookup(name).(*types.Var)
			if !ok || v.Parent() != c.pass.Pkg.Scope() && v.Pos() >= call.Pos() {
				continue
			}
			if isType(v.Type(), declarator, "Guard") {
				return name
			}
			named := namedOf(v.Type())
			if named == nil || named.Obj().Pkg() != c.pass.Pkg {
				continue
			}
			fields, ok := named.Underlying().(*types.Struct)
			if !ok {
				continue
			}
			for field := range fields.Fields() {
				if isType(field.Type(), declarator, "Guard") {
					return name + "." + field.Name()
				}
			}
		}
	}
	return ""
}

// importName is how a file calls package idempotency, and the edit that imports it if the file does not.
func (c *checker) importName(file *ast.File) (string, *analysis.TextEdit) {
	for _, spec := range file.Imports {
		if spec.Path.Value == fmt.Sprintf("%q", declarator) {
			if spec.Name != nil && spec.Name.Name != "_" && spec.Name.Name != "." {
				return spec.Name.Name, nil
			}
			if spec.Name == nil {
				return "idempotency", nil
			}
		}
	}
	at := file.Name.End()
	return "idempotency", &analysis.TextEdit{Pos: at, End: at, NewText: fmt.Appendf(nil, "\n\nimport %q", declarator)}
}
