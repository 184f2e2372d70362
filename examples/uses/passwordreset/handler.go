// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package passwordreset

import (
	"errors"
	"log/slog"
	"net/http"
)

// Handler answers the form with the fields account, token and password: 204 when the password is set, 400 when the token is not
// valid, 503 when that could not be found out.
func Handler(r *Redeemer, log *slog.Logger) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
		account, token, password := req.PostFormValue("account"), req.PostFormValue("token"), req.PostFormValue("password")
		if account == "" || token == "" || password == "" {
			http.Error(w, "the form needs account, token and password", http.StatusBadRequest)
			return
		}
		// The lock is released before the answer is written, so that a client that reads slowly does not hold it.
		err := r.Redeem(req.Context(), account, token, password)
		switch {
		case err == nil:
			w.WriteHeader(http.StatusNoContent)
		case errors.Is(err, ErrInvalidToken):
			http.Error(w, ErrInvalidToken.Error(), http.StatusBadRequest)
		case req.Context().Err() != nil:
			// The client has gone; nobody reads an answer.
			log.InfoContext(req.Context(), "client left during a password reset", "account", account)
		default:
			log.ErrorContext(req.Context(), "password reset failed", "account", account, "error", err)
			w.Header().Set("Retry-After", "5")
			http.Error(w, "the password could not be set; try again", http.StatusServiceUnavailable)
		}
	})
}
