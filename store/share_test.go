// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"

	"github.com/rawblockd/rawblockd/ioengine"
)

// Each slab's share holds the longest payload and leaves as much to the others.
func TestShareLeavesRoom(t *testing.T) {
	for _, c := range []struct{ memory, payload, most, loads, stores int64 }{
		{512, 128, 384, 256, 192},
		{512, 1, 384, 288, 192},
		{256, 128, 128, 64, 128},
		{300, 128, 172, 86, 128},
		{1024, 128, 768, 576, 384},
	} {
		var sh share
		sh.bound(c.memory, c.payload)
		if want := [2]int64{c.loads, c.stores}; sh.most != c.most || sh.parts != want {
			t.Errorf("of %d, payloads to %d: %d, loads and stores %v; want %d, %v", c.memory, c.payload, sh.most, sh.parts, c.most, want)
		}
	}
}

// Whatever comes and goes: the bounds hold but for one that is alone, the older go
// first, nobody waits who need not, and at the end nothing is held.
func TestShareOrder(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		sh := &share{most: 10, parts: [2]int64{7, 6}}
		type one struct {
			dir ioengine.Dir
			n   int64
			w   *waits
		}
		var held, waiting []one
		settle := func() {
			kept := waiting[:0]
			var older [2]bool // one of the direction waits
			for _, o := range waiting {
				switch {
				case !o.w.done():
					kept = append(kept, o)
					older[o.dir] = true
				case older[o.dir]:
					t.Fatalf("%v of %d overtook", o.dir, o.n)
				default:
					held = append(held, o)
				}
			}
			waiting = kept
		}
		check := func() {
			settle()
			var sum, many [2]int64
			for _, o := range held {
				sum[o.dir] += o.n
				many[o.dir]++
			}
			all := sum[0] + sum[1]
			if all > sh.most || sum[0] > sh.parts[0] && many[0] > 1 || sum[1] > sh.parts[1] && many[1] > 1 {
				t.Fatalf("held: %v", sum)
			}
			if len(waiting) == 0 {
				return
			}
			first := waiting[0]
			part := many[first.dir] == 0 || sum[first.dir]+first.n <= sh.parts[first.dir]
			if part && (all == 0 || all+first.n <= sh.most) {
				t.Fatalf("%v of %d waits, held are %v", first.dir, first.n, sum)
			}
		}
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			if len(held) > 0 && rapid.Bool().Draw(t, "put") {
				i := rapid.IntRange(0, len(held)-1).Draw(t, "which")
				sh.put(held[i].dir, held[i].n)
				held = append(held[:i], held[i+1:]...)
			} else {
				o := one{dir: ioengine.Dir(rapid.IntRange(0, 1).Draw(t, "dir")), n: rapid.Int64Range(1, 7).Draw(t, "n")}
				o.w = sh.wait(o.dir, o.n)
				waiting = append(waiting, o)
			}
			check()
		}
		for len(held) > 0 {
			sh.put(held[0].dir, held[0].n)
			held = held[1:]
			check()
		}
		if loads, stores := sh.inUse(); loads+stores != 0 || len(waiting) > 0 {
			t.Fatalf("at the end %d and %d are held, %d wait", loads, stores, len(waiting))
		}
	})
}

// waits is a get under way in a test.
type waits struct{ granted <-chan struct{} }

func (w *waits) done() bool {
	select {
	case <-w.granted:
		return true
	default:
		return false
	}
}

// wait is get without the goroutine that waits.
func (sh *share) wait(dir ioengine.Dir, n int64) *waits {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	w, _ := sh.queueLocked(dir, n)
	return &waits{w.granted}
}

// One that leaves, because its time is over or the slab is out of service, lets
// those behind it go on.
func TestShareLeave(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		sh := &share{most: 10, parts: [2]int64{20, 5}}
		never := context.Background()
		if !sh.try(ioengine.Read, 6) || sh.try(ioengine.Read, 6) {
			t.Fatal("try")
		}
		ctx, cancel := context.WithCancel(never)
		out, gone := context.WithCancel(never)
		errs := make(chan error, 3)
		go func() { errs <- sh.get(ctx, never, ioengine.Read, 6) }()
		synctest.Wait()
		go func() { errs <- sh.get(never, out, ioengine.Read, 5) }()
		synctest.Wait()
		go func() { errs <- sh.get(never, never, ioengine.Write, 4) }()
		synctest.Wait()
		if sh.try(ioengine.Read, 1) {
			t.Error("one that came last overtook")
		}
		cancel()
		if err := <-errs; !errors.Is(err, context.Canceled) {
			t.Errorf("cancelled: %v", err)
		}
		gone()
		if err := <-errs; !errors.Is(err, errOut) {
			t.Errorf("out of service: %v", err)
		}
		if err := <-errs; err != nil {
			t.Errorf("the last: %v", err)
		}
		if err := sh.get(never, out, ioengine.Read, 1); !errors.Is(err, errOut) {
			t.Errorf("out of service before: %v", err)
		}
		if loads, stores := sh.inUse(); loads != 6 || stores != 4 {
			t.Errorf("held: %d, %d", loads, stores)
		}
	})
}

// What waits for its own direction's part lets the other pass; what waits for room
// does not.
func TestSharePartsLetOthersPass(t *testing.T) {
	sh := &share{most: 10, parts: [2]int64{20, 4}}
	sh.try(ioengine.Write, 4)
	store := sh.wait(ioengine.Write, 3)
	if load := sh.wait(ioengine.Read, 5); store.done() || !load.done() {
		t.Errorf("store %v, load %v", store.done(), load.done())
	}
	sh.put(ioengine.Write, 4)
	big := sh.wait(ioengine.Read, 6)
	if small := sh.wait(ioengine.Write, 1); !store.done() || big.done() || small.done() {
		t.Errorf("store %v, large load %v, small store behind it %v", store.done(), big.done(), small.done())
	}
	sh = &share{most: 10, parts: [2]int64{6, 5}}
	sh.try(ioengine.Read, 6)
	load := sh.wait(ioengine.Read, 1)
	if store := sh.wait(ioengine.Write, 4); load.done() || !store.done() {
		t.Errorf("load beyond the part of loads %v, store behind it %v", load.done(), store.done())
	}
}

// Loads from a slab that hangs hold their share of the stream memory and no more:
// the other slab is loaded from and stored to meanwhile.
func TestHungLoadsDoNotStarveOthers(t *testing.T) {
	inBubble(t, func(o *rigOptions) {
		o.slabs, o.slotSize, o.slots, o.payload, o.buffers = 2, 1<<20-4096, 40, 1<<20-4096, 16<<20
	}, func(t *testing.T, r *rig) {
		const size = 1<<20 - 4096
		keys := names(40)
		r.mustStore(size, keys...)
		hung, well := r.on(0, keys...), r.on(1, keys...)
		release := r.devs[0].Hang(0, r.devs[0].Geometry().Size)
		var loads sync.WaitGroup
		for _, k := range hung {
			loads.Go(func() {
				if got := r.load(1, k); got[0] != Unavailable {
					t.Errorf("load of %q from the slab that hangs: %v", k, got)
				}
			})
		}
		synctest.Wait()
		if got := r.arena.InUse(); got != 9*size { // three quarters of three quarters
			t.Errorf("loads from the slab that hangs hold %d bytes of %d", got, r.arena.Cap())
		}
		began := time.Now()
		if got := r.load(1, well...); !cmp.Equal(got, all(len(well), OK)) {
			t.Errorf("loads from the other: %v", got)
		}
		if took := time.Since(began); took != 0 {
			t.Errorf("loads from the other took %v", took)
		}
		r.mustStore(size, "more") // the queue tells where there is none
		loads.Wait()
		release()
		r.s.work.Wait()
		if got := r.arena.InUse(); got != 0 {
			t.Errorf("%d bytes are held at the end", got)
		}
	})
}

// Stores to a slab that hangs hold less than all, too: those beyond are told that
// they may try again.
func TestHungStoresDoNotStarveOthers(t *testing.T) {
	inBubble(t, func(o *rigOptions) {
		o.slabs, o.slotSize, o.slots, o.payload, o.buffers = 2, 1<<20-4096, 40, 1<<20-4096, 16<<20
		o.spaces = []Namespace{{Name: ns, Slabs: []string{"s1"}}, {Name: "sick", Slabs: []string{"s0"}}}
	}, func(t *testing.T, r *rig) {
		const size = 1<<20 - 4096
		keys := names(8)
		r.mustStore(size, keys...)
		release := r.devs[0].Hang(0, r.devs[0].Geometry().Size)
		var stores sync.WaitGroup
		var mu sync.Mutex
		got := map[Status]int{}
		for i := range 16 {
			it := r.item(fmt.Sprint(i), payload("x", 1, size))
			stores.Go(func() {
				st, err := r.s.BeginStore(context.Background(), "sick", StoreOptions{})
				if err != nil {
					t.Error(err)
					return
				}
				st.Add(it)
				res, err := st.Commit()
				if err != nil {
					t.Error(err)
					return
				}
				mu.Lock()
				defer mu.Unlock()
				got[res[0].Status]++
				if res[0].Status == Busy && !errors.Is(res[0].Err, ErrNoMemory) {
					t.Errorf("%+v", res[0])
				}
			})
		}
		time.Sleep(shareWait + time.Second)
		if got := r.arena.InUse(); got != 6*size {
			t.Errorf("stores to the slab that hangs hold %d bytes of %d", got, r.arena.Cap())
		}
		if got := r.load(1, keys...); !cmp.Equal(got, all(8, OK)) {
			t.Errorf("loads from the other: %v", got)
		}
		stores.Wait()
		if want := map[Status]int{Busy: 10, Unavailable: 6}; !cmp.Equal(got, want) {
			t.Errorf("stores: %v, want %v", got, want)
		}
		release()
		r.s.work.Wait()
		if c := r.slabs[0].Counts(); c.Free != c.Total {
			t.Errorf("slots at the end: %+v", c)
		}
	})
}

// One slab alone has all the memory: there is nobody to leave any to.
func TestOneSlabHasNoShare(t *testing.T) {
	for slabs, want := range map[int]bool{1: false, 2: true} {
		r := newRig(t, func(o *rigOptions) { o.slabs = slabs })
		if got := r.s.volumes[0].share.most > 0; got != want {
			t.Errorf("with %d slabs: bounded is %v", slabs, got)
		}
	}
	r := newRig(t, func(o *rigOptions) { o.slabs, o.gone = 2, map[int]error{1: errors.New("gone")} })
	if r.s.volumes[0].share.most != 0 {
		t.Error("bounded for the sake of a missing one")
	}
}
