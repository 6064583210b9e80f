// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
)

func (r *rig) clear(space string) ClearResult {
	r.t.Helper()
	res, err := r.s.Clear(context.Background(), space)
	if err != nil {
		r.t.Fatalf("clear %q: %v", space, err)
	}
	return res
}

// C22: of two namespaces with the same keys one is cleared; the other keeps
// everything, and so do leases of the one.
func TestClear(t *testing.T) {
	for _, relaxed := range []bool{false, true} {
		t.Run(fmt.Sprint("relaxed=", relaxed), func(t *testing.T) {
			mem := vfs.NewCrashableMem()
			r := newRig(t, func(o *rigOptions) {
				o.fs, o.relaxed, o.slabs, o.spaces = mem, relaxed, 2, seeds(Namespace{Name: "other"})
			})
			ctx := context.Background()
			keys := names(30)
			for _, space := range []string{ns, "other"} {
				if got := r.storeIn(space, 70<<10, keys...); !cmp.Equal(got, all(30, OK)) {
					t.Fatal(got)
				}
			}
			r.pin(keys[3], keys[7])
			if got := r.clear(ns); got != (ClearResult{Removed: 28, Pinned: 2}) {
				t.Errorf("clear: %+v", got)
			}
			want := all(30, Missing)
			want[3], want[7] = OK, OK
			if got := r.load(1, keys...); !cmp.Equal(got, want) {
				t.Errorf("cleared: %v", got)
			}
			if got := r.lookupIn("other", keys...); !cmp.Equal(got, all(30, OK)) {
				t.Errorf("the other: %v", got)
			}
			if got := r.clear(ns); got != (ClearResult{Pinned: 2}) {
				t.Errorf("clear again: %+v", got)
			}
			if a, b := r.info(ns), r.info("other"); a.Entries != 2 || a.Used != 4*64<<10 || b.Entries != 30 || b.Used != 60*64<<10 {
				t.Errorf("accounts: %+v and %+v", a, b)
			}
			crashed := mem.CrashClone(vfs.CrashCloneCfg{})
			r.shut()
			r.fs = crashed
			r.start()
			if got := r.lookup(keys...); !cmp.Equal(got, want) {
				t.Errorf("cleared, after a crash: %v", got)
			}
			if got := r.lookupIn("other", keys...); !cmp.Equal(got, all(30, OK)) {
				t.Errorf("the other, after a crash: %v", got)
			}
			if got := r.clear(ns); got != (ClearResult{Removed: 2}) {
				t.Errorf("clear when the leases have ended: %+v", got)
			}
			if _, err := r.s.Clear(ctx, "none"); !errors.Is(err, ErrNamespace) {
				t.Errorf("clear of none: %v", err)
			}
		})
	}
}

// A clear takes what was published before it began and nothing later, however
// long ago the later had begun, and wherever it lies.
func TestClearDrawsALine(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.spaces = seeds(Namespace{Name: "other"}) })
	ctx := context.Background()
	begun := func(space, key string) *Storing {
		st, err := r.s.BeginStore(ctx, space, StoreOptions{Overwrite: true})
		if err != nil {
			t.Fatal(err)
		}
		st.Add(r.item(key, payload(key, 1, 1000)))
		return st
	}
	r.mustStore(1000, "before", "replaced", "removed")
	early, again, others := begun(ns, "begun before"), begun(ns, "replaced"), begun("other", "begun before")
	never := begun(ns, "never")
	ended := begun(ns, "begun and ended before")
	r.commit(ended)

	c, err := r.s.beginClear(r.s.named(ns))
	if err != nil {
		t.Fatal(err)
	}
	for _, st := range []*Storing{early, again, others} {
		if got := r.commit(st); got[0] != OK {
			t.Fatal(got)
		}
	}
	never.Abort()
	r.remove(false, "removed")
	r.mustStore(1000, "after", "removed")
	var got ClearResult
	if err := r.s.clearChunk(c, 0, len(r.s.x.gen), &got, &pace{}); err != nil {
		t.Error(err)
	}
	r.s.endClear()
	if got != (ClearResult{Removed: 2}) {
		t.Errorf("got %+v, want 2 removed: before, begun and ended before", got)
	}
	if n := len(c.spared); n != 2 {
		t.Errorf("%d publications noted, want those of the two that had begun before", n)
	}
	want := []Status{Missing, Missing, OK, OK, OK, OK}
	if got := r.load(1, "before", "begun and ended before", "begun before", "replaced", "removed", "after"); !cmp.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
	if got := r.lookupIn("other", "begun before"); got[0] != OK {
		t.Errorf("the other namespace: %v", got)
	}
	if got := r.clear(ns); got.Removed != 4 {
		t.Errorf("the next clear: %+v", got)
	}
}

// The lock is held for a bounded number of slots, and others get it in between.
func TestClearInChunks(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.slotSize, o.slots, o.maxPinned = 4096, 3*chunk-100, 1 })
	const many = 2000
	keys := names(many)
	for from := 0; from < many; from += 500 {
		r.mustStore(10, keys[from:from+500]...)
	}
	before := r.acquisitions(lockClear)
	if got := r.clear(ns); got.Removed != many {
		t.Errorf("clear: %+v", got)
	}
	// Two to draw the line, one to end it, one for each chunk, and one more for the
	// entries of the first.
	chunks := (len(r.s.x.gen) + chunk - 1) / chunk
	if got, want := r.acquisitions(lockClear)-before, uint64(chunks)+3+many/hold; got != want || chunks < 3 {
		t.Errorf("the lock was taken %d times for %d chunks, want %d", got, chunks, want)
	}
	if c := r.counts(); c.Free != c.Total {
		t.Errorf("slots after the clear: %+v", c)
	}
}

// A clear whose caller leaves stops, says how far it came, and leaves nothing
// half done; expired entries were absent already and do not count.
func TestClearStops(t *testing.T) {
	r := newRig(t)
	r.mustStore(1000, "a")
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	if _, err := r.s.Clear(ctx, ns); !errors.Is(err, context.Canceled) {
		t.Errorf("clear of a caller who has left: %v", err)
	}
	if got := r.load(1, "a"); got[0] != OK {
		t.Errorf("after it: %v", got)
	}
	r.s.mu.Lock()
	left := r.s.clearing
	r.s.mu.Unlock()
	if left != nil {
		t.Error("a clear is still under way")
	}
	if got := r.clear(ns); got.Removed != 1 {
		t.Errorf("the next one: %+v", got)
	}
}

// The line of a clear is drawn at one moment: what is published while it waits for the
// generation that tells what came later is later, though it had begun before.
func TestPublishedWhileTheLineIsDrawn(t *testing.T) {
	stuck := newStuckSync()
	r := newRig(t, func(o *rigOptions) { o.fs = stuck.wrap(vfs.NewMem()) })
	defer stuck.free()
	r.mustStore(1000, "before")
	early, err := r.s.BeginStore(context.Background(), ns, StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	early.Add(r.item("early", payload("early", 1, 1000)))
	stuck.on.Store(true)
	var drawn sync.WaitGroup
	drawn.Go(func() { // until there are none left without a sync, which hangs
		for stuck.on.Load() {
			if _, err := r.db.NextGenerations(1); err != nil {
				t.Error(err)
				return
			}
		}
	})
	<-stuck.entered
	type outcome struct {
		c   *clearing
		err error
	}
	began := make(chan outcome, 1)
	go func() {
		c, err := r.s.beginClear(r.s.named(ns))
		began <- outcome{c, err}
	}()
	r.until("a clear begins", func() bool {
		r.s.mu.Lock()
		defer r.s.mu.Unlock()
		return r.s.clearing != nil
	})
	stored := make(chan []StoreResult, 1)
	go func() {
		res, err := early.Commit()
		if err != nil {
			t.Error(err)
		}
		stored <- res
	}()
	r.until("it is published", func() bool { return r.lookup("early")[0] == OK })
	if len(began) > 0 {
		t.Fatal("the line was drawn without a generation")
	}
	stuck.free()
	drawn.Wait()
	c := <-began
	if c.err != nil {
		t.Fatal(c.err)
	}
	if got := <-stored; got[0].Status != OK {
		t.Errorf("stored: %+v", got)
	}
	var got ClearResult
	if err := r.s.clearChunk(c.c, 0, len(r.s.x.gen), &got, &pace{}); err != nil {
		t.Error(err)
	}
	r.s.endClear()
	if got != (ClearResult{Removed: 1}) {
		t.Errorf("got %+v, want what was there before alone", got)
	}
	if got := r.load(1, "before", "early"); !cmp.Equal(got, []Status{Missing, OK}) {
		t.Errorf("got %v", got)
	}
}
