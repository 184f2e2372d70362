// Copyright The Lockstead Authors.
// SPDX-License-Identifier: Apache-2.0

package driver

import "context"

// Lister is implemented by drivers that can tell which keys of a lock namespace are held, for people.
type Lister interface {
	// List returns one page of the held keys of a lock namespace, in any order. A key that one acquisition holds while all the pages are
	// read is on at least one of them; it may be on several. A key that is taken, passed on or freed meanwhile may be there or not. What is on a page
	// was held when the page was made. It needs no more rights than the other calls.
	List(ctx context.Context, req ListRequest) (ListPage, error)
}

// ListRequest asks for one page of the held keys.
type ListRequest struct {
	// Prefix is that of the lock namespace.
	Prefix string
	// Cursor is "" for the first page, else ListPage.Next of the page before.
	Cursor string
	// Limit is how many keys the caller wants at once, from 1 up. A page may have fewer, also none, and is not the last one for that.
	Limit int
}

// ListPage is a page of held keys.
type ListPage struct {
	// Held are the keys of this page, in no particular order.
	Held []HeldKey
	// Next is the cursor of the next page, "" when this is the last.
	Next string
}

// HeldKey is a key and who holds it.
type HeldKey struct {
	// Name is the application's key.
	Name string
	// Holding is never one that nobody holds.
	Holding Holding
}

// ForceReleaser is implemented by drivers that can take a lock away from its holder.
type ForceReleaser interface {
	// ForceRelease frees a key whoever holds it, and wakes waiters, as if the holder had released it. The holder's next renewal is
	// ErrNotHolder; a driver whose store tells a holder without being asked calls AcquireRequest.OnLost. Every later grant has a greater token. It needs
	// no more rights than the other calls, and works also when the store grants nothing for the moment.
	//
	// ErrNotHolder means that nothing was changed: nobody holds the key, or not the acquisition that was asked for.
	ForceRelease(ctx context.Context, req ForceReleaseRequest) (ForcedRelease, error)
}

// ForceReleaseRequest takes a lock away.
type ForceReleaseRequest struct {
	// Key is what to free.
	Key Key
	// ID is the acquisition that is to lose the lock: the next holder keeps it. "" is whoever holds it.
	ID string
}

// ForcedRelease is a lock that was taken away.
type ForcedRelease struct {
	// Holding is what was taken away; Remaining is what was left of it.
	Holding Holding
	// Fence is a token greater than that of the holder, and not greater than that of any later grant: a resource that is told of it refuses the old
	// holder from now on, before anybody else takes the lock. The zero Token when the store cannot make one.
	Fence Token
}
