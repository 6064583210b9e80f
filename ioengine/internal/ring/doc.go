// SPDX-License-Identifier: Apache-2.0

// Package ring is a binding of io_uring, as much of it as a block store needs:
// vectored reads and writes of one file, with the file and the memory registered.
//
// Open makes a Ring for a descriptor. Submit hands Entries over with one system
// call, Reap waits for Completions; in between the kernel owns the memory.
// Probe tells whether this process may have such a ring.
//
// A system call is spent on submitting only. Reap reads the completion queue, which
// is memory shared with the kernel, and where that is empty it waits in the
// runtime's network poller, for which a ring's descriptor is readable when there are
// completions. (Rejected: an eventfd; it costs the kernel a write and us a read for
// each wake-up, and tells no more.)
//
// What is left out: polled submission (SQPOLL burns a core for as long as there is
// work), linked entries, fsync (the kernel gives it to a thread of its own, and so
// can the caller).
//
// # Concurrency
//
// One Submit and one Reap may run at a time, beside each other. Close may run beside
// a Reap, which it ends. No more entries may be under way than Entries says, so that
// the completion queue, which is twice as long, never overflows.
//
// The thread that submits must neither exit while entries are under way, for the kernel
// cancels what a thread leaves behind, nor make other calls that block without being
// interruptible, such as fsync: the kernel ends an entry on its submitter's thread, and
// a completion waits until that comes back. So it wants a goroutine that is locked to a
// thread and does nothing else.
//
// # Lock ordering
//
// Ring.reaping is the only lock. It is held while Reap waits.
//
// # Errors
//
// Those of the kernel, beneath the name of the system call; os.ErrClosed from Reap
// after Close. An entry's own error is the Res of its Completion.
package ring
