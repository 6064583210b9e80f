// SPDX-License-Identifier: Apache-2.0

//go:build mutants

package slab

import (
	"testing"
	"testing/synctest"

	"github.com/rawblockd/rawblockd/internal/mutant"
)

// TestMutantJoinsTheRunningFlush: with the cure of H36 off, the call returns with a
// flush that began before it came; TestFlushIsNeverJoined would fail.
func TestMutantJoinsTheRunningFlush(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		mutant.Set(mutant.H36)
		defer mutant.Set(mutant.None)
		s, g, done := flushRig(t)
		defer done()
		first := call(s)
		<-g.begun
		late := call(s)
		synctest.Wait()
		g.let <- nil
		<-first
		if pending(late) {
			t.Error("the mutant waits for the next flush")
			<-g.begun
			g.let <- nil
		}
	})
}
