// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package idempotency

import (
	"encoding/json"
	"net/http"
	"strconv"
)

// Code names a refusal for programs. Codes do not change.
type Code string

// The codes of problem details.
const (
	// CodeKeyInvalid (400): the header is malformed, empty within quotes, too long, or was sent more than once.
	CodeKeyInvalid Code = "idempotency-key-invalid"
	// CodeKeyMissing (400): the route requires a key.
	CodeKeyMissing Code = "idempotency-key-missing"
	// CodeKeyUnsupported (400): the route is not idempotent.
	CodeKeyUnsupported Code = "idempotency-key-unsupported"
	// CodeSubjectUnknown (400): neither the caller nor its address is known.
	CodeSubjectUnknown Code = "idempotency-subject-unknown"
	// CodeBodyUnreadable (400): the body ended early, or the fingerprint of the route refused it.
	CodeBodyUnreadable Code = "idempotency-body-unreadable"
	// CodeBodyTooLarge (413): the body is larger than the route takes with a key.
	CodeBodyTooLarge Code = "idempotency-body-too-large"
	// CodeInFlight (409, Retry-After): the same request is being executed.
	CodeInFlight Code = "idempotency-request-in-flight"
	// CodeResponseUnavailable (409, no Retry-After): the request was executed, its answer was not kept. Do not repeat it; look at the resource.
	CodeResponseUnavailable Code = "idempotency-response-unavailable"
	// CodeMismatch (422): the key was used with another path, query or body.
	CodeMismatch Code = "idempotency-key-reused"
	// CodeGuardUnavailable (503, Retry-After): lock or store are out of order, or the request ended while it waited. It was not executed.
	CodeGuardUnavailable Code = "idempotency-guard-unavailable"
	// CodeRouteUnknown (500): the server did not name the route, so that it cannot guard it. It was not executed.
	CodeRouteUnknown Code = "idempotency-route-unknown"
)

// codes are all of them, in the order of their declaration.
func codes() []Code {
	return []Code{
		CodeKeyInvalid, CodeKeyMissing, CodeKeyUnsupported, CodeSubjectUnknown, CodeBodyUnreadable, CodeBodyTooLarge,
		CodeInFlight, CodeResponseUnavailable, CodeMismatch, CodeGuardUnavailable, CodeRouteUnknown,
	}
}

// problem is a refusal, with the members of RFC 9457.
type problem struct {
	Type   string `json:"type"`
	Title  string `json:"title"`
	Status int    `json:"status"`
	Detail string `json:"detail"`
	Code   Code   `json:"code"`
	// RetryAfter is in seconds, as in the header.
	RetryAfter int `json:"retryAfter,omitempty"`
	// OriginalStatus is that of an answer which was not kept.
	OriginalStatus int `json:"originalStatus,omitempty"`
}

func (c Code) status() int {
	switch c {
	case CodeBodyTooLarge:
		return http.StatusRequestEntityTooLarge
	case CodeInFlight, CodeResponseUnavailable:
		return http.StatusConflict
	case CodeMismatch:
		return http.StatusUnprocessableEntity
	case CodeGuardUnavailable:
		return http.StatusServiceUnavailable
	case CodeRouteUnknown:
		return http.StatusInternalServerError
	default:
		return http.StatusBadRequest
	}
}

func (c Code) title() string {
	switch c {
	case CodeKeyInvalid:
		return "The Idempotency-Key is not valid"
	case CodeKeyMissing:
		return "An Idempotency-Key is required"
	case CodeKeyUnsupported:
		return "This operation takes no Idempotency-Key"
	case CodeSubjectUnknown:
		return "The caller is not known"
	case CodeBodyUnreadable:
		return "The body cannot be read"
	case CodeBodyTooLarge:
		return "The body is too large for a request with an Idempotency-Key"
	case CodeInFlight:
		return "The same request is being executed"
	case CodeResponseUnavailable:
		return "The request was executed, its answer was not kept"
	case CodeMismatch:
		return "The Idempotency-Key was used for another request"
	case CodeGuardUnavailable:
		return "Repeats cannot be told from new requests now"
	default:
		return "The route is not set up for idempotency"
	}
}

// writeProblem answers with a refusal. Neither the key nor the fingerprint is in it.
func (g *Guard) writeProblem(w http.ResponseWriter, code Code, detail string, change func(*problem)) {
	p := problem{Type: "about:blank", Title: code.title(), Status: code.status(), Detail: detail, Code: code}
	h := w.Header()
	if link := g.options.PolicyLink; link != "" {
		p.Type = link + "#" + string(code)
		h.Add("Link", "<"+link+`>; rel="describedby"`)
	}
	if change != nil {
		change(&p)
	}
	body, _ := json.Marshal(p) // Strings and numbers cannot fail.
	if p.RetryAfter > 0 {
		h.Set("Retry-After", strconv.Itoa(p.RetryAfter))
	}
	h.Set("Content-Type", "application/problem+json")
	h.Set("Cache-Control", "no-store")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	w.WriteHeader(p.Status)
	_, _ = w.Write(body)
}
