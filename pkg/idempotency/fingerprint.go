// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package idempotency

import (
	"bytes"
	"crypto/sha256"
	"hash"
	"mime"
	"net/http"
	"slices"
	"strings"
)

// BodyFingerprint is the part of the fingerprint that stands for the body: whatever it returns is hashed. The path and the query are always part of the
// fingerprint and need not be in it. An error refuses the request with 400; its text is not shown to the client.
type BodyFingerprint func(r *http.Request, body []byte) ([]byte, error)

// fingerprintOf binds a key to the concrete path, the sorted query and the body.
func fingerprintOf(r *http.Request, body []byte, custom BodyFingerprint) (Fingerprint, error) {
	h := sha256.New()
	writeParts(h, "lockstead-idempotency-fingerprint/1", r.Method, r.URL.EscapedPath(), sortedQuery(r.URL.RawQuery))
	if custom != nil {
		sum, err := custom(r, body)
		if err != nil {
			return Fingerprint{}, err
		}
		writeParts(h, "custom", string(sum))
	} else {
		writeBody(h, r.Header, body)
	}
	return Fingerprint(h.Sum(nil)), nil
}

// sortedQuery orders the parameters by name. Those of one name stay in their order, which may matter.
func sortedQuery(raw string) string {
	if !strings.Contains(raw, "&") {
		return raw
	}
	pairs := slices.DeleteFunc(strings.Split(raw, "&"), func(pair string) bool { return pair == "" })
	name := func(pair string) string { n, _, _ := strings.Cut(pair, "="); return n }
	slices.SortStableFunc(pairs, func(a, b string) int { return strings.Compare(name(a), name(b)) })
	return strings.Join(pairs, "&")
}

// writeBody hashes a body with its media type and encoding. The boundary of a multipart body is new for every attempt of most clients, so it is left out: what
// is between the delimiters counts, all of it, whether the body is well-formed or not.
func writeBody(h hash.Hash, header http.Header, body []byte) {
	mediaType, parameters, err := mime.ParseMediaType(header.Get("Content-Type"))
	encoding := strings.ToLower(header.Get("Content-Encoding"))
	if boundary := parameters["boundary"]; err == nil && encoding == "" && strings.HasPrefix(mediaType, "multipart/") && boundary != "" {
		writeParts(h, "multipart", mediaType)
		for piece := range bytes.SplitSeq(body, []byte("--"+boundary)) {
			sum := sha256.Sum256(piece)
			writeParts(h, "piece", string(sum[:]))
		}
		return
	}
	if err != nil {
		mediaType = header.Get("Content-Type")
	}
	writeParts(h, "bytes", mediaType, encoding)
	sum := sha256.Sum256(body)
	_, _ = h.Write(sum[:])
}
