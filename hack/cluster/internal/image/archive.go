// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package image puts container images together without a registry.
package image

import (
	"archive/tar"
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"io"
	"path"
	"runtime"
	"slices"
	"strings"
)

// Image is an image of one layer.
type Image struct {
	// Name is the full reference, with a domain and a tag.
	Name   string
	Files  []File
	Config Config
}

// File is a regular file of an image or, without content, a folder.
type File struct {
	Path    string
	Mode    int64
	Content []byte
	Folder  bool
}

// Config is what a container of the image runs by default.
type Config struct {
	User       string   `json:"User,omitempty"`
	Env        []string `json:"Env,omitempty"`
	Entrypoint []string `json:"Entrypoint,omitempty"`
	Cmd        []string `json:"Cmd,omitempty"`
	WorkingDir string   `json:"WorkingDir,omitempty"`
}

const (
	layerType    = "application/vnd.oci.image.layer.v1.tar"
	configType   = "application/vnd.oci.image.config.v1+json"
	manifestType = "application/vnd.oci.image.manifest.v1+json"
	indexType    = "application/vnd.oci.image.index.v1+json"
)

type descriptor struct {
	MediaType   string            `json:"mediaType"`
	Digest      string            `json:"digest"`
	Size        int               `json:"size"`
	Annotations map[string]string `json:"annotations,omitempty"`
}

func describe(kind string, blob []byte) descriptor {
	return descriptor{MediaType: kind, Digest: digest(blob), Size: len(blob)}
}

func digest(blob []byte) string {
	sum := sha256.Sum256(blob)
	return "sha256:" + hex.EncodeToString(sum[:])
}

// Archive writes the image as an OCI archive. The same image always gives the
// same bytes.
func (i Image) Archive(to io.Writer) error {
	layer, err := i.layer()
	if err != nil {
		return err
	}
	config, err := json.Marshal(map[string]any{
		"architecture": runtime.GOARCH,
		"os":           "linux",
		"config":       i.Config,
		"rootfs":       map[string]any{"type": "layers", "diff_ids": []string{digest(layer)}},
	})
	if err != nil {
		return err
	}
	manifest, err := json.Marshal(map[string]any{
		"schemaVersion": 2,
		"mediaType":     manifestType,
		"config":        describe(configType, config),
		"layers":        []descriptor{describe(layerType, layer)},
	})
	if err != nil {
		return err
	}
	entry := describe(manifestType, manifest)
	entry.Annotations = map[string]string{
		"io.containerd.image.name":          i.Name,
		"org.opencontainers.image.ref.name": i.Name,
	}
	index, err := json.Marshal(map[string]any{
		"schemaVersion": 2,
		"mediaType":     indexType,
		"manifests":     []descriptor{entry},
	})
	if err != nil {
		return err
	}
	files := []File{
		{Path: "oci-layout", Mode: 0o644, Content: []byte(`{"imageLayoutVersion":"1.0.0"}`)},
		{Path: "index.json", Mode: 0o644, Content: index},
	}
	for _, blob := range [][]byte{layer, config, manifest} {
		files = append(files, File{
			Path: "blobs/sha256/" + strings.TrimPrefix(digest(blob), "sha256:"), Mode: 0o644, Content: blob,
		})
	}
	return writeTar(to, files)
}

func (i Image) layer() ([]byte, error) {
	var layer bytes.Buffer
	err := writeTar(&layer, withParents(i.Files))
	return layer.Bytes(), err
}

// withParents adds the folders that hold the files, in an order in which each
// comes before what it holds.
func withParents(files []File) []File {
	named := map[string]File{}
	for _, f := range files {
		f.Path = strings.Trim(path.Clean(f.Path), "/")
		named[f.Path] = f
		for dir := path.Dir(f.Path); dir != "."; dir = path.Dir(dir) {
			if _, ok := named[dir]; !ok {
				named[dir] = File{Path: dir, Mode: 0o755, Folder: true}
			}
		}
	}
	all := make([]File, 0, len(named))
	for _, f := range named {
		all = append(all, f)
	}
	slices.SortFunc(all, func(a, b File) int { return strings.Compare(a.Path, b.Path) })
	return all
}

func writeTar(to io.Writer, files []File) error {
	w := tar.NewWriter(to)
	for _, f := range files {
		header := &tar.Header{Typeflag: tar.TypeReg, Name: f.Path, Mode: f.Mode, Size: int64(len(f.Content))}
		if f.Folder {
			header.Typeflag, header.Name = tar.TypeDir, f.Path+"/"
		}
		if err := w.WriteHeader(header); err != nil {
			return err
		}
		if _, err := w.Write(f.Content); err != nil {
			return err
		}
	}
	return w.Close()
}
