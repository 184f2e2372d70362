// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package idemlint finds HTTP routes that do not say what a repeated request does.
//
// Every route for POST, PUT or PATCH must carry an idempotency.Declaration, made by Idempotent or NonIdempotent of package
// github.com/lockstead/lockstead/pkg/idempotency, and given to a call that is part of the registration:
//
//	mux.Handle("POST /orders", guard.Wrap(idempotency.Idempotent(idempotency.Policy{}), orders))
//	router.With(declare(guard, idempotency.NonIdempotent("issues a token pair"))).Post("/login", login)
//
// Registrations are recognised on http.ServeMux, chi, gin, echo (v4 and v5), gorilla/mux and idempotency.Mux, by the object that is called and not by
// its name. A pattern without a method matches POST too. A handler that is itself one of these routers needs no declaration: its routes do.
//
// # What is followed
//
// A function that passes its parameters on to a registration is a registration itself, also in another package: its callers are checked. Functions and
// variables that hold a declaration, a handler that installs one, or a router are known over packages too. What cannot be followed is reported: a method or
// a pattern that is not constant, a declaration from a struct field, a registering method used as a value. A declaration on a group or by Use does not
// count, because it would speak for routes that are added later without a word about them. Test files are not looked at.
//
// # How to run it
//
// Analyzer is for any driver of golang.org/x/tools/go/analysis. Command cmd/idemlint runs by itself, with an inventory of the routes and a baseline for old
// code, and as go vet -vettool. Package golangci is the module plugin for golangci-lint.
package idemlint
