// SPDX-License-Identifier: Apache-2.0

// Package mutant lets the crash campaign switch one cure of HAZARDS off, to
// prove that the campaign would find its absence.
//
// Without the build tag "mutants" Enabled is a false constant and On compiles
// to nothing; production binaries have no way to switch a cure off.
//
// Concurrency: Set and Reset belong to a test that runs alone; On may be called
// from anywhere.
//
// Errors: none.
package mutant

// ID names the hazard whose cure is switched off.
type ID uint8

// The hazards that have a switch.
const (
	None ID = iota
	H1      // commit the row without flushing the slots
	H2      // commit deletes without a sync, free their slots at once
	H3      // free slots when the delete is visible, before it is synced
	H9      // overwrite in place
	H10     // trust a persisted free list
	H25     // write the rows of a touch back later, whatever became of their keys
	H34     // believe a nil from a commit though Pebble called Fatalf
	H35     // answer exists and missing without waiting for the committer
	H36     // let a write join a flush that is already running
	H41     // start generations at 1 after each open
)

var names = [...]string{"none", "H1", "H2", "H3", "H9", "H10", "H25", "H34", "H35", "H36", "H41"}

// String returns the hazard's number as HAZARDS names it.
func (id ID) String() string { return names[id] }

// All lists every switch.
func All() []ID { return []ID{H1, H2, H3, H9, H10, H25, H34, H35, H36, H41} }
