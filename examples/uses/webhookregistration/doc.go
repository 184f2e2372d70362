// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package webhookregistration registers a webhook at a payment provider when a replica starts: it lists what is registered, creates what is
// missing, and stores the secret that the provider signs its calls with where all replicas read it.
//
// # What it takes
//
// A lock, since the list is the provider's: there is no row of ours to claim, and the provider compares no version. All replicas of a
// deployment start at once, and each would find nothing registered and create an endpoint, so that every payment would be announced once a replica.
//
// The secret is stored with the fencing token of the lock, which the store of secrets compares: a replica that was stopped between
// creating and storing does not overwrite the secret of the endpoint that came after.
//
// # What contention answers
//
// A replica that waits reads the secret again when it has got the lock, and finds the one that the other has stored. A replica that never gets
// it reads once more, and leaves the provider alone: if there is no secret then, Ensure returns ErrNotRegistered, the replica is not ready,
// and the kubelet's next probe asks again.
//
// # When the holder dies
//
// Between creating and storing there is an endpoint whose secret nobody knows, since the provider tells it once. The next holder finds the
// endpoint in the list without a secret in store, deletes it and creates its own.
//
// # When the store of locks is down
//
// As without the lock: one more look for a secret, which is enough for every start but the first, and the provider is left alone.
package webhookregistration
