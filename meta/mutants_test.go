// SPDX-License-Identifier: Apache-2.0

//go:build mutants

package meta

import (
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/rawblockd/rawblockd/internal/mutant"
)

func with(t *testing.T, id mutant.ID) {
	t.Helper()
	mutant.Set(id)
	t.Cleanup(func() { mutant.Set(mutant.None) })
}

// TestMutantH34 shows that the hazard is real: without the cure a Commit with
// sync says nil though its log write failed, and the row is gone after a crash.
func TestMutantH34(t *testing.T) {
	for _, name := range []string{"wal write", "wal sync"} {
		t.Run(name, func(t *testing.T) {
			with(t, mutant.H34)
			f := &fault{match: faults()[name], err: syscall.EIO, n: 1, once: true}
			mem := vfs.NewCrashableMem()
			db := mustOpen(t, errorfs.Wrap(mem, f))
			if err := put(db, inc(1), 1, stepRow(1), true); err != nil {
				t.Fatal(err)
			}
			f.armed.Store(true)
			for head := range uint32(3) {
				if err := put(db, inc(1), 10+head, stepRow(2), true); err != nil {
					t.Fatalf("commit %d without the cure: got %v, want the false nil", head, err)
				}
			}
			if err := db.Sync(); err != nil {
				t.Fatalf("sync without the cure: got %v, want the false nil", err)
			}
			if _, failed := db.Failed(); !failed {
				t.Error("metaFailed is unset although a log write failed")
			}
			_ = db.Close() // reports the log's error; nobody asked in time
			mutant.Set(mutant.None)
			db = mustOpen(t, clone(mem, 0, 0))
			defer mustClose(t, db)
			if got := rows(t, db, inc(1)); len(got) != 1 {
				t.Errorf("%d rows survived; the false nils would have been true", len(got))
			}
		})
	}
}

// TestMutantH41 shows that the crash test of the generations finds a counter
// that starts at 1 after each open.
func TestMutantH41(t *testing.T) {
	with(t, mutant.H41)
	if repeats, images := generationRepeats(t); repeats == 0 {
		t.Errorf("none of %d crash images repeats a generation without the cure", images)
	}
}
