// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package idemlint

import (
	"fmt"
	"go/ast"
	"go/token"
	"go/types"
	"path/filepath"
	"reflect"
	"slices"
	"strings"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/analysis/passes/inspect"
	"golang.org/x/tools/go/ast/inspector"
)

// Analyzer reports routes for POST, PUT and PATCH without a declaration. Its result is a *Result.
var Analyzer = &analysis.Analyzer{
	Name:       "idemlint",
	Doc:        "find HTTP routes that do not say what a repeated request does\n\nEvery route for POST, PUT and PATCH must carry idempotency.Idempotent or idempotency.NonIdempotent.",
	URL:        "https://pkg.go.dev/github.com/lockstead/lockstead/pkg/idemlint",
	Requires:   []*analysis.Analyzer{inspect.Analyzer},
	FactTypes:  []analysis.Fact{new(wrapping), new(holding)},
	ResultType: reflect.TypeFor[*Result](),
	Run:        run,
}

// Categories of findings.
const (
	categoryUndeclared = "undeclared"
	categoryUnseen     = "unseen"
	categoryDynamic    = "dynamic"
	categoryValue      = "value"
	categoryReason     = "reason"
	categoryUnused     = "unused"
	categorySafe       = "safe"
)

// Result is what the analyzer knows about one package.
type Result struct {
	// Routes are the declared routes for POST, PUT and PATCH.
	Routes []Route
	// Findings are what was reported.
	Findings []Finding
}

// Finding is a reported fault.
type Finding struct {
	// Category is the kind of fault: "undeclared", "unseen" (a declaration that cannot be read), "dynamic" (a route that is not constant), "value" (a
	// registration as a value), "reason", "unused" (a declaration that is dropped) or "safe" (HandleSafe for a route that is not).
	Category string
	// Subject is the route, or the function around it where the route is not known.
	Subject string
	// Position is where, with the file as the driver knows it.
	Position token.Position
	// Message says what is wrong and what to write instead.
	Message string
}

// checker analyses one package.
type checker struct {
	*source
	inspector *inspector.Inspector
	// wrappers are the functions of this package that register what their callers give them.
	wrappers map[types.Object]*wrapping
	// cut are the calls that were reported to register too much.
	cut []*ast.CallExpr
	// grown says that this round found a wrapper.
	grown  bool
	result *Result
}

func run(pass *analysis.Pass) (any, error) {
	c := &checker{wrappers: map[types.Object]*wrapping{}, result: &Result{}}
	if !concerned(pass) {
		return c.result, nil
	}
	c.source = readSource(pass)
	c.inspector = pass.ResultOf[inspect.Analyzer].(*inspector.Inspector)
	// A wrapper around a wrapper is seen once the inner one is known.
	for c.grown = true; c.grown; {
		c.grown = false
		c.walk(false)
	}
	c.walk(true)
	c.exportFacts()
	return c.result, nil
}

// concerned reports whether a package can register a route or hold a declaration. A router of a field or of an embedded type needs no import.
func concerned(pass *analysis.Pass) bool {
	for _, imported := range pass.Pkg.Imports() {
		if receivers[imported.Path()] != nil {
			return true
		}
	}
	if receivers[pass.Pkg.Path()] != nil {
		return false
	}
	if len(pass.AllObjectFacts()) > 0 {
		return true
	}
	for _, used := range pass.TypesInfo.Uses {
		if fn, ok := used.(*types.Func); ok && known(fn.Origin()) != nil {
			return true
		}
	}
	return false
}

func (c *checker) exportFacts() {
	for obj, wrapper := range c.wrappers {
		if _, ok := obj.(*types.Func); ok || obj.Parent() == c.pass.Pkg.Scope() {
			c.pass.ExportObjectFact(obj, wrapper)
		}
	}
	export := func(obj types.Object) {
		if h := c.holds(obj, 0); h != (holding{}) {
			c.pass.ExportObjectFact(obj, &h)
		}
	}
	for obj := range c.bodies {
		if _, ok := obj.(*types.Func); ok {
			export(obj)
		}
	}
	for obj := range c.values {
		if obj.Parent() == c.pass.Pkg.Scope() {
			export(obj)
		}
	}
}

// walk looks at every call, and in the last round reports.
func (c *checker) walk(report bool) {
	kinds := []ast.Node{(*ast.CallExpr)(nil), (*ast.Ident)(nil), (*ast.FuncDecl)(nil)}
	c.inspector.WithStack(kinds, func(n ast.Node, push bool, stack []ast.Node) bool {
		if !push {
			return true
		}
		// The file as it is, whatever its line directives say.
		if strings.HasSuffix(c.pass.Fset.PositionFor(n.Pos(), false).Filename, "_test.go") {
			return false
		}
		switch n := n.(type) {
		case *ast.CallExpr:
			registers := c.registrars(c.callee(n))
			for _, r := range registers.Registers {
				c.registration(n, &r, stack, report)
			}
			if report && registers.More && c.callee(n).Pkg() != c.pass.Pkg {
				c.report(n, categoryDynamic, around(stack), nil, "%s registers more routes than the %d that are followed, so that nobody sees what they answer", c.callee(n).Name(), maxWrapped)
			}
			if report && isFunc(c.callee(n), declarator, "NonIdempotent") && len(n.Args) == 1 {
				c.reason(n, stack)
			}
		case *ast.Ident:
			if report {
				c.value(n, stack)
			}
		case *ast.FuncDecl:
			if report {
				c.unusedDeclaration(n)
			}
		}
		return true
	})
}

// registrars finds out which routes a function registers with its arguments.
func (c *checker) registrars(obj types.Object) (fact wrapping) {
	if obj == nil || obj.Pkg() == nil {
		return fact
	}
	if fn, ok := obj.(*types.Func); ok {
		if r := known(fn); r != nil {
			return wrapping{Registers: []registrar{*r}}
		}
	}
	if obj.Pkg() != c.pass.Pkg {
		c.pass.ImportObjectFact(obj, &fact)
	} else if w := c.wrappers[obj]; w != nil {
		// A copy: a function that calls itself adds to it.
		fact = wrapping{slices.Clone(w.Registers), w.More}
	}
	return fact
}

// value reports a registering function that is not called, because what is done with it cannot be followed.
func (c *checker) value(id *ast.Ident, stack []ast.Node) {
	obj := c.pass.TypesInfo.Uses[id]
	switch used := obj.(type) {
	case *types.Func:
		obj = used.Origin()
	case *types.Var:
		if assigns(stack, id) { // Its only value.
			return
		}
	default:
		return
	}
	if len(c.registrars(obj).Registers) == 0 {
		return
	}
	var used ast.Node = id
	for i := len(stack) - 2; i >= 0; i-- {
		switch parent := stack[i].(type) {
		case *ast.ParenExpr, *ast.IndexExpr, *ast.IndexListExpr:
			used = parent
			continue
		case *ast.SelectorExpr:
			if parent.Sel == id {
				used = parent
				continue
			}
		case *ast.CallExpr:
			if parent.Fun == used {
				return
			}
		}
		break
	}
	c.report(id, categoryValue, around(stack), nil,
		"%s registers routes and is used as a value here, which cannot be followed: call it, or pass the router on", obj.Name())
}

// assigns reports whether an identifier is on the left of an assignment.
func assigns(stack []ast.Node, id *ast.Ident) bool {
	statement, ok := stack[len(stack)-2].(*ast.AssignStmt)
	return ok && slices.Contains(statement.Lhs, ast.Expr(id))
}

// reason judges why a route is not idempotent.
func (c *checker) reason(call *ast.CallExpr, stack []ast.Node) {
	parts, _, _ := c.template(call.Args[0], 0)
	reason, ok := join(parts)
	if !ok || parts == nil {
		c.report(call.Args[0], categoryReason, around(stack), nil,
			"the reason is not a constant, so that no review sees it change: write it here as a string, or as a constant")
		return
	}
	if problem := checkReason(reason); problem != "" {
		c.report(call.Args[0], categoryReason, around(stack), nil, "%s: say in a few words what a repetition would do and why that must not be", problem)
	}
}

// unusedDeclaration reports a function that takes a declaration and drops it: its callers look declared and are not.
func (c *checker) unusedDeclaration(decl *ast.FuncDecl) {
	if decl.Body == nil {
		return
	}
	for _, field := range decl.Type.Params.List {
		if !isType(c.pass.TypesInfo.TypeOf(field.Type), declarator, "Declaration") {
			continue
		}
		for _, name := range field.Names {
			used, v := false, c.pass.TypesInfo.Defs[name]
			ast.Inspect(decl.Body, func(n ast.Node) bool {
				id, ok := n.(*ast.Ident)
				used = used || ok && v != nil && c.pass.TypesInfo.Uses[id] == v
				return !used
			})
			if !used {
				c.report(name, categoryUnused, decl.Name.Name, nil, "%s drops its declaration, so that routes look declared and are not: give it to Guard.Wrap", decl.Name.Name)
			}
		}
		if len(field.Names) == 0 {
			c.report(field, categoryUnused, decl.Name.Name, nil, "%s drops its declaration, so that routes look declared and are not: give it to Guard.Wrap", decl.Name.Name)
		}
	}
}

// around is the name of the declared function around a node.
func around(stack []ast.Node) string {
	for _, n := range stack {
		if decl, ok := n.(*ast.FuncDecl); ok {
			return decl.Name.Name
		}
	}
	return "package"
}

func (c *checker) report(at analysis.Range, category, subject string, fixes []analysis.SuggestedFix, format string, args ...any) {
	message := fmt.Sprintf(format, args...)
	c.pass.Report(analysis.Diagnostic{Pos: at.Pos(), End: at.End(), Category: category, Message: message, SuggestedFixes: fixes})
	c.result.Findings = append(c.result.Findings, Finding{
		Category: category, Subject: subject, Position: c.pass.Fset.Position(at.Pos()), Message: message,
	})
}

func (c *checker) addRoutes(call *ast.CallExpr, methods []string, pattern string, says Intent) {
	file := filepath.ToSlash(c.pass.Fset.Position(call.Pos()).Filename)
	for _, method := range slices.Compact(slices.Sorted(slices.Values(methods))) {
		if mutates(method) {
			c.result.Routes = append(c.result.Routes, Route{Method: method, Pattern: pattern, File: file, Intent: says})
		}
	}
}
