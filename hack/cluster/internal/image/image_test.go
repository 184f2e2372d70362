// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package image

import (
	"archive/tar"
	"bytes"
	"encoding/json"
	"errors"
	"io"
	"reflect"
	"strings"
	"testing"
)

func TestFullName(t *testing.T) {
	for name, want := range map[string]string{
		"app:1":                "docker.io/library/app:1",
		"team/app:1":           "docker.io/team/app:1",
		"localhost/app:1":      "localhost/app:1",
		"localhost:5000/app:1": "localhost:5000/app:1",
		"lockstead.dev/a/b:v1": "lockstead.dev/a/b:v1",
		"app":                  "",
		"localhost:5000/app":   "",
		"":                     "",
		"app@sha256:abc":       "",
		"two words:1":          "",
		"lockstead.dev/":       "",
	} {
		got, err := FullName(name)
		if got != want || (err == nil) != (want != "") {
			t.Errorf("FullName(%q) = %q, %v; want %q", name, got, err, want)
		}
	}
}

func TestParseLibraries(t *testing.T) {
	const answer = `/usr/bin/redis-server:
	linux-vdso.so.1 (0x00007ffd)
	libssl.so.3 => /lib/x86_64-linux-gnu/libssl.so.3 (0x00007f)
	/lib64/ld-linux-x86-64.so.2 (0x00007f)
/usr/bin/redis-cli:
	libssl.so.3 => /lib/x86_64-linux-gnu/libssl.so.3 (0x00007f)
	libmissing.so => not found
`
	want := []string{"/lib/x86_64-linux-gnu/libssl.so.3", "/lib64/ld-linux-x86-64.so.2"}
	if got := parseLibraries(answer); !reflect.DeepEqual(got, want) {
		t.Errorf("got %q, want %q", got, want)
	}
}

// TestArchive follows the links from the index to the files, as containerd does.
func TestArchive(t *testing.T) {
	i := Image{
		Name: "example.org/app:1",
		Files: []File{
			{Path: "/usr/bin/app", Mode: 0o755, Content: []byte("program")},
			{Path: "tmp", Mode: 0o1777, Folder: true},
		},
		Config: Config{Entrypoint: []string{"app"}},
	}
	var first, second bytes.Buffer
	if err := errors.Join(i.Archive(&first), i.Archive(&second)); err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(first.Bytes(), second.Bytes()) {
		t.Error("two archives of one image differ")
	}
	files, _ := untar(t, first.Bytes())
	blob := func(d descriptor) []byte {
		t.Helper()
		content := files["blobs/sha256/"+strings.TrimPrefix(d.Digest, "sha256:")]
		if digest(content) != d.Digest || len(content) != d.Size {
			t.Fatalf("blob %s does not have its digest and size", d.Digest)
		}
		return content
	}
	var index struct{ Manifests []descriptor }
	decode(t, files["index.json"], &index)
	if got := index.Manifests[0].Annotations["io.containerd.image.name"]; got != i.Name {
		t.Errorf("the index names the image %q", got)
	}
	var manifest struct {
		Config descriptor
		Layers []descriptor
	}
	decode(t, blob(index.Manifests[0]), &manifest)
	var config struct {
		Config Config
		RootFS struct {
			DiffIDs []string `json:"diff_ids"`
		}
	}
	decode(t, blob(manifest.Config), &config)
	layer := blob(manifest.Layers[0])
	if !reflect.DeepEqual(config.Config, i.Config) || config.RootFS.DiffIDs[0] != digest(layer) {
		t.Errorf("the config is %+v", config)
	}
	content, order := untar(t, layer)
	if want := []string{"tmp/", "usr/", "usr/bin/", "usr/bin/app"}; !reflect.DeepEqual(order, want) {
		t.Errorf("the layer holds %q, want %q", order, want)
	}
	if string(content["usr/bin/app"]) != "program" {
		t.Errorf("the program reads %q", content["usr/bin/app"])
	}
}

func decode(t *testing.T, content []byte, into any) {
	t.Helper()
	if err := json.Unmarshal(content, into); err != nil {
		t.Fatalf("%v in %s", err, content)
	}
}

func untar(t *testing.T, archive []byte) (files map[string][]byte, order []string) {
	t.Helper()
	files = map[string][]byte{}
	r := tar.NewReader(bytes.NewReader(archive))
	for {
		header, err := r.Next()
		if errors.Is(err, io.EOF) {
			return files, order
		}
		if err != nil {
			t.Fatal(err)
		}
		if files[header.Name], err = io.ReadAll(r); err != nil {
			t.Fatal(err)
		}
		order = append(order, header.Name)
	}
}
