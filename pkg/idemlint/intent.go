// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package idemlint

import (
	"fmt"
	"go/ast"
	goconstant "go/constant"
	"go/types"
	"slices"
	"strings"
	"time"
	"unicode"
)

// Intent is what a declaration says about a repeated request.
type Intent struct {
	// Decision is "idempotent" or "non-idempotent".
	Decision string `json:"decision"`
	// Reason is that of a non-idempotent route.
	Reason string `json:"reason,omitempty"`
	// Retention is how long an answer is kept, such as "24h0m0s"; empty if it is the default or not a constant.
	Retention string `json:"retention,omitempty"`
	// Required and FailClosed are those of the policy, where they are the constant true.
	Required   bool `json:"required,omitempty"`
	FailClosed bool `json:"failClosed,omitempty"`
}

const (
	idempotent    = "idempotent"
	nonIdempotent = "non-idempotent"
)

// intent reads an expression of type idempotency.Declaration: what it says, or the parameter that will say it. Neither is ok == false.
func (s *source) intent(e ast.Expr, depth int) (says *Intent, given *param, ok bool) {
	e = ast.Unparen(e)
	if p, found := s.param(e); found {
		return nil, &p, true
	}
	if depth > maxDepth {
		return nil, nil, false
	}
	if call, isCall := e.(*ast.CallExpr); isCall {
		callee := s.callee(call)
		switch {
		case isFunc(callee, declarator, "Idempotent") && len(call.Args) == 1:
			says := s.policy(call.Args[0])
			return &says, nil, true
		case isFunc(callee, declarator, "NonIdempotent") && len(call.Args) == 1:
			reason, _, _ := s.template(call.Args[0], 0)
			joined, _ := join(reason)
			return &Intent{Decision: nonIdempotent, Reason: joined}, nil, true
		}
		says := s.holds(callee, depth+1).Result.Intent
		return says, nil, says != nil
	}
	switch obj := s.object(e).(type) {
	case *types.Var:
		if value, found := s.values[obj]; found {
			return s.intent(value, depth+1)
		}
		says := s.holds(obj, depth+1).Result.Intent
		return says, nil, says != nil
	}
	return nil, nil, false
}

// policy reads what is constant in a literal of idempotency.Policy.
func (s *source) policy(e ast.Expr) Intent {
	says := Intent{Decision: idempotent}
	e = ast.Unparen(e)
	if value, found := s.values[s.object(e)]; found {
		e = ast.Unparen(value)
	}
	literal, ok := e.(*ast.CompositeLit)
	if !ok {
		return says
	}
	for _, element := range literal.Elts {
		pair, ok := element.(*ast.KeyValueExpr)
		if !ok {
			continue
		}
		name, ok := pair.Key.(*ast.Ident)
		value := s.pass.TypesInfo.Types[pair.Value].Value
		if !ok || value == nil {
			continue
		}
		switch name.Name {
		case "Retention":
			if nanoseconds, exact := goconstant.Int64Val(value); exact && nanoseconds != 0 {
				says.Retention = time.Duration(nanoseconds).String()
			}
		case "Required":
			says.Required = goconstant.BoolVal(value)
		case "FailClosed":
			says.FailClosed = goconstant.BoolVal(value)
		}
	}
	return says
}

// minReason is the length of the shortest reason that can say something.
const minReason = 10

// placeholders are what people write to have the check pass.
var placeholders = []string{
	"todo", "fixme", "tbd", "tba", "xxx", "wip", "placeholder", "legacy", "temp", "temporary", "none", "na", "unknown", "reason", "because",
	"not idempotent", "nonidempotent", "non idempotent", "no reason", "to be done", "to be decided", "to be determined", "to be defined",
	"fill in", "fill me in", "some reason", "asdf", "test", "n a", "later", "ignore", "skip", "see above", "legacy code", "legacy route",
}

// checkReason says what is wrong with the reason of a non-idempotent route, or "".
func checkReason(reason string) string {
	words := strings.FieldsFunc(strings.ToLower(reason), func(r rune) bool { return !unicode.IsLetter(r) && !unicode.IsDigit(r) })
	spoken := strings.Join(words, " ")
	switch {
	case len(words) == 0:
		return "the reason is empty"
	case slices.Contains(placeholders, spoken), slices.Contains([]string{"todo", "fixme", "tbd", "xxx", "wip", "placeholder"}, words[0]):
		return fmt.Sprintf("the reason %q is a placeholder", reason)
	case len(strings.TrimSpace(reason)) < minReason || len(words) < 2:
		return fmt.Sprintf("the reason %q is too short", reason)
	}
	return ""
}
