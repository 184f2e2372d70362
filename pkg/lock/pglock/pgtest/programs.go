// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package pgtest

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
)

// ProgramsVariable names the environment variable with the folder of a PostgreSQL server's programs.
const ProgramsVariable = "LOCKSTEAD_POSTGRES"

// programs returns the folder with initdb and postgres: what the variable says, else what the repository's script finds or installs.
func programs() (string, error) {
	dir := os.Getenv(ProgramsVariable)
	if dir == "" {
		var err error
		if dir, err = fromScript(); err != nil {
			return "", err
		}
	}
	for _, program := range []string{"initdb", "postgres"} {
		if _, err := exec.LookPath(filepath.Join(dir, program)); err != nil {
			return "", fmt.Errorf("pgtest: no %s in %s: install PostgreSQL, or set %s to the folder of its programs: %w", program, dir, ProgramsVariable, err)
		}
	}
	return dir, nil
}

func fromScript() (string, error) {
	dir, err := os.Getwd()
	if err != nil {
		return "", fmt.Errorf("pgtest: %w", err)
	}
	const script = "hack/postgres.sh"
	for {
		path := filepath.Join(dir, script)
		if _, err := os.Stat(path); err == nil {
			cmd := exec.Command(path)
			cmd.Stderr = os.Stderr
			out, err := cmd.Output()
			if err != nil {
				return "", fmt.Errorf("pgtest: %s: %w", script, err)
			}
			return strings.TrimSpace(string(out)), nil
		}
		parent := filepath.Dir(dir)
		if parent == dir {
			return "", errors.New("pgtest: no PostgreSQL: set " + ProgramsVariable + " to the folder with initdb and postgres")
		}
		dir = parent
	}
}
