// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package idempotency makes HTTP handlers safe to repeat: a client sends a request with an Idempotency-Key, and however often it is sent, on whatever
// replica, it is executed once and every repeat gets the first answer.
//
//	guard, err := idempotency.New(store, client, &idempotency.Options{Caller: userOf}) // client is a *lock.Client
//	…
//	mux := guard.NewMux()
//	mux.HandleFunc("POST /orders", idempotency.Idempotent(idempotency.Policy{}), createOrder)
//	mux.HandleFunc("POST /tokens", idempotency.NonIdempotent("a replayed token may have been rotated away"), issueToken)
//	mux.HandleSafe("GET /orders/{id}", getOrder)
//
// # What it promises
//
// The record in the Store is the truth, and it is fenced: every write is conditional on the owner and the fencing token of the execution, so one that was stopped for
// longer than its lease cannot overwrite the one that took over. The lock serves waiting, and saves work. A replica that dies leaves its key taken until the lease
// has run out (Policy.TTL); then a repeat executes the request again. What the dead one had done until then is for the handler to find: write
// OperationKey with the effect, into a column that is unique, or hand Fence to the resource.
//
// A request without a key, or with a blank one, passes through: its body is not read, its writer not wrapped, nothing allocated.
//
// # Which requests are the same
//
// The record's key is a hash over the caller, the method, the route and the client's key. A caller is who the application says, or else a client address;
// the two never meet, and a route with neither is refused when it is set up. A key is bound to the concrete path, the query with its parameters sorted
// by name, and the body. With another of these it answers 422, whatever the state of the record, and changes nothing.
//
// # What the handler gets
//
// The body is in memory, up to Policy.MaxBody. The context does not end when the client leaves. It ends with the lock, when the record is lost, or after
// Policy.MaxExecution; a handler that goes on after that is not guarded any longer than its lease. Its answer is kept back until the record is
// stored, so that no client sees an answer that a repeat would not get. A handler that flushes, or that writes more than Policy.MaxResponse, sends as it
// goes, and leaves a tombstone: the repeat is not executed, and is told that there is no answer to give. So does one that hijacks the
// connection. Informational answers pass at once. Server push (http.Pusher) is not offered.
//
// # What is stored
//
// Answers of 2xx, with or without a body, and of statuses that the route declares as final. Never 401, 403, 408, 425, 429, 5xx and redirects: a repeat of those executes
// again, unless the handler called Committed. A panic stores nothing, frees the key and goes on. Of the headers, those that are listed are stored, with
// all their values; trailers too. Set-Cookie never.
//
// # When something is out of order
//
// By default the request is executed, and its answer carries X-Idempotent-Degraded with a Reason. Without the lock, the record still guards; without the
// store, the lock still keeps executions apart. When the lock is over too by the time that the store failed, as after a long stop of the process, nothing
// guards, and the request is not executed: it answers 503. With Policy.FailClosed it does so whatever is missing. An answer that could not be stored is
// given all the same: its effect is done.
//
// Refusals are problem details (RFC 9457) with a Code.
package idempotency
