// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package v1alpha1_test

import (
	"os"
	"path/filepath"
	"testing"

	"sigs.k8s.io/yaml"
)

// budget is what one CRD may take. Helm keeps all of a release in one Secret, and kubectl a copy in an annotation, of at most 256 KiB.
const budget = 100 << 10

func TestSizeOfCRDs(t *testing.T) {
	t.Parallel()
	files, err := filepath.Glob("../../config/crd/bases/*.yaml")
	if err != nil || len(files) == 0 {
		t.Fatalf("no CRDs: %v", err)
	}
	for _, file := range files {
		manifest, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		content, err := yaml.YAMLToJSON(manifest)
		if err != nil {
			t.Fatal(err)
		}
		t.Logf("%s: %d KiB of JSON", filepath.Base(file), len(content)>>10)
		if len(content) > budget {
			t.Errorf("%s has %d bytes of JSON, more than %d", file, len(content), budget)
		}
	}
}
