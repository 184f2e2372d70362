// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Command idemlint finds HTTP routes that do not say what a repeated request does.
//
//	idemlint [-inventory routes.json] [-baseline old.json] [-write] [packages]
//	go vet -vettool=$(which idemlint) [packages]
//
// By itself it also compares the routes of the packages with an inventory, and tolerates the findings of a baseline. Packages default to ./... .
//
// Exit status: 0 for no finding, 1 for findings, an inventory that differs, or a baseline that must shrink, 2 for a run that failed.
package main

import (
	"fmt"
	"os"
	"strings"

	"golang.org/x/tools/go/analysis/unitchecker"

	"github.com/lockstead/lockstead/pkg/idemlint"
)

func main() {
	if calledByVet(os.Args[1:]) {
		unitchecker.Main(idemlint.Analyzer)
	}
	clean, err := run(os.Args[1:], os.Stdout, os.Stderr)
	switch {
	case err != nil:
		fmt.Fprintln(os.Stderr, "idemlint:", err)
		os.Exit(2)
	case !clean:
		os.Exit(1)
	}
}

// calledByVet recognises how go vet calls its tool.
func calledByVet(args []string) bool {
	for _, arg := range args {
		if arg == "-V=full" || arg == "-flags" || strings.HasSuffix(arg, ".cfg") {
			return true
		}
	}
	return false
}
