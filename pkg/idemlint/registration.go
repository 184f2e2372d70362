// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package idemlint

import (
	"go/ast"
	"go/types"
	"reflect"
	"slices"
	"strings"
)

// route is what the arguments of one registration say.
type route struct {
	call *ast.CallExpr
	// methods are known, or method makes them from the parameters of a wrapper.
	methods []string
	method  []part
	pattern []part
	// inPattern says that pattern is of the syntax "METHOD /path".
	inPattern bool
	// owner is the wrapper whose parameters are used; nil for none.
	owner types.Object
	// fault is the argument that cannot be read.
	fault ast.Node
}

// registration judges a call that registers a route.
func (c *checker) registration(call *ast.CallExpr, r *registrar, stack []ast.Node, report bool) {
	if !call.Ellipsis.IsValid() && len(call.Args) == 1 && c.pass.TypesInfo.TypeOf(call.Args[0]) != nil {
		if several, ok := c.pass.TypesInfo.TypeOf(call.Args[0]).(*types.Tuple); ok && several.Len() > 1 {
			if report {
				c.report(call, categoryDynamic, around(stack), nil, "the arguments of this registration are the results of another call, so that nobody sees what it "+
					"answers: write them one by one")
			}
			return
		}
	}
	read := c.read(call, r, stack)
	if r.Safe {
		c.safe(read, report, stack)
		return
	}
	if read.fault == nil && len(read.methods) > 0 && !slices.ContainsFunc(read.methods, mutates) {
		return
	}
	brings := c.brings(call, r)
	if read.fault != nil {
		if report && !methodIsSafe(read) {
			c.report(read.fault, categoryDynamic, around(stack), nil, "the method or the pattern of this route is not constant, so that nobody sees what it "+
				"answers: write a constant, or take both as string parameters of a function that registers, whose callers are then checked")
		}
		return
	}
	label := strings.Join(read.methods, ",") + " " + c.prefix(call, stack) + mustJoin(read.pattern)
	owner := read.owner
	switch {
	case brings.Intent != nil:
		if owner == nil {
			if report {
				c.addRoutes(call, read.methods, c.prefix(call, stack)+mustJoin(read.pattern), *brings.Intent)
			}
			return
		}
		c.wrapper(read, owner, brings, report, stack)
	case brings.Router:
		return
	case brings.Given != nil && sameOwner(owner, brings.Given.owner):
		c.wrapper(read, brings.Given.owner, brings, report, stack)
	case brings.Handler != nil && sameOwner(owner, brings.Handler.owner) && !takesRequest(brings.Handler.owner.Type()):
		c.wrapper(read, brings.Handler.owner, brings, report, stack)
	case !report:
	case brings.Unseen != nil || brings.Given != nil:
		at := ast.Node(call)
		if brings.Unseen != nil {
			at = brings.Unseen
		}
		c.report(at, categoryUnseen, label, nil, "%s has a declaration that cannot be read here: write idempotency.Idempotent or idempotency.NonIdempotent in place, "+
			"or in a variable that is set once", label)
	default:
		c.report(call, categoryUndeclared, label, c.fixes(call, r, read, stack), "%s does not say what a repeated request does: wrap its handler with "+
			"idempotency.Idempotent(policy) or idempotency.NonIdempotent(reason)%s", label, narrow(read))
	}
}

func mustJoin(parts []part) string {
	var joined strings.Builder
	for _, p := range parts {
		if p.Param == constant {
			joined.WriteString(p.Const)
		} else {
			joined.WriteString("{...}")
		}
	}
	return joined.String()
}

func narrow(r route) string {
	if slices.Contains(r.methods, anyMethod) {
		return ", or name its method if it only reads: without one it answers POST too"
	}
	return ""
}

func sameOwner(a, b types.Object) bool { return a == nil || a == b }

// methodIsSafe reports whether the part of the pattern that is known begins with a method that changes nothing.
func methodIsSafe(r route) bool {
	if !r.inPattern || len(r.pattern) == 0 || r.pattern[0].Param != constant {
		return false
	}
	method, _, found := strings.Cut(r.pattern[0].Const, " ")
	return found && !mutates(method)
}

// read puts the arguments into what the registrar says about them.
func (c *checker) read(call *ast.CallExpr, r *registrar, stack []ast.Node) route {
	read := route{call: call, methods: r.Methods, inPattern: r.MethodInPattern}
	pattern, ok := c.fill(&read, r.Pattern, call)
	read.pattern = pattern
	if !ok {
		return read
	}
	if r.Method != nil {
		if read.method, ok = c.fill(&read, r.Method, call); !ok {
			return read
		}
		if method, isConstant := join(read.method); isConstant {
			read.methods, read.method = []string{strings.ToUpper(method)}, nil
		}
	}
	if r.MethodList >= 0 {
		read.methods = c.list(call, r.MethodList)
		if read.methods == nil {
			read.fault = call
		}
	}
	if r.Fluent {
		c.fluent(&read, call, stack)
	}
	if read.inPattern {
		joined, isConstant := join(read.pattern)
		method, _, found := strings.Cut(joined, " ")
		switch {
		case found:
			// The method is known although the path may not be.
			read.methods, read.inPattern = []string{method}, false
			read.pattern = cutMethod(read.pattern, method)
		case isConstant:
			read.methods, read.inPattern = []string{anyMethod}, false
		}
	}
	return read
}

// cutMethod takes the method and the space behind it off a pattern.
func cutMethod(pattern []part, method string) []part {
	rest := slices.Clone(pattern)
	for skip := len(method) + 1; skip > 0 && len(rest) > 0; {
		if n := len(rest[0].Const); n <= skip {
			skip, rest = skip-n, rest[1:]
		} else {
			rest[0].Const, skip = strings.TrimLeft(rest[0].Const[skip:], " \t"), 0
		}
	}
	return rest
}

// fill replaces the parameters of a registrar by the arguments of a call. What cannot be read is noted as the fault.
func (c *checker) fill(read *route, parts []part, call *ast.CallExpr) (filled []part, ok bool) {
	for _, p := range parts {
		if p.Param == constant {
			filled = append(filled, p)
			continue
		}
		if p.Param >= len(call.Args) || call.Ellipsis.IsValid() && p.Param == len(call.Args)-1 {
			read.fault = call
			return filled, false
		}
		arg := call.Args[p.Param]
		inner, owner, ok := c.template(arg, 0)
		if !ok || !sameOwner(read.owner, owner) && owner != nil {
			read.fault = arg
			return append(filled, inner...), false
		}
		if owner != nil {
			read.owner = owner
		}
		filled = append(filled, inner...)
	}
	return filled, true
}

// list reads a literal of method names; nil if it is anything else.
func (c *checker) list(call *ast.CallExpr, index int) (methods []string) {
	if index >= len(call.Args) {
		return nil
	}
	literal, ok := ast.Unparen(call.Args[index]).(*ast.CompositeLit)
	if !ok {
		if value, found := c.values[c.object(call.Args[index])]; found {
			literal, ok = ast.Unparen(value).(*ast.CompositeLit)
		}
	}
	if !ok {
		return nil
	}
	for _, element := range literal.Elts {
		parts, owner, ok := c.template(element, 0)
		method, isConstant := join(parts)
		if !ok || owner != nil || !isConstant {
			return nil
		}
		methods = append(methods, strings.ToUpper(method))
	}
	return methods
}

// fluent reads the methods and the path from the other calls of a chain, as gorilla/mux has them.
func (c *checker) fluent(read *route, call *ast.CallExpr, stack []ast.Node) {
	links := []*ast.CallExpr{}
	for at := call; ; {
		selector, ok := ast.Unparen(at.Fun).(*ast.SelectorExpr)
		if !ok {
			break
		}
		if at, ok = ast.Unparen(selector.X).(*ast.CallExpr); !ok {
			break
		}
		links = append(links, at)
	}
	for i := len(stack) - 2; i > 0; i -= 2 {
		if _, ok := stack[i].(*ast.SelectorExpr); !ok {
			break
		}
		outer, ok := stack[i-1].(*ast.CallExpr)
		if !ok || ast.Unparen(outer.Fun) != stack[i] {
			break
		}
		links = append(links, outer)
	}
	read.methods = []string{anyMethod}
	for _, link := range links {
		fn, ok := c.callee(link).(*types.Func)
		if !ok || fn.Pkg() == nil || fn.Pkg().Path() != gorilla {
			continue
		}
		switch fn.Name() {
		case "Methods":
			read.methods = nil
			for _, arg := range link.Args {
				parts, owner, ok := c.template(arg, 0)
				method, isConstant := join(parts)
				if !ok || owner != nil || !isConstant || link.Ellipsis.IsValid() {
					read.fault = arg
					return
				}
				read.methods = append(read.methods, strings.ToUpper(method))
			}
		case "Path", "PathPrefix":
			if len(link.Args) == 1 {
				parts, ok := c.fill(read, parameter(0), link)
				if !ok {
					return
				}
				read.pattern = append(parts, read.pattern...)
			}
		}
	}
}

// brings collects what the arguments and the chain carry.
func (c *checker) brings(call *ast.CallExpr, r *registrar) (found carried) {
	for i, arg := range call.Args {
		if !slices.Contains(r.Carriers, i) && (r.Rest < 0 || i < r.Rest) {
			continue
		}
		if !isType(c.pass.TypesInfo.TypeOf(arg), declarator, "Declaration") {
			found = found.or(c.carries(arg, 0))
			continue
		}
		says, given, ok := c.intent(arg, 0)
		one := carried{Intent: says, Given: given}
		if !ok {
			one.Unseen = arg
		}
		found = found.or(one)
	}
	if r.Intent != nil {
		found = found.or(carried{Intent: r.Intent})
	}
	return found.or(c.chain(call))
}

// maxWrapped bounds what one function can register from its parameters: one that calls itself with a longer pattern each time would never end. What is beyond
// it is reported.
const maxWrapped = 256

// wrapper notes that a function registers what its callers give it.
func (c *checker) wrapper(read route, owner types.Object, brings carried, report bool, stack []ast.Node) {
	r := registrar{
		Methods: read.methods, Method: read.method, MethodList: -1, Pattern: read.pattern, MethodInPattern: read.inPattern, Rest: -1,
		Intent: brings.Intent,
	}
	for _, p := range []*param{brings.Given, brings.Handler} {
		if p != nil && brings.Intent == nil {
			r.Carriers = append(r.Carriers, p.index)
		}
	}
	w := c.wrappers[owner]
	if w == nil {
		w = &wrapping{}
		c.wrappers[owner] = w
	}
	same := func(other registrar) bool { return reflect.DeepEqual(r, other) }
	switch {
	case slices.ContainsFunc(w.Registers, same):
	case len(w.Registers) < maxWrapped:
		w.Registers, c.grown = append(w.Registers, r), true
	default:
		w.More = true
		if report && !slices.Contains(c.cut, read.call) {
			c.cut = append(c.cut, read.call)
			c.report(read.call, categoryDynamic, around(stack), nil, "%s registers more than %d routes from its parameters, and those beyond are not followed, so that nobody "+
				"sees what they answer: split it, or register them where they are known", owner.Name(), maxWrapped)
		}
	}
}

// safe is for registrations that promise to change nothing.
func (c *checker) safe(read route, report bool, stack []ast.Node) {
	if !report {
		return
	}
	switch {
	case read.fault != nil && methodIsSafe(read):
	case read.fault != nil || read.owner != nil && len(read.methods) == 0:
		c.report(read.call, categoryDynamic, around(stack), nil, "the method of this route is not constant: begin the pattern of HandleSafe with GET, HEAD, OPTIONS or TRACE")
	case slices.ContainsFunc(read.methods, mutates):
		c.report(read.call, categorySafe, around(stack), nil, "HandleSafe panics for this pattern, which can change something: use Handle with a declaration")
	}
}

// prefix is the constant path of the groups that a registration stands in.
func (c *checker) prefix(call *ast.CallExpr, stack []ast.Node) string {
	var prefix strings.Builder
	// chi: r.Route("/orders", func(r chi.Router) { ... })
	for i, n := range stack {
		literal, ok := n.(*ast.FuncLit)
		if !ok || i == 0 {
			continue
		}
		outer, ok := stack[i-1].(*ast.CallExpr)
		if !ok || len(outer.Args) != 2 || outer.Args[1] != literal {
			continue
		}
		if fn, ok := c.callee(outer).(*types.Func); ok && fn.Pkg() != nil && fn.Pkg().Path() == chi && fn.Name() == "Route" {
			parts, _, _ := c.template(outer.Args[0], 0)
			prefix.WriteString(mustJoin(parts))
		}
	}
	// gin and echo: g := r.Group("/orders")
	group := ""
	selector, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
	for depth := 0; ok && depth < maxDepth; depth++ {
		on := ast.Unparen(selector.X)
		if value, found := c.values[c.object(on)]; found {
			on = ast.Unparen(value)
		}
		inner, isCall := on.(*ast.CallExpr)
		if !isCall {
			break
		}
		if fn, isFn := c.callee(inner).(*types.Func); isFn && fn.Name() == "Group" && fn.Pkg() != nil && fn.Pkg().Path() != chi && len(inner.Args) > 0 {
			parts, _, _ := c.template(inner.Args[0], 0)
			group = mustJoin(parts) + group
		}
		selector, ok = ast.Unparen(inner.Fun).(*ast.SelectorExpr)
	}
	return prefix.String() + group
}
