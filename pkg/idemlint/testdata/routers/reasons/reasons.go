// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package reasons

import "github.com/lockstead/lockstead/pkg/idempotency"

const good = "a second payment would be made"

func reasons(given string) []idempotency.Declaration {
	return []idempotency.Declaration{
		idempotency.NonIdempotent(good),
		idempotency.NonIdempotent("issues a token pair"),
		idempotency.NonIdempotent(""),                     // want "the reason is empty"
		idempotency.NonIdempotent(" - "),                  // want "the reason is empty"
		idempotency.NonIdempotent("TODO"),                 // want "is a placeholder"
		idempotency.NonIdempotent("todo: find out later"), // want "is a placeholder"
		idempotency.NonIdempotent("n/a"),                  // want "is a placeholder"
		idempotency.NonIdempotent("legacy code"),          // want "is a placeholder"
		idempotency.NonIdempotent("To be decided."),       // want "is a placeholder"
		idempotency.NonIdempotent("xxx xxx xxx xxx"),      // want "is a placeholder"
		idempotency.NonIdempotent("too short"),            // want "is too short"
		idempotency.NonIdempotent("becausethatishowitis"), // want "is too short"
		idempotency.NonIdempotent(given),                  // want "the reason is not a constant"
	}
}
