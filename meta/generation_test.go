// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"errors"
	"math"
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

func TestGenerationsAreConsecutiveAndNeverZero(t *testing.T) {
	db := mustOpen(t, vfs.NewMem())
	defer mustClose(t, db)
	next := uint64(1)
	for _, n := range []uint64{1, 1, 0, 17, generationBlock, 3*generationBlock + 1, 1} {
		first, err := db.NextGenerations(n)
		if err != nil {
			t.Fatal(err)
		}
		if first != next {
			t.Errorf("NextGenerations(%d) = %d, want %d", n, first, next)
		}
		next += n
	}
}

func TestGenerationsOneSyncPerBlock(t *testing.T) {
	var syncs atomic.Int64
	db := mustOpen(t, errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if isFile(op, ".log") && isKind(errorfs.OpFileSync, errorfs.OpFileSyncData)(op) {
			syncs.Add(1) // only this test's own commits reach the log
		}
		return nil
	})))
	if _, err := db.NextGenerations(1); err != nil {
		t.Fatal(err)
	}
	before := syncs.Load()
	for range 1000 {
		if _, err := db.NextGenerations(1000); err != nil {
			t.Fatal(err)
		}
	}
	if got := syncs.Load() - before; got > 1 {
		t.Errorf("a million generations took %d syncs", got)
	}
	mustClose(t, db)
}

func TestGenerationsConcurrent(t *testing.T) {
	const callers, calls, n = 8, 50, generationBlock / 16
	db := mustOpen(t, vfs.NewMem())
	defer mustClose(t, db)
	firsts := make(chan uint64)
	for range callers {
		go func() {
			for range calls {
				first, err := db.NextGenerations(n)
				if err != nil {
					t.Error(err)
				}
				firsts <- first
			}
		}()
	}
	seen := map[uint64]bool{}
	for range callers * calls {
		first := <-firsts
		if seen[first] || first%n != 1 || first > callers*calls*n {
			t.Errorf("range at %d overlaps another or leaves a gap", first)
		}
		seen[first] = true
	}
}

func TestGenerationsExhausted(t *testing.T) {
	db := mustOpen(t, vfs.NewMem())
	defer mustClose(t, db)
	if _, err := db.NextGenerations(math.MaxUint64); !errors.Is(err, ErrGenerations) {
		t.Errorf("got %v, want ErrGenerations", err)
	}
	if first, err := db.NextGenerations(1); first != 1 || err != nil {
		t.Errorf("after a refusal: %d, %v", first, err)
	}
}

// generationRepeats crashes before every change of a run that draws
// generations, and counts the images in which one is handed out again.
func generationRepeats(t *testing.T) (repeats, images int) {
	t.Helper()
	type shot struct {
		fs     *vfs.MemFS
		handed uint64
	}
	var mu sync.Mutex // Pebble changes the disk from several goroutines
	var shots []shot
	var handed atomic.Uint64
	mem := vfs.NewCrashableMem()
	db := mustOpen(t, errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if isChange(op) {
			mu.Lock()
			defer mu.Unlock()
			for _, percent := range []int{0, 50, 100} {
				n := handed.Load()
				shots = append(shots, shot{clone(mem, percent, n), n})
			}
		}
		return nil
	})))
	for range 12 {
		const n = generationBlock / 3
		first, err := db.NextGenerations(n)
		if err != nil {
			t.Fatal(err)
		}
		handed.Store(first + n - 1)
		if err := put(db, inc(1), uint32(first/n), Row{Gen: first}, true); err != nil {
			t.Fatal(err)
		}
	}
	mustClose(t, db)
	shots = append(shots, shot{clone(mem, 0, 0), handed.Load()})
	for _, s := range shots {
		db := mustOpen(t, s.fs)
		first, err := db.NextGenerations(1)
		if err != nil {
			t.Fatal(err)
		}
		if first <= s.handed {
			repeats++
		}
		mustClose(t, db)
	}
	return repeats, len(shots)
}

func TestGenerationsNeverRepeatAcrossCrashes(t *testing.T) {
	repeats, images := generationRepeats(t)
	if repeats != 0 || images < 100 {
		t.Errorf("%d of %d crash images repeat a generation, want none of at least 100", repeats, images)
	}
}
