// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

const crd = `---
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  annotations:
    controller-gen.kubebuilder.io/version: v0.23.0
  name: widgets.example.dev
spec:
  description: a {{ brace }}
  names:
    name: x
`

const role = `---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata:
  name: manager-role
rules:
- apiGroups:
  - ""
  resources:
  - events
  verbs:
  - create
`

func TestCRDTemplate(t *testing.T) {
	t.Parallel()
	got, err := crdTemplate(crd)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{
		"{{- if .Values.crds.enabled }}\napiVersion: apiextensions.k8s.io/v1\n",
		"  annotations:\n    {{- if .Values.crds.keep }}\n    helm.sh/resource-policy: keep\n    {{- end }}\n    controller-gen",
		"  labels:\n    {{- include \"lockstead.labels\" . | nindent 4 }}\n  name: widgets.example.dev\n",
		`a {{ "{{" }} brace }}`,
	} {
		if !strings.Contains(got, want) {
			t.Errorf("the template lacks %q:\n%s", want, got)
		}
	}
	if strings.Count(got, "lockstead.labels") != 1 {
		t.Errorf("labels were added more than once:\n%s", got)
	}
}

func TestRoleTemplate(t *testing.T) {
	t.Parallel()
	got, err := roleTemplate(role)
	if err != nil {
		t.Fatal(err)
	}
	if !strings.Contains(got, "rules:\n- apiGroups:\n  - \"\"\n") || strings.Contains(got, "manager-role") {
		t.Errorf("the template:\n%s", got)
	}
}

func TestRefusedSources(t *testing.T) {
	t.Parallel()
	for name, convert := range map[string]func() (string, error){
		"a role for a CRD":     func() (string, error) { return crdTemplate(role) },
		"a CRD for a role":     func() (string, error) { return roleTemplate(crd) },
		"two documents":        func() (string, error) { return roleTemplate(role + role) },
		"a CRD without a name": func() (string, error) { return crdTemplate("kind: CustomResourceDefinition\n") },
	} {
		if got, err := convert(); err == nil {
			t.Errorf("%s was accepted:\n%s", name, got)
		}
	}
}

func TestGenerateRemovesWhatHasNoSource(t *testing.T) {
	t.Parallel()
	config, templates := t.TempDir(), t.TempDir()
	write := func(path, content string) {
		t.Helper()
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	if err := generate(config, templates); err == nil {
		t.Error("a config without CRDs was accepted")
	}
	write(filepath.Join(config, "crd", "bases", "widgets.yaml"), crd)
	write(filepath.Join(config, "rbac", "role.yaml"), role)
	stale := filepath.Join(templates, "crds", "gadgets.yaml")
	write(stale, "old")
	if err := generate(config, templates); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(stale); !os.IsNotExist(err) {
		t.Errorf("the template of a CRD that is gone is still there: %v", err)
	}
	if _, err := os.Stat(filepath.Join(templates, "crds", "widgets.yaml")); err != nil {
		t.Error(err)
	}
}
