// SPDX-License-Identifier: Apache-2.0

// Package meta keeps the durable rows of every slab in Pebble: one row per
// entry, quarantined slots, mount numbers, what is known of each slab, the
// settings of namespaces and the generation mark.
//
// DB is the open store, Batch collects changes, Row is the record of one entry,
// NamespaceRecord and SlabRecord those of a namespace and a slab, and Incarnation
// names the slab that a row belongs to. Rows speak plain uint32
// slot numbers; nothing here knows where a slot lies on its device.
//
// # Keys
//
//	s/ incarnation[16] head[4, big-endian]   the row of the entry that starts in slot head
//	q/ incarnation[16] slot[4, big-endian]   a slot out of use, and why
//	m/ incarnation[16]                       mount number
//	d/ incarnation[16]                       what is known of a slab without its device
//	n/ namespace                             settings of a namespace
//	g                                        generation mark: numbers below it may have been used
//	v                                        version and feature bits of all of the above
//
// A row is keyed by where its entry lives, so eviction and scrub need no key,
// a slab is forgotten by range deletes, and the scan at open splits by range.
//
// # Failure
//
// Pebble does not report a failed log write by an error. It calls
// Logger.Fatalf and, should that return, the commit returns nil; it panics
// while holding its commit lock when a batch meets a log that failed earlier;
// and when closing the old log fails during a rotation it panics with its mutex
// in a state that ends the process ("unlock of unlocked mutex"), as a failed
// directory sync does on a background goroutine. No recover helps there.
//
// So no such error reaches Pebble. Its file system is a breaker: the first
// change of the disk that fails (write, sync, create, rename, preallocation
// excepted) trips it. Tripping sets the sticky metaFailed, and from then on every
// change is swallowed and answered with success: the disk stays as it was at
// that instant, exactly as if the process had died there, while Pebble's
// goroutines go on in a dream and can be closed in good order. Nothing they do
// counts any more: Commit, Sync and NextGenerations look at metaFailed after
// Pebble has answered, and metaFailed is set before Pebble can learn of the
// dream, so a nil from them was earned on the real disk.
//
// Other reasons to trip: Fatalf for any cause, a corrupt table, a background
// error. Compactions are not started any more once it has tripped. The store is
// never reopened in this process; a new one starts from what the disk holds.
//
// Rejected: panicking with a sentinel on the committer and parking every other
// goroutine inside Fatalf. It loses the races above (the panics under Pebble's
// locks come without Fatalf), a parked flush blocks a commit that waits for it,
// and Close can then neither wait nor clean up.
//
// # Concurrency
//
// All methods of DB may be called from any goroutine, except Close, which must
// be the last and run alone. A Batch belongs to one goroutine at a time.
// Commit may block without an error while the disk is slow or hangs; the caller
// bounds its own waiting. After metaFailed new calls answer at once, calls
// under way come back, and Close does not block, save for a transfer that hangs
// inside the kernel.
// Options.Fatal runs once on whichever goroutine found the failure, perhaps
// under locks of Pebble: it must neither block nor call the DB.
//
// # Lock ordering
//
//	generations.raising    turnstile, held across one commit; guards no data
//	  generations.mu       leaf
//	ballast.mu             leaf; taken inside Pebble's writes, so nothing below it calls Pebble
//
// # Errors
//
// ErrFailed: metaFailed is set; the outcome of the call is unknown to a change
// and void to a read. ErrHeld: another process or DB holds the directory.
// ErrForeign: the path holds something else. ErrDamaged: files of the store are
// missing or unreadable.
// ErrRow: bytes that are no row. ErrIncompat: written by a release whose format
// this one must not touch. Everything else is the file system's own error with
// the path in front.
package meta
