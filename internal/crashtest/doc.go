// SPDX-License-Identifier: Apache-2.0

// Package crashtest is the crash campaign: it runs the whole store on one
// crashable file system in memory, cuts the power at any write operation,
// reopens what is left and compares it with a model.
//
// Pebble and the slot device are files of one vfs.MemFS. Every write operation
// of both passes a timeline, which may take a clone of the file system just
// before or just after it, with none, half or all of the unsynced data kept. The
// clone and a copy of the model are taken in one instant, under the model's
// lock, so what the model calls acknowledged at that instant had been answered
// before the power went.
//
// The main types: setup (what a seed means), timeline (one file system until it
// is abandoned), node (meta, slab and store opened on it), model (per key: what
// was begun, what was answered), actor (the workload), verifier (opens a clone
// and judges it), campaign (seeds and counters). A payload is a function of
// namespace, key and version, so any bytes name the store that wrote them. The
// store runs with verification off wherever its design allows, so that checksums
// cannot hide an ordering mistake.
//
// A mutant is the product with one cure of HAZARDS switched off (build tag
// mutants); the campaign has to find each.
//
// # Concurrency
//
// Actors of a run are goroutines; points are judged by as many verifiers as
// there are processors, and a full queue of points holds the run's writes up.
// With one actor a seed repeats its run almost exactly, as only Pebble's own
// goroutines are left to chance; with several it repeats the mix of work.
//
// # Lock ordering
//
//	model.mu
//	  locks of vfs.MemFS
//
// Nothing calls the store or the file system's write operations while it holds
// model.mu.
//
// # Errors
//
// What the product does wrong is a finding: kind, text, and the seed and point
// that show it. A Go error means that the campaign itself could not go on.
package crashtest
