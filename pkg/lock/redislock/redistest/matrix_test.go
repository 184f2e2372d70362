// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package redistest

import (
	"bytes"
	"os"
	"slices"
	"strings"
	"testing"
)

func TestPrograms(t *testing.T) {
	all := "redis-7.0=/a b/redis\n redis-8.0=/b\nvalkey-8.1=/c\n"
	for name, tc := range map[string]struct {
		env  map[string]string
		want []Program
		// wantError is part of the error; empty is none.
		wantError string
	}{
		"nothing set":           {nil, []Program{{"redis-server", "redis-server"}}, ""},
		"one server":            {map[string]string{BinaryVariable: "/x"}, []Program{{"/x", "/x"}}, ""},
		"one of the matrix":     {map[string]string{BinaryVariable: "/x", MatrixVariable: all, "CI": "true"}, []Program{{"/x", "/x"}}, ""},
		"the matrix":            {map[string]string{MatrixVariable: all, "CI": "true"}, []Program{{"redis-7.0", "/a b/redis"}, {"redis-8.0", "/b"}, {"valkey-8.1", "/c"}}, ""},
		"by semicolons":         {map[string]string{MatrixVariable: "a=/a;b=/b;"}, []Program{{"a", "/a"}, {"b", "/b"}}, ""},
		"CI without the matrix": {map[string]string{"CI": "true"}, nil, "redis-7.0"},
		"CI without one":        {map[string]string{MatrixVariable: "redis-7.0=/a;redis-8.0=/b", "CI": "true"}, nil, "valkey-8.1"},
		"a path alone":          {map[string]string{MatrixVariable: "/usr/bin/redis-server"}, nil, "is not <name>=<path"},
		"no path":               {map[string]string{MatrixVariable: "redis-7.0="}, nil, "is not <name>=<path"},
		"the same name twice":   {map[string]string{MatrixVariable: "a=/a;a=/b"}, nil, "twice"},
	} {
		asked := make(map[string]bool)
		got, err := programs(func(name string) string { asked[name] = true; return tc.env[name] })
		if !slices.Equal(got, tc.want) || (err == nil) != (tc.wantError == "") {
			t.Errorf("%s: got %v, %v, want %v", name, got, err, tc.want)
		}
		if err != nil && !strings.Contains(err.Error(), tc.wantError) {
			t.Errorf("%s: error is %q, want %q in it", name, err, tc.wantError)
		}
		if len(asked) != 3 {
			t.Errorf("%s: asked only for %v, so a cached result of go test would survive a change of the others", name, asked)
		}
	}
}

// A program that is a server only by name tells how it was called.
func TestTheTestBinaryRunsOncePerServer(t *testing.T) {
	script := t.TempDir() + "/test-binary"
	source := "#!/bin/sh\necho \"args $* server $LOCKSTEAD_REDIS_SERVER\"\n[ \"$LOCKSTEAD_REDIS_SERVER\" != /bad ] || exit 3\n" +
		"[ \"$LOCKSTEAD_REDIS_SERVER\" != /dead ] || kill -9 $$\n"
	if err := os.WriteFile(script, []byte(source), 0o700); err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	args := []string{"-test.v", "-test.testlogfile=/log", "-test.run=X"}
	if status := runPerServer([]Program{{"a", "/a"}, {"b", "/b"}}, script, args, &out); status != 0 {
		t.Errorf("status is %d: %s", status, out.String())
	}
	for _, want := range []string{
		"=== server a: /a\nargs -test.v -test.testlogfile=/log -test.run=X server /a\n",
		"=== server b: /b\nargs -test.v -test.run=X server /b\n",
	} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("output is %q, want %q in it", out.String(), want)
		}
	}
	for bad, want := range map[string]int{"/bad": 3, "/dead": 1} {
		if status := runPerServer([]Program{{"bad", bad}, {"b", "/b"}}, script, args, &out); status != want {
			t.Errorf("with a failure on one server the status is %d, want %d", status, want)
		}
	}
	if status := runPerServer([]Program{{"a", "/a"}}, script+"-missing", args, &out); status != 1 {
		t.Errorf("without a binary the status is %d, want 1", status)
	}
	for _, flag := range []string{"-test.bench=.", "--test.fuzz=FuzzX", "-test.list"} {
		if !runsOnce([]string{"-test.v", flag}) {
			t.Errorf("%s runs on all servers", flag)
		}
	}
	if runsOnce(args) {
		t.Errorf("%q runs only once", args)
	}
}
