// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"regexp"
	"slices"
	"strconv"
	"strings"
)

// catalogue is what the constants and their comments say.
type catalogue struct{ kinds []kind }

// kind is a kind of object and its conditions.
type kind struct {
	name       string
	conditions []*condition
}

// condition is a type of condition and the reasons that it can have.
type condition struct {
	value, meaning string
	// note is what the comment of the reasons says about all of them.
	note    string
	reasons []reason
}

// reason has a remedy unless all is well, or nothing can be done but wait.
type reason struct{ value, meaning, remedy string }

var (
	typesOf   = regexp.MustCompile(`^Types of the conditions of a (\w+)[.,]`)
	reasonsOf = regexp.MustCompile(`^Reasons of (\w+)\. ?`)
)

// parse reads the constants. Groups of them must have one of two comments, "Types of the conditions of a <kind>" or "Reasons of <condition>", and
// each constant the comment "<name>: <meaning>. <remedy>", or "<name> <meaning>" for a type.
func parse(name string, content []byte) (catalogue, error) {
	file, err := parser.ParseFile(token.NewFileSet(), name, content, parser.ParseComments)
	if err != nil {
		return catalogue{}, err
	}
	var (
		result   catalogue
		byName   = map[string]*condition{}
		values   = map[string]string{}
		problems []error
	)
	for _, declaration := range file.Decls {
		group, isGroup := declaration.(*ast.GenDecl)
		if !isGroup || group.Tok != token.CONST {
			continue
		}
		constants, err := constantsOf(group)
		problems = append(problems, err)
		for _, c := range constants {
			// A reason and a type may be the same word, two reasons not.
			key := c.value
			if strings.HasPrefix(c.name, "Condition") {
				key = "type " + c.value
			}
			if other, twice := values[key]; twice {
				problems = append(problems, fmt.Errorf("%s and %s are both %q", other, c.name, c.value))
			}
			values[key] = c.name
		}
		comment := flat(group.Doc)
		if match := typesOf.FindStringSubmatch(comment); match != nil {
			k := kind{name: match[1]}
			for _, c := range constants {
				byName[c.value] = &condition{value: c.value, meaning: c.text}
				k.conditions = append(k.conditions, byName[c.value])
			}
			result.kinds = append(result.kinds, k)
			continue
		}
		match := reasonsOf.FindStringSubmatch(comment)
		if match == nil || byName[match[1]] == nil {
			problems = append(problems, fmt.Errorf("the comment %q names no kind and no condition that is above it", comment))
			continue
		}
		of := byName[match[1]]
		of.note = strings.TrimPrefix(comment, match[0])
		for i, c := range constants {
			meaning, remedy, hasRemedy := strings.Cut(c.text, ". ")
			if i > 0 && !hasRemedy {
				problems = append(problems, fmt.Errorf("the comment of %s has one sentence: say in a second one what to do, or that nothing is to be done", c.name))
			}
			of.reasons = append(of.reasons, reason{c.value, strings.TrimSuffix(meaning, ".") + ".", remedy})
		}
	}
	return result, errors.Join(append(problems, complete(&result, byName))...)
}

// complete gives the conditions that several kinds have to each of them, and finds those that were forgotten.
func complete(result *catalogue, byName map[string]*condition) error {
	if len(result.kinds) == 0 {
		return errors.New("there are no types of conditions")
	}
	var problems []error
	for i, k := range result.kinds {
		for _, c := range k.conditions {
			if len(c.reasons) == 0 {
				problems = append(problems, fmt.Errorf("condition %s of %s has no reasons", c.value, k.name))
			}
		}
		// Every kind has it, and it is declared once.
		ready := byName["Ready"]
		if ready != nil && !slices.Contains(k.conditions, ready) {
			result.kinds[i].conditions = append(k.conditions, ready)
		}
	}
	return errors.Join(problems...)
}

// constant is one of them, and the text of its comment without its name.
type constant struct{ name, value, text string }

func constantsOf(group *ast.GenDecl) ([]constant, error) {
	var (
		result   []constant
		problems []error
	)
	for _, spec := range group.Specs {
		value, isValue := spec.(*ast.ValueSpec)
		if !isValue || len(value.Names) != 1 || len(value.Values) != 1 {
			return nil, errors.New("every constant needs a line and a value of its own")
		}
		name := value.Names[0].Name
		literal, isLiteral := value.Values[0].(*ast.BasicLit)
		if !isLiteral || literal.Kind != token.STRING {
			problems = append(problems, fmt.Errorf("%s is not a plain string", name))
			continue
		}
		text, err := strconv.Unquote(literal.Value)
		if err != nil {
			problems = append(problems, fmt.Errorf("%s: %w", name, err))
			continue
		}
		comment, found := strings.CutPrefix(flat(value.Doc), name)
		comment = strings.TrimSpace(strings.TrimPrefix(comment, ":"))
		if !found || comment == "" {
			problems = append(problems, fmt.Errorf("%s needs a comment that begins with its name", name))
			continue
		}
		result = append(result, constant{name, text, comment})
	}
	return result, errors.Join(problems...)
}

// flat gives a comment as one line.
func flat(comment *ast.CommentGroup) string { return strings.Join(strings.Fields(comment.Text()), " ") }
