// SPDX-License-Identifier: Apache-2.0

// Package freelist knows which slots of a slab are free, and nothing else: no
// I/O, no clock, no persistence. The list is derived at every open (H10).
//
// List is a bitmap with one summary bit per word of 64 slots and one more level
// above, so that a free slot is found in a few steps however full the slab is:
// a million slots are 16,384 words, 256 summary words and 4 words on top.
//
// Alloc is next-fit: it goes on from where the last one stopped. So slots of
// one payload, and payloads of one batch, are neighbours whenever the slab has
// room, a freed slot rests as long as possible before it is written again, and
// wear spreads over the device.
//
// # Concurrency
//
// None: a List has no lock. Its owner calls it under its own.
//
// # Errors
//
// None: what cannot be had is a false. Freeing a slot twice or beyond the end
// is a broken invariant of the caller and panics before anything is changed.
package freelist
