// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"bytes"
	"os"
	"path/filepath"
	"testing"
)

// appendOnlyDir is where a server keeps its append-only file.
const appendOnlyDir = "appendonlydir"

// RemoveData deletes what a server that does not run had written: a lost volume.
func (s *Server) RemoveData(t testing.TB) {
	t.Helper()
	for _, pattern := range []string{appendOnlyDir, "appendonly.aof*", "*.rdb"} {
		paths, err := filepath.Glob(filepath.Join(s.dir, pattern))
		if err != nil {
			t.Fatalf("redistest: %v", err)
		}
		for _, path := range paths {
			if err := os.RemoveAll(path); err != nil {
				t.Fatalf("redistest: %v", err)
			}
		}
	}
}

// Backup copies the append-only file of a running server to a folder, from which Restore brings it back.
func (s *Server) Backup(t testing.TB) (folder string) {
	t.Helper()
	folder = t.TempDir()
	if err := os.CopyFS(folder, os.DirFS(filepath.Join(s.dir, appendOnlyDir))); err != nil {
		t.Fatalf("redistest: %v", err)
	}
	return folder
}

// Restore gives a server that does not run the data of a backup, and no others.
func (s *Server) Restore(t testing.TB, folder string) {
	t.Helper()
	s.RemoveData(t)
	if err := os.CopyFS(filepath.Join(s.dir, appendOnlyDir), os.DirFS(folder)); err != nil {
		t.Fatalf("redistest: %v", err)
	}
}

// CutTail removes the last transaction, for example that of a granted lock, and what came after it, from the append-only file of a server that does
// not run: what had not reached the disk when the power went.
func (s *Server) CutTail(t testing.TB) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(s.dir, appendOnlyDir, "*.incr.aof"))
	if err != nil || len(paths) != 1 {
		t.Fatalf("redistest: append-only files %q, %v", paths, err)
	}
	content, err := os.ReadFile(paths[0])
	if err != nil {
		t.Fatalf("redistest: %v", err)
	}
	at := bytes.LastIndex(content, []byte("*1\r\n$5\r\nMULTI\r\n"))
	if at < 0 {
		t.Fatal("redistest: the append-only file has no transaction")
	}
	if err := os.Truncate(paths[0], int64(at)); err != nil {
		t.Fatalf("redistest: %v", err)
	}
}
