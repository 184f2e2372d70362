// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"strings"
	"testing"
)

const constants = `package v1alpha1

// Types of the conditions of a Widget. Ready of a Gadget has the same name.
const (
	// ConditionBuilt: it is
	// built.
	ConditionBuilt = "Built"
	// ConditionReady sums up the others.
	ConditionReady = "Ready"
)

// Types of the conditions of a Gadget, beside Ready.
const (
	// ConditionSold: somebody has it.
	ConditionSold = "Sold"
)

// Reasons of Built. All are final.
const (
	// ReasonBuilt: it is.
	ReasonBuilt = "Built"
	// ReasonTooBig: size.max | is exceeded. Use <less> * than "10_m".
	ReasonTooBig = "TooBig"
)

// Reasons of Ready.
const (
	// ReasonReady: all is well.
	ReasonReady = "Ready"
)

// Reasons of Sold.
const (
	// ReasonSold: it is.
	ReasonSold = "Sold"
)
`

func TestPage(t *testing.T) {
	t.Parallel()
	c, err := parse("conditions.go", []byte(constants))
	if err != nil {
		t.Fatal(err)
	}
	page := markdown(c)
	if !strings.HasPrefix(page, head) {
		t.Error("the page does not begin with its head")
	}
	want := `
## Widget

### Built of a Widget

It is built.

All are final.

| Reason | What it means | What to do |
| --- | --- | --- |
| ` + "`Built`" + ` | It is. |  |
| ` + "`TooBig`" + ` | size.max \| is exceeded. | Use &lt;less> \* than "10\_m". |

### Ready of a Widget

Sums up the others.

| Reason | What it means | What to do |
| --- | --- | --- |
| ` + "`Ready`" + ` | All is well. |  |

## Gadget

### Sold of a Gadget

Somebody has it.

| Reason | What it means | What to do |
| --- | --- | --- |
| ` + "`Sold`" + ` | It is. |  |

### Ready of a Gadget

Sums up the others.

| Reason | What it means | What to do |
| --- | --- | --- |
| ` + "`Ready`" + ` | All is well. |  |
`
	if got := strings.TrimPrefix(page, head); got != want {
		t.Errorf("the page:\n%s\nwant:\n%s", got, want)
	}
}

func TestRefusedConstants(t *testing.T) {
	t.Parallel()
	for name, tc := range map[string]struct{ old, new, want string }{
		"a reason without a comment":     {"	// ReasonReady: all is well.\n", "", "ReasonReady needs a comment"},
		"the comment of another":         {"ReasonReady: all", "ReasonRead: all", "ReasonReady needs a comment"},
		"a fault without a remedy":       {" Use <less> * than \"10_m\".", "", "ReasonTooBig has one sentence"},
		"the same reason twice":          {`= "Sold"` + "\n)\n\n// Reasons of Built", `= "Ready"` + "\n)\n\n// Reasons of Built", "are both"},
		"a group without a heading":      {"Reasons of Sold.", "What is sold.", "names no kind and no condition"},
		"reasons of an unknown type":     {"Reasons of Sold.", "Reasons of Bought.", "names no kind and no condition"},
		"a condition without any reason": {constants[strings.Index(constants, "// Reasons of Sold."):], "", "condition Sold of Gadget has no reasons"},
		"no constants":                   {constants, "package v1alpha1\n", "no types of conditions"},
		"a value that is computed":       {`ReasonReady = "Ready"`, `ReasonReady = "Rea" + "dy"`, "ReasonReady is not a plain string"},
		"several in a line":              {`ReasonReady = "Ready"`, `ReasonReady, ReasonDone = "Ready", "Done"`, "a line and a value of its own"},
		"no Go":                          {"package v1alpha1", "pack", "expected 'package'"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			content := strings.Replace(constants, tc.old, tc.new, 1)
			if content == constants {
				t.Fatal("the case changes nothing")
			}
			if _, err := parse("conditions.go", []byte(content)); err == nil || !strings.Contains(err.Error(), tc.want) {
				t.Errorf("error %v, want one with %q", err, tc.want)
			}
		})
	}
}

func TestPageIsUpToDate(t *testing.T) {
	t.Parallel()
	content, err := os.ReadFile("../../" + source)
	if err != nil {
		t.Fatal(err)
	}
	c, err := parse(source, content)
	if err != nil {
		t.Fatal(err)
	}
	written, err := os.ReadFile("../../" + page)
	if err != nil {
		t.Fatal(err)
	}
	if string(written) != markdown(c) {
		t.Errorf("%s differs from the comments in %s; run 'make manifests'", page, source)
	}
}
