// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"regexp"
	"strings"
)

// redisServers are where the server is, in the order of preference. Debian ships
// one binary under several names; the package of the clients has it too, and
// unlike the server's starts no service when it is installed.
var redisServers = []string{"/usr/bin/redis-server", "/usr/bin/redis-check-rdb"}

// Redis puts an image together from the installed Redis and the libraries that
// it is linked to. It has no shell. Any user can run it.
func Redis(ctx context.Context) (Image, error) {
	var server []byte
	var binary string
	var err error
	for _, binary = range redisServers {
		if server, err = os.ReadFile(binary); err == nil {
			break
		}
	}
	if err != nil {
		return Image{}, fmt.Errorf("find the Redis server: %w", err)
	}
	client, err := os.ReadFile("/usr/bin/redis-cli")
	if err != nil {
		return Image{}, err
	}
	files := []File{
		{Path: "usr/bin/redis-server", Mode: 0o755, Content: server},
		{Path: "usr/bin/redis-cli", Mode: 0o755, Content: client},
		{Path: "etc/passwd", Mode: 0o644, Content: []byte("root:x:0:0:root:/:/\nredis:x:999:999:redis:/data:/\n")},
		{Path: "etc/group", Mode: 0o644, Content: []byte("root:x:0:\nredis:x:999:\n")},
		{Path: "data", Mode: 0o777, Folder: true},
		{Path: "tmp", Mode: 0o1777, Folder: true},
	}
	linked, err := exec.CommandContext(ctx, "ldd", binary, "/usr/bin/redis-cli").Output()
	if err != nil {
		return Image{}, fmt.Errorf("list the libraries of Redis: %w", err)
	}
	libraries := parseLibraries(string(linked))
	if len(libraries) == 0 {
		return Image{}, errors.New("ldd named no library of Redis")
	}
	for _, library := range libraries {
		content, err := os.ReadFile(library)
		if err != nil {
			return Image{}, err
		}
		files = append(files, File{Path: library, Mode: 0o755, Content: content})
	}
	version, err := redisVersion(ctx)
	if err != nil {
		return Image{}, err
	}
	return Image{
		Name:  "lockstead.dev/redis:" + version,
		Files: files,
		Config: Config{
			User:       "999:999",
			Env:        []string{"PATH=/usr/bin"},
			Cmd:        []string{"redis-server"},
			WorkingDir: "/data",
		},
	}, nil
}

// parseLibraries reads the absolute paths out of ldd's answer, each once.
func parseLibraries(answer string) []string {
	var paths []string
	seen := map[string]bool{}
	for line := range strings.Lines(answer) {
		// "libm.so.6 => /lib/libm.so.6 (0x…)" or "/lib64/ld-linux.so.2 (0x…)"; the
		// name of an examined program itself ends in a colon.
		for _, field := range strings.Fields(line) {
			if strings.HasPrefix(field, "/") && !strings.HasSuffix(field, ":") && !seen[field] {
				seen[field] = true
				paths = append(paths, field)
			}
		}
	}
	return paths
}

var redisVersionNumber = regexp.MustCompile(`\b([0-9]+\.[0-9]+)\.[0-9]+\b`)

// redisVersion asks the client, which has the server's version, for major.minor.
func redisVersion(ctx context.Context) (string, error) {
	answer, err := exec.CommandContext(ctx, "/usr/bin/redis-cli", "--version").Output()
	if err != nil {
		return "", fmt.Errorf("ask Redis for its version: %w", err)
	}
	found := redisVersionNumber.FindSubmatch(answer)
	if found == nil {
		return "", fmt.Errorf("no version in %q", answer)
	}
	return string(found[1]), nil
}
