// SPDX-License-Identifier: Apache-2.0

// Package store is the whole: keys in namespaces over one or more slabs, with
// the metadata store behind them. Its operations take batches.
//
// A Store answers Lookup, Pin, Unpin, Touch and Remove; a Loading is a batch of
// loads and a Storing a batch of stores under way. The index (key to head slot, in
// RAM) is derived from the rows at Open and never persisted.
//
// # Write order
//
// Store: reserve new slots, write, flush the device once, publish in the index
// and queue the row in one section of the pin lock, commit with a sync, answer.
// Remove: unlink from the index and queue the delete in one section, commit with
// a sync, free the slots that nobody reads, answer. A slot is free only when the
// delete of its entry is durable and no read refers to it. An answer that
// asserts a state waits until the change that made it true is durable. In
// relaxed mode answers do not wait, the reuse of slots does.
//
// # Namespaces
//
// Namespaces are seeded by the configuration file and made, changed, deleted and
// cleared at run time. Their settings are records in the metadata store; in RAM
// they are immutable, and a change replaces them once it is durable. The table of
// names is copied to be changed, so that requests find a namespace without a lock.
//
// # Rewriting rows
//
// Touch is the only change of a row that is there already: it reads the row
// outside the pin lock and queues it only in a section that finds the entry of
// that generation in the index, so that no write-back revives a removed key.
//
// # Several slabs
//
// A batch is placed item by item: least waste, then the shorter queue, then most
// slots free, what the batch has planned included. Each slab has a health that
// follows from errors and hangs of its device, never from load. What is on one that
// is offline, or whose device was missing at the start, is Unavailable, no hit, and
// may be removed and stored anew. What waits for a slab that hangs is answered
// without it; its memory, slots and quota come back when its device answers. No
// slab's transfers hold all of the stream memory while there are others.
//
// # Why a key is not there
//
// Each section of the pin lock that takes entries out of the index leaves word of
// them with its group: which, and why. A bounded history is made of that, which
// Explain and the count of misses read. It is of this process.
//
// # Events
//
// The committer tells all changes in the order of the log, once
// Pebble has them, so never one of a commit that failed. While somebody listens,
// or did lately, a ring keeps the last ones for Feeds, and keys of departures
// that only slots are known of are read from their rows before those go. A Feed is of
// a View, and numbers only count the events of that: of others they tell nothing.
//
// # Concurrency
//
// Everything of Store may be called concurrently. Loading and Storing belong to
// one goroutine each. One goroutine, the committer, writes rows; one ends leases
// and expired entries; one syncs relaxed slabs, and each slab may have one that
// scrubs it; one watches the slabs while they are busy or unwell. Close waits for all of them and for every request and its I/O, also
// that of callers who left at their deadline.
//
// # Lock ordering
//
// The pin lock is taken once per batch (by Touch twice) and never held over I/O, a Pebble call, a
// blocking channel operation or a payload-sized allocation.
//
//	Store.gate
//	Store.changing (a turnstile: one change of namespaces at a time)
//	Store.clears (a turnstile: one clear at a time)
//	events.turn (the committer's, from before a batch is written to after it is told)
//	    events.mu (never with the pin lock)
//	    what follows
//	committer.settling
//	    Store.mu (the pin lock)
//	        committer.mu
//	        history.in
//	        the slab's state lock
//	history.mu (never under the pin lock)
//	    history.in
//	Storing.mu, Loading.mu (never together with the pin lock)
//	    window.mu
//	    signal.mu
//	health.mu
//	    signal.mu
//	share.mu
//
// # Errors
//
// What concerns one key is that key's Status. What concerns the whole request is
// an error: ErrNamespace, ErrNoLease, ErrCursor, ErrSlab, ErrClosed. Changes of namespaces
// know ErrNotEmpty, ErrFromConfig, ErrFingerprint and *SettingError. Once the metadata
// store has failed, changes answer Unavailable and loads go on.
package store
