// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package idemlint

import (
	"go/ast"
	"go/types"
)

// carried is what an expression brings to a registration. Of several, the first field that is set counts.
type carried struct {
	// Intent is what a declaration says.
	Intent *Intent
	// Given is the parameter that is the declaration.
	Given *param
	// Unseen is a declaration whose content cannot be followed.
	Unseen ast.Expr
	// Router says that the handler is a router, whose routes are checked one by one.
	Router bool
	// Handler is the parameter that is the handler, or the middleware.
	Handler *param
}

// Weight orders by what counts more. It also orders "nothing" last.
func (c carried) weight() int {
	switch {
	case c.Intent != nil:
		return 5
	case c.Given != nil:
		return 4
	case c.Unseen != nil:
		return 3
	case c.Router:
		return 2
	case c.Handler != nil:
		return 1
	}
	return 0
}

func (c carried) or(other carried) carried {
	if other.weight() > c.weight() {
		return other
	}
	return c
}

// content is what a function or a variable is known to bring.
type content struct {
	Intent *Intent
	Router bool
}

// holding is a fact: what comes with the result of a function or the value of a variable, and what a function installs when it runs as a handler.
type holding struct{ Result, Body content }

// AFact makes a holding a fact.
func (*holding) AFact() {}

func (h *holding) String() string {
	switch {
	case h.Result.Intent != nil:
		return "brings " + h.Result.Intent.Decision
	case h.Result.Router:
		return "brings router"
	}
	return "installs " + h.Body.Intent.Decision
}

// holds looks a function or variable up, here or in the facts of other packages.
func (s *source) holds(obj types.Object, depth int) holding {
	if obj == nil || obj.Pkg() == nil || depth > maxDepth {
		return holding{}
	}
	if obj.Pkg() != s.pass.Pkg {
		var fact holding
		s.pass.ImportObjectFact(obj, &fact)
		return fact
	}
	if fn, ok := s.bodies[obj]; ok {
		h := holding{Result: s.results(fn, depth+1)}
		if takesRequest(obj.Type()) {
			h.Body.Intent = s.installs(fn.body, depth+1).Intent
		}
		return h
	}
	if value, ok := s.values[obj]; ok {
		if isType(obj.Type(), declarator, "Declaration") {
			says, _, _ := s.intent(value, depth+1)
			return holding{Result: content{Intent: says}}
		}
		c := s.carries(value, depth+1)
		return holding{Result: content{Intent: c.Intent, Router: c.Router && c.Intent == nil}}
	}
	return holding{}
}

// results is what all return statements of a function bring.
func (s *source) results(fn function, depth int) (common content) {
	if fn.signature.Results == nil || len(fn.signature.Results.List) == 0 {
		return content{}
	}
	first, agreed := true, true
	ast.Inspect(fn.body, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.FuncLit:
			return false
		case *ast.ReturnStmt:
			var one content
			if len(n.Results) > 0 && !s.isNil(n.Results[0]) {
				value := n.Results[0]
				if isType(s.pass.TypesInfo.TypeOf(value), declarator, "Declaration") {
					one.Intent, _, _ = s.intent(value, depth+1)
				} else if c := s.carries(value, depth+1); c.Intent != nil {
					one.Intent = c.Intent
				} else {
					one.Router = c.Router
				}
			} else if len(n.Results) > 1 {
				return false // nil with an error
			}
			switch {
			case first:
				common, first = one, false
			case (one.Intent == nil) != (common.Intent == nil) || one.Router != common.Router,
				one.Intent != nil && *one.Intent != *common.Intent:
				agreed = false
			}
		}
		return true
	})
	if !agreed {
		return content{}
	}
	return common
}

func (s *source) isNil(e ast.Expr) bool { return s.pass.TypesInfo.Types[e].IsNil() }

// installs looks for a declaration in the statements that run whenever a body does.
func (s *source) installs(body *ast.BlockStmt, depth int) (found carried) {
	for _, statement := range body.List {
		switch statement := statement.(type) {
		case *ast.ExprStmt:
			found = found.or(s.run(statement.X, depth+1))
		case *ast.ReturnStmt:
			for _, value := range statement.Results {
				found = found.or(s.run(value, depth+1))
			}
		case *ast.AssignStmt:
			for _, value := range statement.Rhs {
				found = found.or(s.run(value, depth+1))
			}
		}
		// Behind a return the rest may be left out.
		leaves := false
		ast.Inspect(statement, func(n ast.Node) bool {
			switch n.(type) {
			case *ast.FuncLit:
				return false
			case *ast.ReturnStmt, *ast.BranchStmt:
				leaves = true
			}
			return !leaves
		})
		if leaves {
			break
		}
	}
	// A router that is called in passing, or a parameter, does not make the body one.
	return carried{Intent: found.Intent, Given: found.Given, Unseen: found.Unseen}
}

// run is what a call brings that runs a handler, told by its result, which is none or an error: a handler that is only made is not installed.
func (s *source) run(e ast.Expr, depth int) carried {
	call, ok := ast.Unparen(e).(*ast.CallExpr)
	if !ok {
		return carried{}
	}
	switch t := s.pass.TypesInfo.TypeOf(call).(type) {
	case *types.Tuple:
		if t.Len() > 0 {
			return carried{}
		}
	default:
		if !types.Identical(t, types.Universe.Lookup("error").Type()) {
			return carried{}
		}
	}
	return s.carries(call, depth+1)
}

// carries finds what an expression brings to the registration that it is an argument of.
func (s *source) carries(e ast.Expr, depth int) carried {
	if depth > maxDepth || e == nil {
		return carried{}
	}
	e = ast.Unparen(e)
	if isRouter(s.pass.TypesInfo.TypeOf(e)) {
		return carried{Router: true}
	}
	switch e := e.(type) {
	case *ast.CallExpr:
		return s.callCarries(e, depth)
	case *ast.StarExpr:
		return s.carries(e.X, depth+1)
	case *ast.UnaryExpr:
		return s.carries(e.X, depth+1)
	case *ast.IndexExpr, *ast.IndexListExpr:
		return s.named(s.object(e), depth)
	case *ast.FuncLit:
		result := s.results(function{e.Type, e.Body}, depth+1)
		c := carried{Intent: result.Intent, Router: result.Router}
		if takesRequest(s.pass.TypesInfo.TypeOf(e)) {
			c = c.or(s.installs(e.Body, depth+1))
		}
		return c.or(s.returnsGiven(e, depth+1))
	case *ast.SelectorExpr:
		if s.pass.TypesInfo.Selections[e] != nil {
			if _, isMethod := s.object(e).(*types.Func); isMethod {
				c := s.carries(e.X, depth+1)
				c.Handler = nil // The method of a parameter is not that parameter.
				return c.or(s.named(s.object(e), depth))
			}
			return carried{}
		}
		return s.named(s.object(e), depth)
	case *ast.Ident:
		if p, found := s.param(e); found {
			if !handles(s.pass.TypesInfo.TypeOf(e)) {
				return carried{}
			}
			return carried{Handler: &p}
		}
		return s.named(s.object(e), depth)
	}
	return carried{}
}

// returnsGiven is for a literal that returns a handler made with a declaration from the parameters of the function around it.
func (s *source) returnsGiven(literal *ast.FuncLit, depth int) (found carried) {
	if literal.Type.Results == nil {
		return carried{}
	}
	for _, statement := range literal.Body.List {
		if ret, ok := statement.(*ast.ReturnStmt); ok && len(ret.Results) == 1 {
			c := s.carries(ret.Results[0], depth+1)
			found = found.or(carried{Given: c.Given, Unseen: c.Unseen})
		}
	}
	return found
}

// named is what a function, used as a value, or a variable brings.
func (s *source) named(obj types.Object, depth int) carried {
	switch obj := obj.(type) {
	case *types.Func:
		h := s.holds(obj.Origin(), depth+1)
		c := carried{Intent: h.Body.Intent}
		// A middleware that is handed over without being called. A function that makes a router would have to be called.
		return c.or(carried{Intent: h.Result.Intent})
	case *types.Var:
		if value, found := s.values[obj]; found && obj.Pkg() == s.pass.Pkg {
			return s.carries(value, depth+1)
		}
		h := s.holds(obj, depth+1)
		return carried{Intent: h.Result.Intent, Router: h.Result.Router}
	}
	return carried{}
}

func (s *source) callCarries(call *ast.CallExpr, depth int) (found carried) {
	isConversion := s.pass.TypesInfo.Types[call.Fun].IsType()
	for _, arg := range call.Args {
		if !isConversion && isType(s.pass.TypesInfo.TypeOf(arg), declarator, "Declaration") {
			says, given, ok := s.intent(arg, depth+1)
			one := carried{Intent: says, Given: given}
			if !ok {
				one.Unseen = arg
			}
			found = found.or(one)
			continue
		}
		found = found.or(s.carries(arg, depth+1))
	}
	if isConversion {
		return found
	}
	h := s.holds(s.callee(call), depth+1)
	found = found.or(carried{Intent: h.Result.Intent, Router: h.Result.Router})
	switch fun := ast.Unparen(call.Fun).(type) {
	case *ast.SelectorExpr:
		c := s.carries(fun.X, depth+1)
		if s.pass.TypesInfo.Selections[fun] != nil {
			found = found.or(carried{Intent: c.Intent, Given: c.Given, Unseen: c.Unseen})
		}
	case *ast.CallExpr:
		found = found.or(s.carries(fun, depth+1))
	}
	return found
}

// chain is what the calls in front of a registration bring, such as With of chi. A router in a variable is not followed: what was declared for all
// of its routes says nothing about this one.
func (s *source) chain(call *ast.CallExpr) (found carried) {
	for {
		selector, ok := ast.Unparen(call.Fun).(*ast.SelectorExpr)
		if !ok {
			return found
		}
		if call, ok = ast.Unparen(selector.X).(*ast.CallExpr); !ok {
			return found
		}
		for _, arg := range call.Args {
			c := s.carries(arg, 0)
			found = found.or(carried{Intent: c.Intent, Given: c.Given, Unseen: c.Unseen})
		}
	}
}
