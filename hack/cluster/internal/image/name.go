// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"fmt"
	"strings"
)

// FullName completes an image's name as the kubelet does, so that the image is
// found under the name that a pod gives.
func FullName(name string) (string, error) {
	if name == "" || strings.ContainsAny(name, " \t\n@") {
		return "", fmt.Errorf("image name %q: write NAME:TAG", name)
	}
	first, rest, several := strings.Cut(name, "/")
	switch {
	case !several:
		name = "docker.io/library/" + name
	case !strings.ContainsAny(first, ".:") && first != "localhost":
		name = "docker.io/" + name
	case rest == "":
		return "", fmt.Errorf("image name %q has only a domain", name)
	}
	if !strings.Contains(name[strings.LastIndexByte(name, '/'):], ":") {
		return "", fmt.Errorf("image name %q has no tag; without one a pod would always try to pull it", name)
	}
	return name, nil
}
