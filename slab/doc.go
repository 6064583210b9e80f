// SPDX-License-Identifier: Apache-2.0

// Package slab owns one device: its label, its slots and their states, and the
// way payloads travel to and from them.
//
// A device becomes a slab by Init, which writes nothing but the device and
// refuses whenever there is anything on it that somebody could miss. Open reads
// the label and returns a Slab, the main type: Reserve and Move keep the state
// of every slot, Write and Read move whole payloads by the batch, Flush makes
// writes durable, ReadHeader serves salvage, scrub and fsck. Absent makes a Slab
// whose device is away: it only keeps accounts of what its rows use.
//
// # On the device
//
//	0        512 KiB   1 MiB                                    last aligned MiB
//	+--------+---------+------+---------+------+---------+-----+--------+------+
//	| label  | label   | zone | slot 0  | zone | slot 1  | ... | label  | tail |
//	+--------+---------+------+---------+------+---------+-----+--------+------+
//	                   |<---- stride -->|
//
// The last 4 KiB of each header zone hold the slot header, so that header and
// payload are one contiguous transfer while the payload still starts on the
// device's optimal boundary. Byte diagrams stand above EncodeLabel and
// EncodeHeader. payloadOffset is the only place that turns a slot number into
// bytes.
//
// # Payloads
//
// A payload is hashed by the piece (1 MiB) with XXH3-64, seeded with
// hash(namespace, key) ⊕ generation; the piece sums and the length are hashed
// into one sum that lives in the row, in RAM and in the header of the head
// slot. Headers of later parts carry sum 0: they are written while the pieces
// are still being hashed, and nobody can use them without the head anyway.
//
// A payload that fits one piece and one slot is one op, header included. Of any
// other the head slot's header and first piece are written last, when all the
// rest has been written; so a valid head header says that the write was whole.
// Writes are padded with zeros to 4 KiB.
//
// # Concurrency
//
// A Slab is safe for concurrent use, but for SetMount (one mount sequence at a
// time, an overlapping call is refused). Callbacks of Read and Write run on engine
// goroutines or on the calling goroutine, each exactly once, and no lock is held
// meanwhile. They must not call Read, Write, ReadHeader, CheckLabel, Flush or Close, all of
// which may wait for other I/O. After a callback ran, no op of its request is on
// the device any more. Restore and Quarantine may precede Ready; Reserve finds
// nothing before it.
//
// Bounce memory comes from two arenas of the slab's own, and waiting for it
// cannot deadlock: a goroutine that waits for the bounce arena holds none of it
// in ops it has not submitted yet, and a goroutine that waits for the heads arena
// has handed over or hashed everything it began. Whoever holds bounce memory is
// therefore an op on its way, and whoever holds a head waits only for such ops.
// Callbacks never wait for memory.
//
// # Lock ordering
//
// All locks are leaves; none is held during I/O, a callback or while another is
// taken:
//
//	Slab.states.mu   slot states and free list, once per batch
//	Slab.flusher.mu  flush numbers
//	Slab.life.mu     calls under way, for Close
//	Slab.label.mu    the label as last written
//	failure.mu       first error of one request
//
// # Errors
//
// Sentinels are in errors.go. ErrOption is for the command line to answer as wrong
// usage (InitOptions.Check gives it before anything is asked); every other refusal of
// Init depends on what the device is. A failed transfer is an *IOError, which names slot,
// offset and device and unwraps to the engine's error; it fails its own request
// only. A failed flush turns the slab read-only for good (ErrReadOnly): what the
// kernel dropped is unknown, and a second fsync that succeeds proves nothing.
// Gone tells errors of a device that is away or dead from those of a wrong one.
// A slot state that the diagram at State forbids panics, for it means that two
// owners believe in one slot.
package slab
