// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package idemlint

import (
	"go/ast"
	goconstant "go/constant"
	"go/token"
	"go/types"

	"golang.org/x/tools/go/analysis"
	"golang.org/x/tools/go/types/typeutil"
)

// source is what is known about the code of one package.
type source struct {
	pass *analysis.Pass
	// params tells whose parameter a variable is.
	params map[*types.Var]param
	// values are the variables that are given a value exactly once, with it.
	values map[types.Object]ast.Expr
	// bodies are the functions of this package.
	bodies map[types.Object]function
}

// param is a parameter of a function: a declared one, or a literal that is the only value of a variable.
type param struct {
	owner types.Object
	index int
}

type function struct {
	signature *ast.FuncType
	body      *ast.BlockStmt
}

func readSource(pass *analysis.Pass) *source {
	s := &source{pass: pass, params: map[*types.Var]param{}, values: map[types.Object]ast.Expr{}, bodies: map[types.Object]function{}}
	assigned := map[types.Object]int{}
	set := func(target, value ast.Expr) {
		if id, ok := ast.Unparen(target).(*ast.Ident); ok {
			if obj := pass.TypesInfo.ObjectOf(id); obj != nil {
				assigned[obj]++
				s.values[obj] = value
			}
		}
	}
	for _, file := range pass.Files {
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if obj := pass.TypesInfo.Defs[n.Name]; obj != nil && n.Body != nil {
					s.own(obj, n.Type, n.Body)
				}
			case *ast.AssignStmt:
				for i, target := range n.Lhs {
					if len(n.Lhs) == len(n.Rhs) && (n.Tok == token.DEFINE || n.Tok == token.ASSIGN) {
						set(target, n.Rhs[i])
					} else {
						set(target, nil)
					}
				}
			case *ast.ValueSpec:
				for i, name := range n.Names {
					if len(n.Values) == len(n.Names) {
						set(name, n.Values[i])
					} else if len(n.Values) > 0 {
						set(name, nil)
					}
				}
			case *ast.RangeStmt:
				set(n.Key, nil)
				set(n.Value, nil)
			case *ast.UnaryExpr:
				// Whoever has the address may write.
				if n.Op == token.AND {
					set(n.X, nil)
				}
			}
			return true
		})
	}
	for obj, value := range s.values {
		if assigned[obj] != 1 || value == nil {
			delete(s.values, obj)
			continue
		}
		if literal, ok := ast.Unparen(value).(*ast.FuncLit); ok {
			s.own(obj, literal.Type, literal.Body)
		}
	}
	// A parameter that is written to is not what the caller gave.
	for v := range s.params {
		if assigned[v] > 0 {
			delete(s.params, v)
		}
		delete(s.values, v)
	}
	return s
}

func (s *source) own(owner types.Object, signature *ast.FuncType, body *ast.BlockStmt) {
	s.bodies[owner] = function{signature, body}
	index := 0
	for _, field := range signature.Params.List {
		for _, name := range field.Names {
			if v, ok := s.pass.TypesInfo.Defs[name].(*types.Var); ok {
				s.params[v] = param{owner, index}
			}
			index++
		}
		if len(field.Names) == 0 {
			index++
		}
	}
}

func (s *source) object(e ast.Expr) types.Object {
	switch e := ast.Unparen(e).(type) {
	case *ast.Ident:
		return s.pass.TypesInfo.ObjectOf(e)
	case *ast.SelectorExpr:
		return s.pass.TypesInfo.ObjectOf(e.Sel)
	case *ast.IndexExpr:
		return s.instance(e.X)
	case *ast.IndexListExpr:
		return s.instance(e.X)
	}
	return nil
}

// instance is the function that an index expression instantiates; an element of a slice is nothing that can be followed.
func (s *source) instance(e ast.Expr) types.Object {
	if fn, ok := s.object(e).(*types.Func); ok {
		return fn
	}
	return nil
}

// param finds the parameter that an expression is.
func (s *source) param(e ast.Expr) (param, bool) {
	v, ok := s.object(e).(*types.Var)
	if !ok || v.IsField() {
		return param{}, false
	}
	p, found := s.params[v]
	return p, found
}

// callee is the function or variable that is called; of a generic function the one that was written.
func (s *source) callee(call *ast.CallExpr) types.Object {
	obj := typeutil.Callee(s.pass.TypesInfo, call)
	if fn, ok := obj.(*types.Func); ok {
		return fn.Origin()
	}
	return obj
}

// template reads a string as constants and parameters of one function. Owner is nil for a constant.
func (s *source) template(e ast.Expr, depth int) (parts []part, owner types.Object, ok bool) {
	e = ast.Unparen(e)
	if value := s.pass.TypesInfo.Types[e].Value; value != nil && value.Kind() == goconstant.String {
		return text(goconstant.StringVal(value)), nil, true
	}
	if depth > maxDepth {
		return nil, nil, false
	}
	if p, found := s.param(e); found {
		return parameter(p.index), p.owner, true
	}
	switch e := e.(type) {
	case *ast.BinaryExpr:
		left, leftOwner, ok := s.template(e.X, depth+1)
		right, rightOwner, ok2 := s.template(e.Y, depth+1)
		switch {
		case !ok || !ok2 || e.Op != token.ADD || leftOwner != nil && rightOwner != nil && leftOwner != rightOwner:
			// A constant beginning says the method, even if the rest is unknown.
			return left, leftOwner, false
		case leftOwner == nil:
			leftOwner = rightOwner
		}
		return append(append([]part{}, left...), right...), leftOwner, true
	case *ast.Ident:
		if value, found := s.values[s.pass.TypesInfo.ObjectOf(e)]; found {
			return s.template(value, depth+1)
		}
	case *ast.CallExpr:
		// A conversion such as string(method).
		if s.pass.TypesInfo.Types[e.Fun].IsType() && len(e.Args) == 1 {
			return s.template(e.Args[0], depth+1)
		}
	}
	return nil, nil, false
}

const maxDepth = 32

// join gives the constant that the parts make, and whether they do.
func join(parts []part) (string, bool) {
	var joined string
	for _, p := range parts {
		if p.Param != constant {
			return joined, false
		}
		joined += p.Const
	}
	return joined, true
}
