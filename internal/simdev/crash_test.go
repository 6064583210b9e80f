// SPDX-License-Identifier: Apache-2.0

package simdev

import (
	"errors"
	"math/rand/v2"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"pgregory.net/rapid"
)

func oldest(int64, int) int            { return 0 }
func newest(_ int64, versions int) int { return versions - 1 }

func TestCrashLosesWhatWasNotFlushed(t *testing.T) {
	d := New(Options{Size: 4 * block, Volatile: true})
	put(t, d, 0, 3, 1)
	if err := d.Flush(); err != nil {
		t.Fatal(err)
	}
	put(t, d, block, 2, 2)
	put(t, d, 2*block, 1, 3)
	if got := d.Unflushed(); got != 2 {
		t.Errorf("unflushed writes: got %d, want 2", got)
	}
	wantValues(t, d.Crash(oldest), 1, 1, 1, 0)
	wantValues(t, d.Crash(newest), 1, 2, 3, 0)
	wantValues(t, d.Crash(func(off int64, versions int) int {
		if off == 2*block {
			if versions != 3 {
				t.Errorf("versions of block 2: got %d, want 3", versions)
			}
			return 1
		}
		return 0
	}), 1, 1, 2, 0)
	wantValues(t, d, 1, 2, 3, 0) // the device itself goes on
}

func TestCrashAfterFlushIsCertain(t *testing.T) {
	d := New(Options{Size: 4 * block, Volatile: true})
	put(t, d, 0, 4, 1)
	put(t, d, block, 1, 2)
	if err := d.Flush(); err != nil {
		t.Fatal(err)
	}
	after := d.Crash(func(off int64, _ int) int {
		t.Errorf("block at %d is uncertain after a flush", off)
		return 0
	})
	wantValues(t, after, 1, 2, 1, 1)
}

func TestFlushCoversOnlyWhatCompletedBeforeIt(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New(Options{Size: 4 * block, Volatile: true, FlushTime: time.Second})
		put(t, d, 0, 1, 1)
		flushed := make(chan error)
		go func() { flushed <- d.Flush() }()
		synctest.Wait() // the flush is running
		put(t, d, block, 1, 2)
		if err := <-flushed; err != nil {
			t.Fatal(err)
		}
		wantValues(t, d.Crash(oldest), 1, 0)
		wantValues(t, d.Crash(newest), 1, 2)
	})
}

func TestFailedFlushLosesForGood(t *testing.T) {
	d := New(Options{Size: 4 * block, Volatile: true})
	put(t, d, 0, 2, 1)
	d.FailFlush(syscall.EIO)
	if err := d.Flush(); !errors.Is(err, syscall.EIO) {
		t.Fatalf("got %v, want %v", err, syscall.EIO)
	}
	put(t, d, block, 1, 2)
	if err := d.Flush(); err != nil {
		t.Fatal(err)
	}
	wantValues(t, d.Crash(oldest), 0, 2)
	// What a durable write has replaced does not come back.
	wantValues(t, d.Crash(newest), 1, 2)
}

func TestCrashTearsARunningWrite(t *testing.T) {
	d := New(Options{Size: 4 * block, Volatile: true})
	release := d.Hang(0, block)
	mem := aligned(t, 4*block, 7)
	done := make(chan struct{})
	go func() {
		defer close(done)
		_, _ = d.Pwritev([][]byte{mem}, 0)
	}()
	d.AwaitInFlight(1)
	wantValues(t, d.Crash(oldest), 0, 0, 0, 0)
	wantValues(t, d.Crash(func(off int64, _ int) int { return int(off/block) % 2 }), 0, 7, 0, 7)
	release()
	<-done
}

func TestPokeIsDurable(t *testing.T) {
	d := New(Options{Size: 4 * block, Volatile: true})
	put(t, d, 0, 1, 4)
	d.FlipBit(0)
	wantValues(t, d.Crash(oldest), 5)
	wantValues(t, d.Crash(newest), 5)
}

func TestCrashNeedsVolatile(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("Crash of a device without a volatile cache did not panic")
		}
	}()
	New(Options{Size: block}).Crash(oldest)
}

// TestCrashModel keeps, for each block, the set of values that may be found.
func TestCrashModel(t *testing.T) {
	rapid.Check(t, func(rt *rapid.T) {
		const blocks = 4
		d := New(Options{Size: blocks * block, Volatile: true})
		possible := [blocks][]byte{{0}, {0}, {0}, {0}}
		for value := byte(1); value < byte(rapid.IntRange(2, 30).Draw(rt, "steps")); value++ {
			if rapid.IntRange(0, 3).Draw(rt, "flush") == 0 {
				if err := d.Flush(); err != nil {
					rt.Fatal(err)
				}
				for i := range possible {
					possible[i] = possible[i][len(possible[i])-1:]
				}
				continue
			}
			first := rapid.IntRange(0, blocks-1).Draw(rt, "first")
			count := rapid.IntRange(1, blocks-first).Draw(rt, "count")
			put(t, d, int64(first)*block, count, value)
			for i := first; i < first+count; i++ {
				possible[i] = append(possible[i], value)
			}
		}
		rnd := rand.New(rand.NewPCG(rapid.Uint64().Draw(rt, "seed"), 0))
		after := values(d.Crash(func(_ int64, versions int) int { return rnd.IntN(versions) }), blocks)
		for i, got := range after {
			found := false
			for _, v := range possible[i] {
				found = found || v == got
			}
			if !found {
				rt.Fatalf("block %d: found %d, possible are %v", i, got, possible[i])
			}
		}
	})
}
