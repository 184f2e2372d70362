// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package idempotency_test

import (
	"encoding/json"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/lockstead/lockstead/pkg/idempotency"
)

func TestPolicyPage(t *testing.T) {
	f := newFixture(t)
	nothing := func(http.ResponseWriter, *http.Request) {}
	mux := f.guard(f.client(), nil).NewMux()
	mux.HandleSafe("GET /idempotency", mux.PolicyPage())
	mux.HandleFunc("POST /orders/{id}", idempotency.Idempotent(idempotency.Policy{Retention: time.Hour}), nothing)
	mux.HandleFunc("POST /payments", idempotency.Idempotent(idempotency.Policy{Required: true}), nothing)
	mux.HandleFunc("POST /tokens", idempotency.NonIdempotent("the token broker, which is internal, rotates them"), nothing)
	server := f.serve(mux)

	body := fetch(t, server, "application/json")
	var got struct {
		Header       string
		MaxKeyLength int
		ReplayHeader string
		Routes       []struct {
			Pattern, Keys    string
			RetentionSeconds int64
		}
		Problems []struct {
			Code   idempotency.Code
			Status int
			Title  string
		}
	}
	if err := json.Unmarshal([]byte(body), &got); err != nil {
		t.Fatal(err)
	}
	if got.Header != "Idempotency-Key" || got.MaxKeyLength != idempotency.MaxKeyLength || got.ReplayHeader != "X-Idempotent-Replay" {
		t.Errorf("the page says %+v", got)
	}
	want := []struct {
		pattern, keys string
		retention     int64
	}{{"POST /orders/{id}", "optional", 3600}, {"POST /payments", "required", 86400}, {"POST /tokens", "refused", 0}}
	if len(got.Routes) != len(want) {
		t.Fatalf("routes are %+v", got.Routes)
	}
	for i, w := range want {
		if r := got.Routes[i]; r.Pattern != w.pattern || r.Keys != w.keys || r.RetentionSeconds != w.retention {
			t.Errorf("route %d is %+v, want %+v", i, r, w)
		}
	}

	page := fetch(t, server, "text/html,application/xhtml+xml,application/json;q=0.1")
	for _, w := range want {
		if !strings.Contains(page, "<code>"+w.pattern+"</code></td><td>"+w.keys+"</td>") {
			t.Errorf("the page lacks %s", w.pattern)
		}
	}
	declared := declaredCodes(t)
	if len(got.Problems) != len(declared) {
		t.Errorf("%d codes are published, %d are declared", len(got.Problems), len(declared))
	}
	for _, p := range got.Problems {
		status, ok := declared[string(p.Code)]
		if !ok || status != p.Status || p.Title == "" || !strings.Contains(page, `<dt id="`+string(p.Code)+`">`) {
			t.Errorf("%+v is not as declared, with status %d, or not on the page", p, status)
		}
	}
	for _, text := range []string{body, page} {
		if strings.Contains(text, "broker") {
			t.Error("the reason of a route is for the application's people alone")
		}
	}
	if unasked := fetch(t, server, ""); unasked != page {
		t.Errorf("without Accept: %s", unasked)
	}
}

func TestPolicyPageOfRoutesThatIgnoreKeys(t *testing.T) {
	f := newFixture(t)
	options := f.options()
	options.IgnoreKeys, options.Header = true, "X-<Key>"
	mux := f.guard(f.client(), options).NewMux()
	mux.HandleSafe("GET /idempotency", mux.PolicyPage())
	mux.HandleFunc("POST /tokens", idempotency.NonIdempotent("a replayed token may have been rotated away"), func(http.ResponseWriter, *http.Request) {})
	page := fetch(t, f.serve(mux), "*/*")
	if !strings.Contains(page, "<td>ignored</td>") || strings.Contains(page, "<Key>") {
		t.Error(page)
	}
}

func fetch(t *testing.T, server *httptest.Server, accept string) string {
	t.Helper()
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, server.URL+"/idempotency", http.NoBody)
	if err != nil {
		t.Fatal(err)
	}
	if accept != "" {
		req.Header.Set("Accept", accept)
	}
	resp, err := server.Client().Do(req)
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = resp.Body.Close() }()
	body, err := io.ReadAll(resp.Body)
	if err != nil || resp.StatusCode != http.StatusOK || resp.Header.Get("Vary") != "Accept" {
		t.Fatalf("status %d, Vary %q, %v", resp.StatusCode, resp.Header.Get("Vary"), err)
	}
	return string(body)
}

// declaredCodes are the constants of type Code in the source, with the status that their comments give.
func declaredCodes(t *testing.T) map[string]int {
	t.Helper()
	file, err := parser.ParseFile(token.NewFileSet(), "problem.go", nil, parser.ParseComments)
	if err != nil {
		t.Fatal(err)
	}
	declared := map[string]int{}
	ast.Inspect(file, func(n ast.Node) bool {
		spec, ok := n.(*ast.ValueSpec)
		if !ok || len(spec.Values) != 1 {
			return true
		}
		literal, ok := spec.Values[0].(*ast.BasicLit)
		if !ok {
			return true
		}
		code, _ := strconv.Unquote(literal.Value)
		_, after, _ := strings.Cut(spec.Doc.Text(), "(")
		status, err := strconv.Atoi(after[:3])
		if err != nil {
			t.Errorf("the comment of %s has no status", code)
		}
		declared[code] = status
		return true
	})
	return declared
}
