// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package trackrecord checks that the tests that docs/track-record.md names exist.
package trackrecord

import (
	"errors"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
)

const (
	root = "../.."
	page = "docs/track-record.md"
)

// row is a line of the tables.
type row struct {
	number, where, what, here string
}

// rows reads all tables of a page.
func rows(markdown string) []row {
	var all []row
	for line := range strings.Lines(markdown) {
		cells := strings.Split(strings.TrimSpace(line), "|")
		if len(cells) != 6 || strings.HasPrefix(strings.TrimSpace(cells[1]), "-") || strings.TrimSpace(cells[1]) == "#" {
			continue
		}
		all = append(all, row{strings.TrimSpace(cells[1]), strings.TrimSpace(cells[2]), strings.TrimSpace(cells[3]), strings.TrimSpace(cells[4])})
	}
	return all
}

// reference is a package, the name of a test, or the name of a test of a suite.
var reference = regexp.MustCompile("`(pkg/[a-z/]+)`|\\b(Test[A-Za-z0-9_]+)|\"([^\"]+)\"")

// check returns what is wrong with a row.
func check(r row, exists func(folder, test string) (bool, error)) error {
	var errs []error
	if !strings.HasPrefix(r.number, "V") && !strings.HasPrefix(r.where, "[") {
		errs = append(errs, errors.New("there is no link to the report"))
	}
	folder, named := "", 0
	for _, found := range reference.FindAllStringSubmatch(r.here, -1) {
		if found[1] != "" {
			folder = found[1]
			continue
		}
		test := found[2] + found[3]
		if found[3] != "" && folder != "pkg/lock/locktest" {
			continue // A quotation in the text.
		}
		named++
		switch ok, err := exists(folder, test); {
		case err != nil:
			errs = append(errs, err)
		case !ok:
			errs = append(errs, fmt.Errorf("%s has no test %q", folder, test))
		}
	}
	if named == 0 && !strings.HasPrefix(r.here, "Cannot arise: ") && !strings.HasPrefix(r.here, "Limit: ") {
		errs = append(errs, errors.New(`it names no test, and does not begin with "Cannot arise: " or "Limit: "`))
	}
	return errors.Join(errs...)
}

// tests finds the names of the tests of a folder: its test functions, and for a suite every text in it.
type tests map[string]map[string]bool

func (t tests) exists(folder, test string) (bool, error) {
	if t[folder] == nil {
		names, err := namesOf(filepath.Join(root, folder))
		if err != nil {
			return false, err
		}
		t[folder] = names
	}
	return t[folder][test], nil
}

func namesOf(folder string) (map[string]bool, error) {
	entries, err := os.ReadDir(folder)
	if err != nil {
		return nil, err
	}
	suite := filepath.Base(folder) == "locktest"
	names := make(map[string]bool)
	for _, entry := range entries {
		if entry.IsDir() || !strings.HasSuffix(entry.Name(), ".go") || !suite && !strings.HasSuffix(entry.Name(), "_test.go") {
			continue
		}
		file, err := parser.ParseFile(token.NewFileSet(), filepath.Join(folder, entry.Name()), nil, parser.SkipObjectResolution)
		if err != nil {
			return nil, err
		}
		ast.Inspect(file, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.FuncDecl:
				if n.Recv == nil && strings.HasPrefix(n.Name.Name, "Test") {
					names[n.Name.Name] = true
				}
			case *ast.CompositeLit:
				// An entry of a suite is {"its name", itsFunction}.
				if !suite || len(n.Elts) != 2 {
					break
				}
				name, ok := n.Elts[0].(*ast.BasicLit)
				function, isFunction := n.Elts[1].(*ast.Ident)
				if ok && isFunction && name.Kind == token.STRING && strings.HasPrefix(function.Name, "test") {
					if text, err := strconv.Unquote(name.Value); err == nil {
						names[text] = true
					}
				}
			}
			return true
		})
	}
	return names, nil
}

func TestTheTestsExist(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile(filepath.Join(root, page))
	if err != nil {
		t.Fatal(err)
	}
	found, seen := tests{}, make(map[string]bool)
	for _, r := range rows(string(content)) {
		if seen[r.number] {
			t.Errorf("%s: row %s is there twice", page, r.number)
		}
		seen[r.number] = true
		if err := check(r, found.exists); err != nil {
			t.Errorf("%s: row %s: %v", page, r.number, err)
		}
	}
	for last, prefix := range map[int]string{25: "", 13: "V"} {
		for i := range last {
			if number := prefix + strconv.Itoa(i+1); !seen[number] {
				t.Errorf("%s: row %s is missing", page, number)
			}
		}
	}
}

func TestWhatIsRefused(t *testing.T) {
	t.Parallel()
	const link = "[a #1](https://example.org/1)"
	found := tests{}
	for name, tc := range map[string]struct {
		row  row
		want string
	}{
		"a test function":            {row{"1", link, "x", "`pkg/lock` TestDeadline"}, ""},
		"a test of the suite":        {row{"1", link, "x", "`pkg/lock/locktest` \"release is idempotent\""}, ""},
		"a reason":                   {row{"1", link, "x", "Cannot arise: there is no such thing."}, ""},
		"a function that is missing": {row{"1", link, "x", "`pkg/lock` TestDeadline, TestNoSuchThing"}, `pkg/lock has no test "TestNoSuchThing"`},
		"a test of another package":  {row{"1", link, "x", "`pkg/lock/redislock` TestDeadline"}, "pkg/lock/redislock has no test"},
		"a name that is missing":     {row{"1", link, "x", "`pkg/lock/locktest` \"release is idempotent\", \"all is well\""}, `has no test "all is well"`},
		"a text that is no test":     {row{"1", link, "x", "`pkg/lock/locktest` \"exclusion\""}, `has no test "exclusion"`},
		"a package that is missing":  {row{"1", link, "x", "`pkg/nothing` TestDeadline"}, "no such file"},
		"no link":                    {row{"1", "a #1", "x", "`pkg/lock` TestDeadline"}, "no link"},
		"no test and no reason":      {row{"1", link, "x", "All is well."}, "names no test"},
	} {
		t.Run(name, func(t *testing.T) {
			err := check(tc.row, found.exists)
			if tc.want == "" && err != nil || tc.want != "" && (err == nil || !strings.Contains(err.Error(), tc.want)) {
				t.Errorf("got %v, want %q", err, tc.want)
			}
		})
	}
	if got := rows("| # | where | what | here |\n| --- | --- | --- | --- |\n| 7 | a | b | c |\ntext\n"); len(got) != 1 || got[0] != (row{"7", "a", "b", "c"}) {
		t.Errorf("rows: %+v", got)
	}
}
