// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package webhookregistration_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"

	"github.com/lockstead/lockstead/examples/uses/replicatest"
	"github.com/lockstead/lockstead/examples/uses/webhookregistration"
	"github.com/lockstead/lockstead/pkg/lock"
)

// account is what the payment provider keeps for the shop, served over HTTP.
type account struct {
	url string

	mu        sync.Mutex
	made      int
	asked     int
	endpoints []webhookregistration.Endpoint
}

func newAccount(t *testing.T) *account {
	t.Helper()
	a := &account{}
	mux := http.NewServeMux()
	gap := replicatest.NewGap()
	mux.HandleFunc("GET /endpoints", func(w http.ResponseWriter, _ *http.Request) {
		list := a.list()
		gap.Stay()
		_ = json.NewEncoder(w).Encode(list)
	})
	mux.HandleFunc("POST /endpoints", func(w http.ResponseWriter, r *http.Request) {
		url, err := io.ReadAll(r.Body)
		if err != nil {
			return
		}
		a.mu.Lock()
		defer a.mu.Unlock()
		a.made++
		a.endpoints = append(a.endpoints, webhookregistration.Endpoint{ID: fmt.Sprintf("endpoint-%d", a.made), URL: string(url)})
		_, _ = fmt.Fprintf(w, "secret-%d", a.made)
	})
	mux.HandleFunc("DELETE /endpoints/{id}", func(_ http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		defer a.mu.Unlock()
		a.endpoints = slices.DeleteFunc(a.endpoints, func(e webhookregistration.Endpoint) bool { return e.ID == r.PathValue("id") })
	})
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		a.mu.Lock()
		a.asked++
		a.mu.Unlock()
		mux.ServeHTTP(w, r)
	}))
	t.Cleanup(server.Close)
	t.Cleanup(http.DefaultClient.CloseIdleConnections)
	a.url = server.URL
	return a
}

func (a *account) list() []webhookregistration.Endpoint {
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Clone(a.endpoints)
}

func (a *account) created() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.made
}

func (a *account) requests() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.asked
}

// provider is the client of an account.
type provider struct{ url string }

func (p provider) call(ctx context.Context, method, path, body string) ([]byte, error) {
	request, err := http.NewRequestWithContext(ctx, method, p.url+path, bytes.NewBufferString(body))
	if err != nil {
		return nil, err
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return nil, err
	}
	defer response.Body.Close()
	if response.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("%s %s: %s", method, path, response.Status)
	}
	return io.ReadAll(response.Body)
}

func (p provider) List(ctx context.Context) ([]webhookregistration.Endpoint, error) {
	raw, err := p.call(ctx, http.MethodGet, "/endpoints", "")
	if err != nil {
		return nil, err
	}
	var list []webhookregistration.Endpoint
	if err := json.Unmarshal(raw, &list); err != nil {
		return nil, err
	}
	return list, nil
}

func (p provider) Create(ctx context.Context, url string) (string, error) {
	raw, err := p.call(ctx, http.MethodPost, "/endpoints", url)
	return string(raw), err
}

func (p provider) Delete(ctx context.Context, id string) error {
	_, err := p.call(ctx, http.MethodDelete, "/endpoints/"+id, "")
	return err
}

// secrets keeps one secret in a folder that all processes share. A test can stand before a load, and before a store.
type secrets struct {
	dir     string
	loading func()
	storing func(ctx context.Context) error
}

type secretRecord struct {
	Secret string     `json:"secret"`
	Token  lock.Token `json:"token"`
}

func (s secrets) read() (secretRecord, error) {
	raw, err := os.ReadFile(filepath.Join(s.dir, "secret"))
	if errors.Is(err, os.ErrNotExist) {
		return secretRecord{}, nil
	}
	if err != nil {
		return secretRecord{}, err
	}
	var r secretRecord
	if err := json.Unmarshal(raw, &r); err != nil {
		return secretRecord{}, err
	}
	return r, nil
}

func (s secrets) Load(context.Context, string) (string, error) {
	if s.loading != nil {
		s.loading()
	}
	r, err := s.read()
	return r.Secret, err
}

func (s secrets) Store(ctx context.Context, _, secret string, token lock.Token) error {
	if s.storing != nil {
		if err := s.storing(ctx); err != nil {
			return err
		}
	}
	old, err := s.read()
	if err != nil {
		return err
	}
	if token.Less(old.Token) {
		return webhookregistration.ErrStale
	}
	raw, err := json.Marshal(secretRecord{Secret: secret, Token: token})
	if err != nil {
		return err
	}
	// A reader sees the old file or the new one, never a part.
	next := filepath.Join(s.dir, "secret-"+token.String())
	if err := os.WriteFile(next, raw, 0o600); err != nil {
		return err
	}
	return os.Rename(next, filepath.Join(s.dir, "secret"))
}
