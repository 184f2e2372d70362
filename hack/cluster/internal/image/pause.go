// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import "os"

// PauseName is the image of the process that holds a pod's namespaces open.
const PauseName = "lockstead.dev/pause:1"

// Pause makes that image out of this very program, which is static and waits for
// a signal when it is called so.
func Pause(program, command string) (Image, error) {
	content, err := os.ReadFile(program)
	if err != nil {
		return Image{}, err
	}
	return Image{
		Name:   PauseName,
		Files:  []File{{Path: "pause", Mode: 0o755, Content: content}},
		Config: Config{User: "65535:65535", Entrypoint: []string{"/pause", command}},
	}, nil
}
