// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package kubectl

import (
	"encoding/json"
	"fmt"
	"io"
	"strconv"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apimachinery/pkg/util/duration"
	"sigs.k8s.io/yaml"
)

// The forms of -o.
const (
	formatTable = ""
	formatWide  = "wide"
	formatJSON  = "json"
	formatYAML  = "yaml"
)

// outputVersion is the version of what -o json and -o yaml print. Entries are only added within a version.
const outputVersion = "cli.lockstead.dev/v1alpha1"

// typed begins every document that is printed for programs.
type typed struct {
	APIVersion string `json:"apiVersion"`
	Kind       string `json:"kind"`
}

func addOutput(flags *pflag.FlagSet, format *string) {
	flags.StringVarP(format, "output", "o", formatTable, "json, yaml or wide (default: a table)")
}

func checkOutput(format string) error {
	switch format {
	case formatTable, formatWide, formatJSON, formatYAML:
		return nil
	}
	return usagef("there is no output format %q: choose json, yaml or wide", format)
}

// printDocument prints a document for programs.
func printDocument(out io.Writer, format string, document any) error {
	text, err := json.MarshalIndent(document, "", "  ")
	if err == nil && format == formatYAML {
		text, err = yaml.JSONToYAML(text)
	}
	if err != nil {
		return &Problem{Err: err, Text: "this is a fault of the program: " + oneLine(err.Error())}
	}
	return write(out, strings.TrimRight(string(text), "\n")+"\n")
}

func write(out io.Writer, text string) error {
	if _, err := io.WriteString(out, text); err != nil {
		return &Problem{Err: err, Text: "cannot print: " + oneLine(err.Error()) + ": see where the output goes"}
	}
	return nil
}

// table lays out rows as kubectl does. The last column is not padded.
func table(header []string, rows [][]string) string {
	var b strings.Builder
	w := tabwriter.NewWriter(&b, 0, 0, 3, ' ', 0)
	fmt.Fprintln(w, strings.Join(header, "\t"))
	for _, row := range rows {
		fmt.Fprintln(w, strings.Join(row, "\t"))
	}
	_ = w.Flush() // To memory.
	return b.String()
}

// shown is a text from an application as one cell: keys and owners may have anything in them, and must neither move the cursor nor break
// the table.
func shown(text string) string {
	if text == "" {
		return "-"
	}
	for _, r := range text {
		if !strconv.IsPrint(r) {
			return strconv.Quote(text)
		}
	}
	return text
}

// span is a duration as kubectl writes ages.
func span(d time.Duration) string {
	if d < 0 {
		d = 0 // The clocks of two machines.
	}
	return duration.HumanDuration(d)
}

func orDash(text string) string {
	if text == "" {
		return "-"
	}
	return text
}
