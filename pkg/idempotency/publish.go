// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package idempotency

import (
	"encoding/json"
	"fmt"
	"html"
	"net/http"
	"strconv"
	"strings"
)

// publication is what clients are told of the keys: the draft's section 2.5.2 demands that it is published, with the time for which answers are kept.
type publication struct {
	Header       string             `json:"header"`
	MaxKeyLength int                `json:"maxKeyLength"`
	ReplayHeader string             `json:"replayHeader"`
	Routes       []publishedRoute   `json:"routes"`
	Problems     []publishedProblem `json:"problems"`
}

type publishedRoute struct {
	Pattern string `json:"pattern"`
	// Keys is "optional", "required" or "refused", or "ignored" with Options.IgnoreKeys.
	Keys string `json:"keys"`
	// RetentionSeconds is how long an answer is kept.
	RetentionSeconds int64 `json:"retentionSeconds,omitempty"`
}

type publishedProblem struct {
	Code   Code   `json:"code"`
	Status int    `json:"status"`
	Title  string `json:"title"`
}

// PolicyPage publishes what the routes of the Mux do with keys: which take or need one, for how long an answer is kept, and what each code of a refusal means. It is
// a page for people, and JSON for a request that accepts application/json and not text/html. Register it with HandleSafe, and name its URL as Options.PolicyLink: then
// the type of a refusal leads to its code on the page. It shows the patterns of all routes that can change something, and no reasons.
func (m *Mux) PolicyPage() http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		p := m.publication()
		w.Header().Set("Vary", "Accept")
		accepted := strings.Join(r.Header.Values("Accept"), ",")
		if strings.Contains(accepted, "application/json") && !strings.Contains(accepted, "text/html") {
			w.Header().Set("Content-Type", "application/json")
			_ = json.NewEncoder(w).Encode(p) // Strings and numbers cannot fail, and a client that has left does not matter.
			return
		}
		w.Header().Set("Content-Type", "text/html; charset=utf-8")
		_, _ = w.Write([]byte(p.page()))
	})
}

func (m *Mux) publication() publication {
	o := m.guard.options
	p := publication{Header: o.Header, MaxKeyLength: MaxKeyLength, ReplayHeader: o.ReplayHeader}
	for _, route := range m.Routes() {
		published := publishedRoute{Pattern: route.Pattern}
		switch {
		case route.Intent == "safe":
			continue
		case route.Intent == "non-idempotent" && o.IgnoreKeys:
			published.Keys = "ignored"
		case route.Intent == "non-idempotent":
			published.Keys = "refused"
		case route.Required:
			published.Keys = "required"
		default:
			published.Keys = "optional"
		}
		published.RetentionSeconds = int64(route.Retention.Seconds())
		p.Routes = append(p.Routes, published)
	}
	for _, code := range codes() {
		p.Problems = append(p.Problems, publishedProblem{Code: code, Status: code.status(), Title: code.title()})
	}
	return p
}

func (p publication) page() string {
	var b strings.Builder
	header := html.EscapeString(p.Header)
	fmt.Fprintf(&b, `<!doctype html>
<html lang="en"><head><meta charset="utf-8"><title>%[1]s</title></head><body>
<h1>%[1]s</h1>
<p>Send %[1]s with a key of your own, of 1 to %[2]d characters and new for each operation, such as a UUID. However often the same request is sent with it, it is executed once.
A repeat gets the first answer, with the header %[3]s. The same key with another path, query or body is refused.</p>
<h2>Operations</h2>
<table><tr><th>operation</th><th>key</th><th>answers are kept for</th></tr>
`, header, p.MaxKeyLength, html.EscapeString(p.ReplayHeader))
	for _, route := range p.Routes {
		kept := ""
		if route.RetentionSeconds > 0 {
			kept = strconv.FormatInt(route.RetentionSeconds, 10) + " s"
		}
		fmt.Fprintf(&b, "<tr><td><code>%s</code></td><td>%s</td><td>%s</td></tr>\n", html.EscapeString(route.Pattern), route.Keys, kept)
	}
	b.WriteString("</table>\n<h2>Refusals</h2>\n<dl>\n")
	for _, problem := range p.Problems {
		fmt.Fprintf(&b, "<dt id=\"%[1]s\">%[1]s</dt><dd>%[2]d: %[3]s</dd>\n", problem.Code, problem.Status, html.EscapeString(problem.Title))
	}
	b.WriteString("</dl>\n</body></html>\n")
	return b.String()
}
