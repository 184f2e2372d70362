// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package exchangecode

import (
	"encoding/json"
	"errors"
	"log/slog"
	"net/http"
)

// Handler is the token endpoint for grant_type=authorization_code. Its errors are those of RFC 6749, section 5.2.
func Handler(e *Exchange, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		if req.PostFormValue("grant_type") != "authorization_code" {
			answer(w, http.StatusBadRequest, map[string]string{"error": "unsupported_grant_type"})
			return
		}
		token, err := e.Redeem(req.Context(), req.PostFormValue("code"), req.PostFormValue("client_id"), req.PostFormValue("redirect_uri"))
		switch {
		case err == nil:
			answer(w, http.StatusOK, map[string]string{"access_token": token, "token_type": "Bearer"})
		case errors.Is(err, ErrInvalidGrant):
			answer(w, http.StatusBadRequest, map[string]string{"error": "invalid_grant"})
		case req.Context().Err() != nil:
			log.InfoContext(req.Context(), "client left during an exchange", "client", req.PostFormValue("client_id"))
		default:
			log.ErrorContext(req.Context(), "exchange failed", "client", req.PostFormValue("client_id"), "error", err)
			w.Header().Set("Retry-After", "5")
			answer(w, http.StatusServiceUnavailable, map[string]string{"error": "temporarily_unavailable"})
		}
	})
}

func answer(w http.ResponseWriter, status int, body map[string]string) {
	w.Header().Set("Content-Type", "application/json")
	w.Header().Set("Cache-Control", "no-store")
	w.WriteHeader(status)
	// A client that has gone is nobody to tell.
	_ = json.NewEncoder(w).Encode(body)
}
