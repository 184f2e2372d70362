// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package idempotency

import (
	"fmt"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"
)

// replay answers from what was kept.
func (a *attempt) replay(v verdict, record Record) {
	kept, err := decodeResponse(record.Response)
	if err == nil && v == replay && kept.status < http.StatusOK {
		err = fmt.Errorf("%w: status %d", errMalformed, kept.status)
	}
	if err != nil {
		// It was executed, that much is known: running it again would be worse than not having its answer.
		a.degrade(a.r.Context(), ReasonCorrupt, err)
		a.w.Header().Add(a.guard.options.DegradedHeader, string(ReasonCorrupt))
		v, kept = buried, response{}
	}
	h := a.w.Header()
	h.Set(a.guard.options.ReplayHeader, "true")
	if v == buried || !acceptable(a.r, kept.header) {
		a.outcome = OutcomeUnavailable
		for _, name := range []string{"Location", "Etag"} {
			if values, ok := kept.header[name]; ok {
				h[name] = values
			}
		}
		detail := "The request was executed, and is not executed again. Its answer was not kept: look at the resource."
		a.guard.writeProblem(a.w, CodeResponseUnavailable, detail, func(p *problem) { p.OriginalStatus = kept.status })
		return
	}
	a.outcome = OutcomeReplayed
	maps.Copy(h, kept.header)
	switch {
	case len(kept.trailer) > 0:
		h["Trailer"] = []string{strings.Join(slices.Sorted(maps.Keys(kept.trailer)), ", ")}
	case bodyAllowed(kept.status):
		h.Set("Content-Length", strconv.Itoa(len(kept.body)))
	}
	a.w.WriteHeader(kept.status)
	_, _ = a.w.Write(kept.body)
	maps.Copy(h, kept.trailer)
}

// acceptable reports whether the repeat takes the content encoding in which a handler wrote the answer.
func acceptable(r *http.Request, header http.Header) bool {
	encoding := header.Get("Content-Encoding")
	if encoding == "" || strings.EqualFold(encoding, "identity") {
		return true
	}
	for _, line := range r.Header["Accept-Encoding"] {
		for element := range strings.SplitSeq(line, ",") {
			name, parameter, _ := strings.Cut(strings.TrimSpace(element), ";")
			name = strings.TrimSpace(name)
			if (strings.EqualFold(name, encoding) || name == "*") && !refused(parameter) {
				return true
			}
		}
	}
	return false
}

// refused reports whether a quality value is zero.
func refused(parameter string) bool {
	q, ok := strings.CutPrefix(strings.ReplaceAll(parameter, " ", ""), "q=")
	if !ok {
		return false
	}
	quality, err := strconv.ParseFloat(q, 64)
	return err == nil && quality == 0
}
