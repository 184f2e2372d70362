// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package apply

import (
	"encoding/json"
	"testing"
)

func TestContains(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct {
		have, want string
		contained  bool
	}{
		"same":                             {`{"a":1}`, `{"a":1}`, true},
		"defaulted field":                  {`{"a":1,"b":2}`, `{"a":1}`, true},
		"other value":                      {`{"a":2}`, `{"a":1}`, false},
		"missing field":                    {`{}`, `{"a":1}`, false},
		"missing empty object":             {`{}`, `{"a":{}}`, true},
		"missing object":                   {`{}`, `{"a":{"b":1}}`, false},
		"defaulted field in an element":    {`{"a":[{"b":1,"c":2}]}`, `{"a":[{"b":1}]}`, true},
		"further element":                  {`{"a":[1,2]}`, `{"a":[1]}`, false},
		"other order":                      {`{"a":[2,1]}`, `{"a":[1,2]}`, false},
		"another type":                     {`{"a":"1"}`, `{"a":1}`, false},
		"object in the place of something": {`{"a":{}}`, `{"a":"x"}`, false},
	} {
		var have, want any
		if err := json.Unmarshal([]byte(tc.have), &have); err != nil {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(tc.want), &want); err != nil {
			t.Fatal(err)
		}
		if got := contains(have, want); got != tc.contained {
			t.Errorf("%s: contains is %t", name, got)
		}
	}
}

func TestTheDigestFollowsTheContent(t *testing.T) {
	t.Parallel()
	object := func(label string) map[string]any {
		return map[string]any{"apiVersion": "v1", "kind": "Service", "metadata": map[string]any{"name": "a", "labels": map[string]any{"l": label}}}
	}
	digest := func(object map[string]any) string {
		want, err := marked(object)
		if err != nil {
			t.Fatal(err)
		}
		return want.GetAnnotations()[AnnotationApplied]
	}
	if a, b := digest(object("1")), digest(object("1")); a != b || a == "" {
		t.Errorf("digests of one object: %q and %q", a, b)
	}
	if digest(object("1")) == digest(object("2")) {
		t.Error("two objects have one digest")
	}
}
