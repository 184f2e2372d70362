// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package idemlint

import (
	"go/types"
)

const (
	chi        = "github.com/go-chi/chi/v5"
	gin        = "github.com/gin-gonic/gin"
	echo4      = "github.com/labstack/echo/v4"
	echo5      = "github.com/labstack/echo/v5"
	gorilla    = "github.com/gorilla/mux"
	declarator = "github.com/lockstead/lockstead/pkg/idempotency"
)

// anyMethod stands for a route that answers every method.
const anyMethod = "ANY"

// receivers are the types whose methods register a route, or lead to one.
var receivers = map[string][]string{
	"net/http": {"ServeMux"},
	chi:        {"Mux", "Router"},
	gin:        {"Engine", "RouterGroup", "IRoutes", "IRouter"},
	echo4:      {"Echo", "Group"},
	echo5:      {"Echo", "Group"},
	gorilla:    {"Router"},
	declarator: {"Mux"},
}

// part is a piece of a string: a constant, or the parameter of a function, counted from 0.
type part struct {
	Const string
	Param int
}

const constant = -1

func text(s string) []part   { return []part{{Const: s, Param: constant}} }
func parameter(i int) []part { return []part{{Param: i}} }

// registrar is what a function that registers a route does with its arguments.
type registrar struct {
	// Methods are those that are known without a look at the arguments.
	Methods []string
	// Method makes a method out of arguments, MethodList is the argument with a list of them; -1 for none.
	Method     []part
	MethodList int
	Pattern    []part
	// MethodInPattern is the syntax of http.ServeMux.
	MethodInPattern bool
	// Fluent registrations get their method from other calls in the chain.
	Fluent bool
	// Carriers are the arguments that may carry a declaration, Rest is the first of those that all may; -1 for none.
	Carriers []int
	Rest     int
	// Safe says that the pattern must be of a method that changes nothing.
	Safe bool
	// Intent is that of a wrapper that declares by itself.
	Intent *Intent
}

// wrapping is a fact: a function registers routes with what its callers give it.
type wrapping struct {
	Registers []registrar
	// More says that there are more than can be followed.
	More bool
}

// AFact makes a wrapping a fact.
func (*wrapping) AFact() {}

func (*wrapping) String() string { return "registers" }

var (
	inPattern = registrar{Pattern: parameter(0), MethodInPattern: true, MethodList: -1, Rest: 1}
	mounting  = registrar{Methods: []string{anyMethod}, Pattern: parameter(0), MethodList: -1, Rest: 1}
	byMethod  = registrar{Method: parameter(0), Pattern: parameter(1), MethodList: -1, Rest: 2}
	byList    = registrar{MethodList: 0, Pattern: parameter(1), Rest: 2}
)

func always(method string) registrar {
	return registrar{Methods: []string{method}, Pattern: parameter(0), MethodList: -1, Rest: 1}
}

// methods are the registering methods of each package's receivers.
var methods = map[string]map[string]registrar{
	"net/http": {"Handle": inPattern, "HandleFunc": inPattern},
	chi: {
		"Post": always("POST"), "Put": always("PUT"), "Patch": always("PATCH"),
		"Handle": inPattern, "HandleFunc": inPattern, "Mount": mounting,
		"Method": byMethod, "MethodFunc": byMethod,
	},
	gin: {
		"POST": always("POST"), "PUT": always("PUT"), "PATCH": always("PATCH"), "Any": mounting,
		"Handle": byMethod, "Match": byList,
	},
	echo4: {
		"POST": always("POST"), "PUT": always("PUT"), "PATCH": always("PATCH"), "Any": mounting,
		"Add": byMethod, "Match": byList,
	},
	echo5: {
		"POST": always("POST"), "PUT": always("PUT"), "PATCH": always("PATCH"), "Any": mounting,
		"Add": byMethod, "Match": byList,
		// The route is a struct, which is not looked into.
		"AddRoute": {MethodList: 0, Pattern: parameter(0), Rest: 0},
	},
	gorilla: {
		"Handle":     {Fluent: true, Pattern: parameter(0), MethodList: -1, Rest: 1},
		"HandleFunc": {Fluent: true, Pattern: parameter(0), MethodList: -1, Rest: 1},
	},
	declarator: {
		"Handle": inPattern, "HandleFunc": inPattern,
		"HandleSafe": {Pattern: parameter(0), MethodInPattern: true, MethodList: -1, Rest: -1, Safe: true},
	},
}

// known finds a registration of one of the routers, or nil.
func known(fn *types.Func) *registrar {
	if fn.Pkg() == nil {
		return nil
	}
	path, receiver := fn.Pkg().Path(), receiverName(fn)
	switch {
	case receiver == "" && path == "net/http" && (fn.Name() == "Handle" || fn.Name() == "HandleFunc"):
		return new(inPattern)
	case path == gorilla && receiver == "Route" && (fn.Name() == "Handler" || fn.Name() == "HandlerFunc"):
		return &registrar{Fluent: true, MethodList: -1, Rest: 0}
	}
	for _, name := range receivers[path] {
		if name == receiver {
			if r, found := methods[path][fn.Name()]; found {
				return &r
			}
		}
	}
	return lookalike(fn)
}

// lookalike takes a method of an interface for that of the router that may stand behind it, by name and signature.
func lookalike(fn *types.Func) *registrar {
	signature := fn.Signature()
	if signature.Recv() == nil || !types.IsInterface(signature.Recv().Type()) || signature.Params().Len() < 2 {
		return nil
	}
	var takes string
	for v := range signature.Params().Variables() {
		t := v.Type()
		if s, ok := t.(*types.Slice); ok {
			t = s.Elem()
		}
		switch name := types.TypeString(t, nil); {
		case name == "net/http.Handler", name == "net/http.HandlerFunc", isHandlerFunc(t):
			takes = chi
		case name == gin+".HandlerFunc":
			takes = gin
		case name == echo4+".HandlerFunc":
			takes = echo4
		case name == echo5+".HandlerFunc":
			takes = echo5
		}
	}
	if r, found := methods[takes][fn.Name()]; found {
		return &r
	}
	return nil
}

// isHandlerFunc reports whether t is the type of a function that serves a request.
func isHandlerFunc(t types.Type) bool {
	signature, ok := t.(*types.Signature)
	return ok && signature.Params().Len() == 2 && signature.Results().Len() == 0 &&
		isType(signature.Params().At(0).Type(), "net/http", "ResponseWriter") && isType(signature.Params().At(1).Type(), "net/http", "Request")
}

// takesRequest reports whether a function of type t serves requests, of net/http or of a router with contexts of its own.
func takesRequest(t types.Type) bool {
	signature, ok := t.Underlying().(*types.Signature)
	if !ok {
		return false
	}
	params := signature.Params()
	if params.Len() != 1 {
		return isHandlerFunc(signature)
	}
	only := params.At(0).Type()
	return isType(only, gin, "Context") || isType(only, echo4, "Context") || isType(only, echo5, "Context")
}

// handles reports whether a value of type t can be a handler or a middleware.
func handles(t types.Type) bool {
	if t == nil {
		return false
	}
	if slice, ok := t.Underlying().(*types.Slice); ok {
		t = slice.Elem()
	}
	if method, _, _ := types.LookupFieldOrMethod(t, true, nil, "ServeHTTP"); method != nil {
		return true
	}
	signature, ok := t.Underlying().(*types.Signature)
	if !ok {
		return false
	}
	return takesRequest(t) || signature.Params().Len() == 1 && signature.Results().Len() == 1 &&
		handles(signature.Params().At(0).Type()) && handles(signature.Results().At(0).Type())
}

// receiverName is the name of the type that has the method, or "" for a function.
func receiverName(fn *types.Func) string {
	if recv := fn.Signature().Recv(); recv != nil {
		if named := namedOf(recv.Type()); named != nil {
			return named.Obj().Name()
		}
	}
	return ""
}

func namedOf(t types.Type) *types.Named {
	if t == nil {
		return nil
	}
	if pointer, ok := types.Unalias(t).(*types.Pointer); ok {
		t = pointer.Elem()
	}
	named, _ := types.Unalias(t).(*types.Named)
	return named
}

// isRouter reports whether routes are registered on values of this type, so that a handler of this type has been checked route by route.
func isRouter(t types.Type) bool {
	named := namedOf(t)
	if named == nil || named.Obj().Pkg() == nil {
		return false
	}
	for _, name := range receivers[named.Obj().Pkg().Path()] {
		if name == named.Obj().Name() {
			return true
		}
	}
	return false
}

func isType(t types.Type, path, name string) bool {
	named := namedOf(t)
	return named != nil && named.Obj().Pkg() != nil && named.Obj().Pkg().Path() == path && named.Obj().Name() == name
}

func isFunc(obj types.Object, path, name string) bool {
	fn, ok := obj.(*types.Func)
	return ok && fn.Pkg() != nil && fn.Pkg().Path() == path && fn.Name() == name && fn.Signature().Recv() == nil
}

// mutates reports whether a route for this method must be declared.
func mutates(method string) bool {
	return method == anyMethod || method == "POST" || method == "PUT" || method == "PATCH"
}
