// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package lockstead

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestLocate(t *testing.T) {
	root := func(providers map[string]string) string {
		dir := t.TempDir()
		for name, provider := range providers {
			if err := os.Mkdir(filepath.Join(dir, name), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(filepath.Join(dir, name, "provider"), []byte(provider), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		return dir
	}
	one := root(map[string]string{"db": "postgres", "locks": "lockstead\n"})
	none := root(map[string]string{"db": "postgres"})
	two := root(map[string]string{"a": "lockstead", "b": "lockstead"})
	for name, tc := range map[string]struct {
		given, binding, root string
		want                 string
		wantErr              []string
	}{
		"the option wins":                       {given: "/given", binding: "/env", root: one, want: "/given"},
		"then the variable":                     {binding: "/env", root: one, want: "/env"},
		"then the one under the root":           {root: one, want: filepath.Join(one, "locks")},
		"none under the root":                   {root: none, want: DefaultBindingDir},
		"nothing set":                           {want: DefaultBindingDir},
		"two under the root are named":          {root: two, wantErr: []string{filepath.Join(two, "a"), filepath.Join(two, "b"), EnvBinding}},
		"a root that is not there is an error":  {root: filepath.Join(none, "nowhere"), wantErr: []string{EnvServiceBindingRoot}},
		"two under the root, but one was given": {binding: filepath.Join(two, "b"), root: two, want: filepath.Join(two, "b")},
	} {
		t.Run(name, func(t *testing.T) {
			got, err := locate(tc.given, func(key string) string {
				return map[string]string{EnvBinding: tc.binding, EnvServiceBindingRoot: tc.root}[key]
			})
			if got != tc.want || (err != nil) != (tc.wantErr != nil) {
				t.Fatalf("got %q, %v; want %q", got, err, tc.want)
			}
			for _, part := range tc.wantErr {
				if !strings.Contains(err.Error(), part) {
					t.Errorf("error %q does not say %q", err, part)
				}
			}
		})
	}
}
