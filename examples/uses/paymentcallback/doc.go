// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

// Package paymentcallback takes the calls by which a payment provider tells what has become of a payment. The provider repeats a call until it is
// answered with 2xx, sends repeats to any replica, and does not keep the order.
//
// # What it takes
//
// An inbox, and a lock per payment. The inbox records each event by the provider's id and refuses a second one: that is a unique constraint, and it
// alone makes repeats harmless. The lock keeps different events of one payment apart, "paid" and "refunded", while the order is looked up and
// written in several services that share no transaction. Where it is one row, its version is enough, and no lock is taken.
//
// # What contention answers
//
// 503 with Retry-After: the provider sends the event again, which is the queue that it has anyway. Nothing was recorded.
//
// # When the store of locks is down
//
// 503 as well, for the same reason: no event is lost by it.
package paymentcallback
