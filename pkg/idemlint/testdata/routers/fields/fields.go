// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package fields imports no router.
package fields

import "example.com/routers/fields/app"

func Routes(a *app.App) {
	a.Post("/a", app.Serve)      // want "POST /a does not say"
	a.Admin.Put("/b", app.Serve) // want "PUT /b does not say"
}
