// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package app

import (
	"net/http"

	"github.com/go-chi/chi/v5"
)

type App struct {
	*chi.Mux
	Admin *chi.Mux
}

func Serve(http.ResponseWriter, *http.Request) {}
