// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package boundary

import (
	"strings"
	"testing"
)

// The rules must be able to fail: each forbidden dependency is planted once.
func TestViolations(t *testing.T) {
	t.Parallel()
	tests := map[string]struct {
		pkg  goPackage
		want string // part of the only sentence; empty: nothing is wrong
	}{
		"core on the standard library":      {goPackage{Path: libraryModule + "/lock", Deps: []string{"context", "net/http", libraryModule + "/lock/driver"}}, ""},
		"core on a third party":             {goPackage{Path: libraryModule + "/lock", Deps: []string{"github.com/redis/go-redis/v9"}}, "standard library only"},
		"Redis driver on its client":        {goPackage{Path: libraryModule + "/lock/redislock", Deps: []string{"github.com/redis/go-redis/v9"}}, ""},
		"Redis driver on Kubernetes":        {goPackage{Path: libraryModule + "/lock/redislock", Deps: []string{"k8s.io/apimachinery/pkg/types"}}, "may depend on Kubernetes"},
		"binding on sigs.k8s.io":            {goPackage{Path: libraryModule + "/binding", Deps: []string{"sigs.k8s.io/yaml"}}, "may depend on Kubernetes"},
		"front door on Kubernetes":          {goPackage{Path: frontModule, Deps: []string{"k8s.io/client-go/rest"}}, ""},
		"lease driver on the API":           {goPackage{Path: frontModule + "/leaselock", Deps: []string{rootModule + "/api/v1alpha1"}}, "must not import the operator"},
		"lock on the front door":            {goPackage{Path: libraryModule + "/lock/redislock", Deps: []string{frontModule}}, "must not depend on module pkg/lockstead"},
		"lock on an adapter":                {goPackage{Path: libraryModule + "/lock", Deps: []string{adaptersModule + "/cronlock"}}, "must not depend on module pkg/adapters"},
		"front door on an adapter":          {goPackage{Path: frontModule, Deps: []string{adaptersModule + "/cronlock"}}, "must not depend on module pkg/adapters"},
		"adapter on its library":            {goPackage{Path: adaptersModule + "/cronlock", Deps: []string{"github.com/robfig/cron/v3", libraryModule + "/lock"}}, ""},
		"adapter on the front door":         {goPackage{Path: adaptersModule + "/cronlock", Deps: []string{frontModule}}, "must not depend on module pkg/lockstead"},
		"testing in an application's build": {goPackage{Path: libraryModule + "/lock/redislock", Deps: []string{"testing"}}, "linked into applications"},
		"testing in the conformance suite":  {goPackage{Path: libraryModule + "/lock/locktest", Deps: []string{"testing"}}, ""},
		"testing below the suite":           {goPackage{Path: libraryModule + "/lock/locktest/faultproxy", Deps: []string{"testing"}}, ""},
		"a test on Kubernetes":              {goPackage{Path: libraryModule + "/lock", TestImports: []string{"k8s.io/client-go/rest"}}, "tests of the library"},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := violations(tc.pkg)
			switch {
			case tc.want == "" && len(got) > 0:
				t.Errorf("violations: %q, want none", got)
			case tc.want != "" && (len(got) != 1 || !strings.Contains(got[0], tc.want)):
				t.Errorf("violations: %q, want one with %q", got, tc.want)
			}
		})
	}
}
