// SPDX-License-Identifier: Apache-2.0

// Package ioengine moves bytes between mmap'ed memory and devices by direct
// I/O.
//
// From the bottom up: Open turns a path into a File, which is a Device with a
// Geometry. An Engine carries batches of ops to one Device, many at a time: Pread
// by plain system calls, Uring by io_uring. Do waits for a batch. Arena is the memory: a budget that requests
// share, oldest first. ReadFull and WriteFull are for the few transfers, labels
// and probes, that need no engine.
//
// Errors of the device stay errors of the op they met. What cannot work is
// refused before the device sees it: ops that are not aligned (ErrUnaligned) or
// reach beyond the end (ErrEndOfDevice).
//
// # Memory
//
// A buffer belongs to the engine from Submit until done has been called for its
// op, whatever becomes of the request it was for: a device may write into the
// memory of a cancelled request for as long as it likes (H19). Ops want memory
// outside the Go heap, from an Arena, AlignedAlloc or a client's mapping.
//
// # Concurrency
//
// Everything may be used from any number of goroutines, but for a Buf, which
// has one owner at a time. A Done runs on a goroutine of the engine, several at
// a time for one batch, with no lock held: it may call Submit, and must not
// call Close, wait for other I/O, or take a lock that somebody holds who waits for
// I/O. Each goroutine that an engine starts is
// waited for by its Close.
//
// # Lock ordering
//
// Each lock is a leaf: none is taken while another one of this package is held,
// and no callback runs under one. The exception is WithFlock, whose function
// runs under File.flock and may do I/O, which takes File.life for reading:
//
//	File.flock
//	  File.life
//	Arena.mu
//	core.mu (Pread, Uring)
//	waiting.mu (Do)
//
// File.life is held for reading while a system call runs: it is what makes
// Close wait.
//
// # Errors
//
// ErrUnaligned and ErrEndOfDevice are an op's, ErrClosed an engine's,
// ErrArenaClosed, ErrNoRoom and ErrStill an arena's, ErrHeld Open's and WithFlock's (as a
// HeldError if it is held under another name), ErrReadOnly Open's; what the
// kernel said (EIO, ENODEV, …) is wrapped beneath the device's name. Use
// errors.Is. Programming errors panic: a Buf released twice, an engine without
// workers.
package ioengine
