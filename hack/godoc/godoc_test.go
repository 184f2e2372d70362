// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package godoc checks that what an application can name is documented. The linter sees to types, functions and methods; a field, a method of an
// interface or a constant in a group passes it without a word, and those are where a reader looks for units and defaults.
package godoc

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// root is the folder of the modules that applications import.
const root = "../../pkg"

func TestEveryPublicNameIsDocumented(t *testing.T) {
	files := 0
	err := filepath.WalkDir(root, func(path string, entry fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case entry.IsDir() && (entry.Name() == "internal" || entry.Name() == "testdata"):
			return filepath.SkipDir
		case entry.IsDir() || !strings.HasSuffix(path, ".go") || strings.HasSuffix(path, "_test.go"):
			return nil
		}
		files++
		missing, err := undocumented(path, nil)
		for _, name := range missing {
			t.Errorf("%s has no comment", name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	if files < 50 {
		t.Errorf("only %d files were found under %s", files, root)
	}
}

// undocumented tells the public names of a file that have no comment of their own and are not named in that of their group or type, or of a sibling. With
// source it reads that instead of the file.
func undocumented(path string, source any) (missing []string, err error) {
	set := token.NewFileSet()
	file, err := parser.ParseFile(set, path, source, parser.ParseComments)
	if err != nil || file.Name.Name == "main" {
		return nil, err
	}
	note := func(name *ast.Ident, of string, around []*ast.CommentGroup, comments ...*ast.CommentGroup) {
		named := regexp.MustCompile(`\b` + name.Name + `\b`)
		if !name.IsExported() || slices.ContainsFunc(comments, func(c *ast.CommentGroup) bool { return c.Text() != "" }) ||
			slices.ContainsFunc(around, func(c *ast.CommentGroup) bool { return named.MatchString(c.Text()) }) {
			return
		}
		missing = append(missing, fmt.Sprintf("%s: %s%s", set.Position(name.Pos()), of, name.Name))
	}
	for _, d := range file.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			// What Error does is known.
			if d.Recv == nil || (ast.IsExported(receiver(d.Recv.List[0].Type)) && d.Name.Name != "Error") {
				note(d.Name, "", nil, d.Doc)
			}
		case *ast.GenDecl:
			around := []*ast.CommentGroup{d.Doc}
			for _, spec := range d.Specs {
				if value, ok := spec.(*ast.ValueSpec); ok {
					around = append(around, value.Doc)
				}
			}
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					note(spec.Name, "", nil, d.Doc, spec.Doc, spec.Comment)
					if spec.Name.IsExported() {
						members(spec, []*ast.CommentGroup{d.Doc, spec.Doc}, note)
					}
				case *ast.ValueSpec:
					comments := []*ast.CommentGroup{spec.Doc, spec.Comment}
					if !d.Lparen.IsValid() {
						comments = append(comments, d.Doc)
					}
					for _, name := range spec.Names {
						note(name, "", around, comments...)
					}
				}
			}
		}
	}
	return missing, nil
}

// members are the fields of a struct and the methods of an interface. Embedded ones have the documentation of their type.
func members(spec *ast.TypeSpec, around []*ast.CommentGroup, note func(name *ast.Ident, of string, around []*ast.CommentGroup, comments ...*ast.CommentGroup)) {
	var fields *ast.FieldList
	switch kind := spec.Type.(type) {
	case *ast.StructType:
		fields = kind.Fields
	case *ast.InterfaceType:
		fields = kind.Methods
	default:
		return
	}
	for _, field := range fields.List {
		around = append(around, field.Doc)
	}
	for _, field := range fields.List {
		for _, name := range field.Names {
			note(name, spec.Name.Name+".", around, field.Doc, field.Comment)
		}
	}
}

// receiver is the name of the type of a method.
func receiver(expr ast.Expr) string {
	switch e := expr.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}

func TestWhatIsMissingIsFound(t *testing.T) {
	const source = `package p

type Bare struct {
	Field int
	// Told is documented.
	Told  int
	Beside int // Also in this way.
	// First and Second belong together.
	First  int
	Second int
	Embedded
	hidden int
}

// Doc is documented.
type Doc interface { Method() }

func (*Bare) Do() {}
func (Generic[T]) Do() {}
func (hidden) Do() {}
func (*Bare) Error() string { return "" }
func F() {}

// A group has one comment, its constants need their own.
const (
	One = 1
	// Two is documented.
	Two = 2
)

// Three is documented.
const Three = 3
`
	missing, err := undocumented("p.go", source)
	if err != nil {
		t.Fatal(err)
	}
	var names []string
	for _, m := range missing {
		names = append(names, m[strings.LastIndex(m, " ")+1:])
	}
	if want := []string{"Bare", "Bare.Field", "Doc.Method", "Do", "Do", "F", "One"}; !slices.Equal(names, want) {
		t.Errorf("found %q, want %q", names, want)
	}
}
