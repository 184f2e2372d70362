// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package idempotency

import (
	"bytes"
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"slices"
	"testing"
)

func sample() response {
	return response{
		status: http.StatusCreated, body: []byte("body\x00"),
		header:  http.Header{"Content-Type": nil, "Etag": {`"1"`}, "Link": {"a, b", "", "c"}},
		trailer: http.Header{"X-Sum": {"42"}},
	}
}

func TestResponseComesBackAsItWas(t *testing.T) {
	for name, want := range map[string]response{"full": sample(), "empty": {status: http.StatusNoContent}, "unknown": {}} {
		got, err := decodeResponse(want.encode())
		if err != nil || got.status != want.status || !bytes.Equal(got.body, want.body) || !reflect.DeepEqual(got.header, want.header) || !reflect.DeepEqual(got.trailer, want.trailer) {
			t.Errorf("%s: %+v, %v, want %+v", name, got, err, want)
		}
	}
}

func TestDamagedResponsesAreRefused(t *testing.T) {
	whole := sample().encode()
	for n := range whole {
		if _, err := decodeResponse(whole[:n]); !errors.Is(err, errMalformed) {
			t.Errorf("the first %d of %d bytes: %v", n, len(whole), err)
		}
	}
	for name, b := range map[string][]byte{
		"a byte too much": append(slices.Clone(whole), 0),
		"another version": append([]byte{2}, whole[1:]...),
		"a cookie":        response{status: 200, header: http.Header{"Set-Cookie": {"a=b"}}}.encode(),
		"a bad name":      response{status: 200, header: http.Header{"x-lower": {"b"}}}.encode(),
		"status 100":      response{status: 100}.encode(),
	} {
		if r, err := decodeResponse(b); !errors.Is(err, errMalformed) {
			t.Errorf("%s: %+v, %v", name, r, err)
		}
	}
}

func FuzzDecodeResponse(f *testing.F) {
	f.Add(sample().encode())
	f.Add(response{status: http.StatusNoContent}.encode())
	f.Add([]byte{})
	f.Add([]byte{1, 0xc8, 1, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff, 1})
	f.Fuzz(func(t *testing.T, b []byte) {
		r, err := decodeResponse(b)
		if err != nil {
			if !errors.Is(err, errMalformed) {
				t.Errorf("error %v", err)
			}
			return
		}
		again, err := decodeResponse(r.encode())
		if err != nil || again.status != r.status || !bytes.Equal(again.body, r.body) || !reflect.DeepEqual(again.header, r.header) || !reflect.DeepEqual(again.trailer, r.trailer) {
			t.Errorf("%+v became %+v, %v", r, again, err)
		}
		for name := range r.header {
			if forbidden(name) {
				t.Errorf("%s came through", name)
			}
		}
	})
}

func FuzzFingerprint(f *testing.F) {
	f.Add("/orders/1", "a=1&b=2", "application/json", []byte("{}"))
	f.Add("/orders/%2F", "b=2&a=1&b=1&&=", "multipart/form-data; boundary=b", []byte("--b\r\nContent-Disposition: form-data; name=\"f\"\r\n\r\nx\r\n--b--\r\n"))
	f.Add("", "", "multipart/mixed; boundary=", []byte("--"))
	f.Fuzz(func(t *testing.T, path, query, contentType string, body []byte) {
		sum := func(path, query string, body []byte) Fingerprint {
			r := httptest.NewRequest(http.MethodPost, "/", nil)
			r.URL.Path, r.URL.RawPath, r.URL.RawQuery = path, "", query
			r.Header.Set("Content-Type", contentType)
			got, err := fingerprintOf(r, body, nil)
			if err != nil {
				t.Fatal(err)
			}
			return got
		}
		first := sum(path, query, body)
		if sum(path, query, body) != first {
			t.Error("one request has two fingerprints")
		}
		if sum(path, sortedQuery(query), body) != first {
			t.Error("the sorted query has another fingerprint")
		}
		if sum(path+"x", query, body) == first || sum(path, query+"&x=1", body) == first {
			t.Error("another path or query has the same fingerprint")
		}
		if sum(path, query, append(bytes.Clone(body), 0)) == first {
			t.Error("another body has the same fingerprint")
		}
	})
}

// What a multipart reader does not see of a body must not be left out of its fingerprint.
func TestEveryByteOfAMultipartBodyCounts(t *testing.T) {
	seen := map[Fingerprint]string{}
	for _, body := range []string{
		"", "a", "b", "--other\r\n\r\na\r\n--other--\r\n", "--other\r\n\r\nb\r\n--other--\r\n", // The boundary is another one.
		"--b\r\n\r\na", "--b\r\n\r\na\r\n--b", "--b\r\n\r\na\r\n--b\r\n", "--b\r\n\r\na\r\n--b\r\nX: cut", // It ends early.
		"--b\r\nX: cut\r\n--b--", "--b\r\nY: cut\r\n--b--", "preamble\r\n--b\r\n\r\na\r\n--b--\r\n", "--b\r\n\r\na\r\n--b--\r\nepilogue",
		"--b\r\n\r\na\r\n--b--\r\n",                                 // Whole.
		"--b\r\nX: a\r\nY: b\r\n\r\n\r\n--b--",                      // Two headers, and
		"--b\r\nX: a\r\nX: header\r\nX: Y\r\nX: b\r\n\r\n\r\n--b--", // one with values that look like two.
	} {
		r := httptest.NewRequest(http.MethodPost, "/", nil)
		r.Header.Set("Content-Type", "multipart/form-data; boundary=b")
		sum, err := fingerprintOf(r, []byte(body), nil)
		if err != nil {
			t.Fatal(err)
		}
		if other, ok := seen[sum]; ok {
			t.Errorf("%q and %q have one fingerprint", body, other)
		}
		seen[sum] = body
	}
}

func TestStoredKeyIsUnambiguous(t *testing.T) {
	seen := map[Key][]string{}
	for _, parts := range [][]string{
		{kindCaller, "a", "POST", "/r", "k"}, {kindAddress, "a", "POST", "/r", "k"}, {kindCaller, "b", "POST", "/r", "k"}, {kindCaller, "a", "PUT", "/r", "k"},
		{kindCaller, "a", "POST", "/s", "k"}, {kindCaller, "a", "POST", "/r", "l"}, {kindCaller, "aP", "OST", "/r", "k"}, {kindCaller, "a", "POST", "/rk", ""},
	} {
		key := storedKey(subject{parts[0], parts[1]}, parts[2], parts[3], parts[4])
		if other, ok := seen[key]; ok {
			t.Errorf("%q and %q have one key", parts, other)
		}
		seen[key] = parts
	}
}

func TestDecide(t *testing.T) {
	mine, other := Fingerprint{1}, Fingerprint{2}
	for name, tc := range map[string]struct {
		record Record
		want   verdict
	}{
		"no record":               {Record{}, execute},
		"in flight":               {Record{State: InFlight, Fingerprint: mine, Left: 1}, inFlight},
		"in flight without end":   {Record{State: InFlight, Fingerprint: mine}, inFlight},
		"dead":                    {Record{State: InFlight, Fingerprint: mine, Expired: true}, execute},
		"done":                    {Record{State: Done, Fingerprint: mine}, replay},
		"tombstone":               {Record{State: Tombstone, Fingerprint: mine}, buried},
		"a state of the future":   {Record{State: 9, Fingerprint: mine}, buried},
		"in flight, other":        {Record{State: InFlight, Fingerprint: other, Left: 1}, mismatch},
		"dead, other":             {Record{State: InFlight, Fingerprint: other, Expired: true}, mismatch},
		"done, other":             {Record{State: Done, Fingerprint: other}, mismatch},
		"tombstone, other":        {Record{State: Tombstone, Fingerprint: other}, mismatch},
		"done, and the lease too": {Record{State: Done, Fingerprint: mine, Expired: true}, replay},
	} {
		if got := decide(tc.record, mine); got != tc.want {
			t.Errorf("%s: %d, want %d", name, got, tc.want)
		}
	}
	claim := Claim{Ownership: Ownership{Owner: "me"}, Fingerprint: mine}
	if got := decideBegun(Record{State: InFlight, Fingerprint: mine, Ownership: Ownership{Owner: "newer"}, Expired: true}, claim); got != inFlight {
		t.Errorf("a claim that was refused for its token: %d, want %d", got, inFlight)
	}
}
