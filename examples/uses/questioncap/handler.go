// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package questioncap

import (
	"errors"
	"log/slog"
	"net/http"

	"github.com/lockstead/lockstead/pkg/idempotency"
)

// Handler answers POST /sessions/{session}/questions with the form field text: 201 with the question's address, 429 at the cap, 503 when
// that could not be found out. caller names the authenticated user. The route declares to guard that it takes no Idempotency-Key: a request with one gets 400, so
// that no client believes that its repeat is told from another question.
func Handler(a *Asker, guard *idempotency.Guard, caller func(*http.Request) string, log *slog.Logger) http.Handler {
	mux := guard.NewMux()
	once := idempotency.NonIdempotent("every request asks one more question, which the cap bounds")
	mux.HandleFunc("POST /sessions/{session}/questions", once, func(w http.ResponseWriter, req *http.Request) {
		session, user, text := req.PathValue("session"), caller(req), req.PostFormValue("text")
		if user == "" {
			http.Error(w, "who is asking?", http.StatusUnauthorized)
			return
		}
		if text == "" {
			http.Error(w, "the form needs text", http.StatusBadRequest)
			return
		}
		id, err := a.Ask(req.Context(), session, user, text)
		var reached *CapError
		switch {
		case err == nil:
			w.Header().Set("Location", req.URL.JoinPath(id).Path)
			w.WriteHeader(http.StatusCreated)
		case errors.As(err, &reached):
			http.Error(w, reached.Error(), http.StatusTooManyRequests)
		case req.Context().Err() != nil:
			log.InfoContext(req.Context(), "client left before its question was taken", "session", session, "user", user)
		default:
			log.ErrorContext(req.Context(), "question not taken", "session", session, "user", user, "error", err)
			w.Header().Set("Retry-After", "5")
			http.Error(w, "the question could not be taken; try again", http.StatusServiceUnavailable)
		}
	})
	return mux
}
