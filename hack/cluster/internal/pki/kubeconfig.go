// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package pki

import (
	"encoding/json"
	"os"
)

// Kubeconfig writes a file with which the user reaches the API server at the
// address. It holds the certificate and key themselves, so that it can be copied.
func (a *Authority) Kubeconfig(file, cluster, server, user string, groups ...string) error {
	cert, key, err := a.client(user, groups)
	if err != nil {
		return err
	}
	// JSON is YAML, and encodes the certificates as the format wants them.
	content, err := json.MarshalIndent(map[string]any{
		"apiVersion":      "v1",
		"kind":            "Config",
		"current-context": cluster,
		"clusters": []any{map[string]any{
			"name":    cluster,
			"cluster": map[string]any{"server": server, "certificate-authority-data": a.pem},
		}},
		"contexts": []any{map[string]any{
			"name":    cluster,
			"context": map[string]any{"cluster": cluster, "user": user},
		}},
		"users": []any{map[string]any{
			"name": user,
			"user": map[string]any{"client-certificate-data": cert, "client-key-data": key},
		}},
	}, "", "  ")
	if err != nil {
		return err
	}
	return os.WriteFile(file, append(content, '\n'), 0o600)
}
