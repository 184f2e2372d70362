// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package lockstead opens the locks of an application's LockNamespace. The operator writes a binding Secret for each LockNamespace; the
// application mounts it; Open reads it and returns a client on the backend that it names: one Redis server, or Kubernetes Leases.
//
//	client, err := lockstead.Open(ctx, nil)
//	if err != nil {
//		return err // says which volume to mount
//	}
//	defer client.Close(ctx)
//
// Package lock says what a lock promises and what not, packages redislock and leaselock what each backend assumes.
//
// # Where the binding is
//
// In Options.BindingDir; else in the folder that $LOCKSTEAD_BINDING names; else in the one folder under $SERVICE_BINDING_ROOT whose entry "provider"
// is "lockstead"; else in /var/run/lockstead. Without a usable binding Open fails, and its error ends with the volume to add to the
// pod. It never falls back to locks in the memory of the process.
//
// # A server that is down
//
// Open checks the binding and contacts no server, so replicas start in any order. While the server cannot be reached, every acquire fails
// with lock.ErrUnavailable, which says why and what to do. A program that wants to know at its start calls Client.Inspect on any key.
//
// # One process, one backend
//
// Type, instance and prefix are fixed at Open. The folder is read again every few seconds: rotated credentials are picked up. When it
// names another backend, two replicas could hold one lock on two backends; so the handles end, and every call
// returns lock.ErrBackendChanged until the process is restarted. A folder that cannot be read for a while changes nothing.
//
// # The fallback
//
// On Leases, the first acquisition logs one warning with the reason and what to do to use Redis instead.
package lockstead
