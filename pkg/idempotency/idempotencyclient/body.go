// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package idempotencyclient

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"io"
	"net/http"
	"strings"
)

// body returns a function that gives the body anew, and a hash of the request. The body of r is closed, as a RoundTripper must.
func (t *Transport) body(r *http.Request) (again func() (io.ReadCloser, error), sum [sha256.Size]byte, err error) {
	h := sha256.New()
	for _, part := range []string{r.Method, r.URL.String()} {
		_, _ = h.Write(binary.BigEndian.AppendUint64(nil, uint64(len(part))))
		_, _ = io.WriteString(h, part)
	}
	again = func() (io.ReadCloser, error) { return http.NoBody, nil }
	switch {
	case r.Body == nil || r.Body == http.NoBody:
	case r.GetBody != nil:
		again = r.GetBody
		_ = r.Body.Close()
		if _, asked := r.Context().Value(operationKey{}).(*operation); asked { // Only a key of the application can meet another body.
			var copied io.ReadCloser
			if copied, err = again(); err == nil {
				_, err = io.Copy(h, copied)
				_ = copied.Close()
			}
		}
	default:
		var content []byte
		content, err = io.ReadAll(io.LimitReader(r.Body, t.options.MaxBody+1))
		_ = r.Body.Close()
		if err == nil && int64(len(content)) > t.options.MaxBody {
			err = &BodyError{Max: t.options.MaxBody}
		}
		_, _ = h.Write(content)
		again = func() (io.ReadCloser, error) { return io.NopCloser(bytes.NewReader(content)), nil }
	}
	return again, [sha256.Size]byte(h.Sum(nil)), err
}

// quote writes a key as a String of RFC 9651.
func quote(key string) string {
	return `"` + strings.NewReplacer(`\`, `\\`, `"`, `\"`).Replace(key) + `"`
}
