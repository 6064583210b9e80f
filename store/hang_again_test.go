// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"testing"
	"time"
)

// A slab that hangs, comes back and hangs again is handled the same both times, also
// for a batch that was there the first time: nobody waits for it until his deadline.
func TestHungTwiceUnderOneBatch(t *testing.T) {
	inBubble(t, func(o *rigOptions) { o.slabs, o.slots, o.slotSize = 2, 64, 1<<20-4096 }, func(t *testing.T, r *rig) {
		keys := names(8)
		r.mustStoreTogether(7<<20, keys...) // three fill the window
		var many []string
		for range 3 { // those of the other slab, which nobody takes, keep those behind them out of the first hang
			many = append(append(many, r.on(0, keys...)[0]), append(r.on(1, keys...), r.on(1, keys...)...)...)
		}
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		l, err := r.s.Load(ctx, ns, many)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		for n := range 3 {
			release := r.devs[0].Hang(0, r.devs[0].Geometry().Size)
			began := time.Now()
			if got := nextUnserved(t, l); got != Unavailable {
				t.Errorf("hang %d: %v", n+1, got)
			}
			if took := time.Since(began); took < hangLimit || took > hangLimit+2*watchEvery {
				t.Errorf("hang %d: the reader was told after %v", n+1, took)
			}
			if h := r.health("s0"); h != HealthOffline {
				t.Errorf("hang %d: it is %s", n+1, h)
			}
			release()
			time.Sleep(2 * watchEvery)
			if h := r.health("s0"); h != HealthOnline {
				t.Errorf("after hang %d it is %s", n+1, h)
			}
		}
	})
}

// nextUnserved takes results until one is not OK, and returns that one's status.
func nextUnserved(t *testing.T, l *Loading) Status {
	t.Helper()
	for {
		it, ok := l.Next()
		if !ok {
			t.Fatal("the batch ended")
		}
		if it.Status != OK {
			return it.Status
		}
		it.Buf.Release()
	}
}

// The same for stores: each time the batch goes on without what hangs, and each time
// slots, quota and memory come back.
func TestHungTwiceUnderOneStore(t *testing.T) {
	inBubble(t, func(o *rigOptions) { o.slabs, o.slots = 2, 64 }, func(t *testing.T, r *rig) {
		st, err := r.s.BeginStore(context.Background(), ns, StoreOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for n := range 3 {
			release := r.devs[0].Hang(0, r.devs[0].Geometry().Size)
			for _, k := range names(10*n + 10)[10*n:] {
				st.Add(r.item(k, payload(k, 1, 1000)))
			}
			time.Sleep(hangLimit + watchEvery)
			if h := r.health("s0"); h != HealthOffline {
				t.Errorf("hang %d: it is %s", n+1, h)
			}
			for _, f := range st.flights {
				select {
				case <-f.done:
				default:
					t.Errorf("hang %d: the batch waits for slab %s", n+1, f.v.slab.Name())
				}
			}
			release()
			time.Sleep(2 * watchEvery)
			if c := r.slabs[0].Counts(); c.Reserved != 0 {
				t.Errorf("after hang %d: %+v", n+1, c)
			}
		}
		res, err := st.Commit()
		if err != nil {
			t.Fatal(err)
		}
		got := map[Status]int{}
		for _, x := range res {
			got[x.Status]++
		}
		if got[OK]+got[Unavailable] != 30 || got[OK] < 3 || got[Unavailable] < 3 {
			t.Errorf("%v", got)
		}
		if used := r.used(); used != int64(got[OK])*r.o.slotSize {
			t.Errorf("%d bytes are used for %d entries", used, got[OK])
		}
		if n := r.arena.InUse(); n != 0 {
			t.Errorf("%d bytes of memory are held", n)
		}
	})
}
