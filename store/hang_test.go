// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A slab whose transfers hang is offline until they come back: batches go on
// without it, and its slots and memory come back with it.
func TestHungSlab(t *testing.T) {
	inBubble(t, func(o *rigOptions) { o.slabs, o.slots = 2, 128 }, func(t *testing.T, r *rig) {
		keys := names(20)
		r.mustStoreTogether(1000, keys...)
		release := r.devs[0].Hang(0, r.devs[0].Geometry().Size)
		began := time.Now()
		if got := r.load(1, keys...); !cmp.Equal(got, r.want(keys, 0, Unavailable, OK)) {
			t.Errorf("loads: %v", got)
		}
		took := time.Since(began)
		if took < hangLimit || took > hangLimit+2*watchEvery {
			t.Errorf("the batch took %v", took)
		}
		if st := r.slabStatus("s0"); st.Health != HealthOffline || !strings.Contains(st.Reason, "15s") {
			t.Errorf("status: %+v", st)
		}
		// Hits when the batch began, and misses in the end.
		lost := float64(len(r.on(0, keys...)))
		if got := r.missed(ReasonUnavailable); got != lost || lost == 0 {
			t.Errorf("%v misses counted as unavailable, want %v", got, lost)
		}
		began = time.Now()
		if got := r.load(1, keys...); !cmp.Equal(got, r.want(keys, 0, Unavailable, OK)) {
			t.Errorf("loads while it hangs: %v", got)
		}
		r.lookup(keys...)
		if got := r.missed(ReasonUnavailable); got != 3*lost {
			t.Errorf("%v misses counted as unavailable after another load and a lookup, want %v", got, 3*lost)
		}
		fresh := names(40)[20:]
		r.mustStoreTogether(1000, fresh...)
		if took := time.Since(began); took != 0 {
			t.Errorf("loads and stores while it hangs took %v", took)
		}
		time.Sleep(time.Hour)
		release()
		time.Sleep(2 * watchEvery)
		if st := r.slabStatus("s0"); st.Health != HealthOnline {
			t.Errorf("released: %+v", st)
		}
		if got := r.load(1, keys...); !cmp.Equal(got, all(20, OK)) {
			t.Errorf("loads afterwards: %v", got)
		}
	})
}

// A store whose writes hang on one slab publishes what it has on the other, and
// the slots of the rest come back when the device lets go of them.
func TestHungWrites(t *testing.T) {
	inBubble(t, func(o *rigOptions) { o.slabs, o.slots = 2, 128 }, func(t *testing.T, r *rig) {
		release := r.devs[0].Hang(0, r.devs[0].Geometry().Size)
		keys := names(20)
		began := time.Now()
		st, err := r.s.BeginStore(context.Background(), ns, StoreOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range keys {
			st.Add(r.item(k, payload(k, 1, 1000)))
		}
		res, err := st.Commit()
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < hangLimit || took > hangLimit+2*watchEvery {
			t.Errorf("the batch took %v", took)
		}
		var out []string
		for _, x := range res {
			switch {
			case x.Status == Unavailable && x.Err != nil && strings.Contains(x.Err.Error(), "offline"):
				out = append(out, x.Key)
			case x.Status != OK:
				t.Errorf("%+v", x)
			}
		}
		if got := r.on(1, keys...); len(got)+len(out) != 20 || len(out) == 0 {
			t.Errorf("%d keys are stored, %d unavailable", len(got), len(out))
		}
		if c := r.slabs[0].Counts(); int(c.Reserved) != len(out) {
			t.Errorf("while it hangs: %+v", c)
		}
		if used := r.used(); used != 20*r.o.slotSize {
			t.Errorf("%d bytes are used while it hangs, want what the device may still write", used)
		}
		for _, x := range r.storeVersion(2, 1000, StoreOptions{}, out...) { // the same keys, elsewhere
			if x.Status != OK {
				t.Errorf("%+v", x)
			}
		}
		held := r.acquisitions(lockPublish)
		release()
		r.s.work.Wait()
		if n := r.acquisitions(lockPublish) - held; n != 1 || len(out) < 2 {
			t.Errorf("the lock was taken %d times for the slots of %d keys", n, len(out))
		}
		if c := r.slabs[0].Counts(); c.Free != c.Total {
			t.Errorf("released: %+v", c)
		}
		if used := r.used(); used != 20*r.o.slotSize {
			t.Errorf("%d bytes are used at the end", used)
		}
		if got := r.load(2, out...); !cmp.Equal(got, all(len(out), OK)) {
			t.Errorf("loads: %v", got)
		}
	})
}

// A flush that hangs keeps stores away, not loads.
func TestHungFlush(t *testing.T) {
	inBubble(t, func(o *rigOptions) { o.slabs, o.slots = 2, 128 }, func(t *testing.T, r *rig) {
		keys := names(20)
		r.mustStoreTogether(1000, keys...)
		before := len(r.on(0, keys...)) // about half: as the device was busy
		release := r.devs[0].HangFlush()
		began := time.Now()
		out := 0
		for _, x := range r.store(1000, StoreOptions{}, names(40)[20:]...) {
			switch x.Status {
			case OK:
			case Unavailable:
				out++
			default:
				t.Errorf("%+v", x)
			}
		}
		if took := time.Since(began); took < hangLimit || took > hangLimit+2*watchEvery {
			t.Errorf("the batch took %v", took)
		}
		if elsewhere := len(r.on(1, names(40)[20:]...)); out == 0 || out+elsewhere != 20 {
			t.Errorf("%d keys of 20 are unavailable, %d stored elsewhere", out, elsewhere)
		}
		if c := r.slabs[0].Counts(); int(c.Used) != before || c.Reserved != 0 {
			t.Errorf("slots: %+v, want %d used", c, before)
		}
		if st := r.slabStatus("s0"); st.Health != HealthDegraded || !strings.Contains(st.Reason, "flush") {
			t.Errorf("status: %+v", st)
		}
		if got := r.load(1, keys...); !cmp.Equal(got, all(20, OK)) {
			t.Errorf("loads: %v", got)
		}
		began = time.Now()
		r.mustStoreTogether(1000, names(60)[40:]...)
		if took := time.Since(began); took != 0 {
			t.Errorf("stores elsewhere took %v", took)
		}
		release()
		time.Sleep(2 * watchEvery)
		if got := r.health("s0"); got != HealthOnline {
			t.Errorf("released: %s", got)
		}
		r.mustStoreTogether(1000, names(80)[60:]...)
		if got := r.on(0, names(80)[60:]...); len(got) == 0 {
			t.Error("no store goes to it")
		}
	})
}

// A hang shorter than the limit is nobody's end: everybody waits for it.
func TestShortHangIsWaitedFor(t *testing.T) {
	inBubble(t, func(o *rigOptions) { o.slabs = 2 }, func(t *testing.T, r *rig) {
		keys := names(20)
		r.mustStoreTogether(1000, keys...)
		time.AfterFunc(5*time.Second, r.devs[0].Hang(0, r.devs[0].Geometry().Size))
		if got := r.load(1, keys...); !cmp.Equal(got, all(20, OK)) {
			t.Errorf("loads: %v", got)
		}
		if got := r.health("s0"); got != HealthOnline {
			t.Errorf("health: %s", got)
		}
	})
}

// Keys of a slab that hangs do not keep those of another one from being read, even
// where they fill the batch's share of the memory.
func TestHungSlabLeavesTheWindow(t *testing.T) {
	inBubble(t, func(o *rigOptions) { o.slabs, o.slots, o.slotSize = 2, 64, 1<<20-4096 }, func(t *testing.T, r *rig) {
		keys := names(8)
		r.mustStoreTogether(7<<20, keys...) // two fill the window
		release := r.devs[0].Hang(0, r.devs[0].Geometry().Size)
		ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
		defer cancel()
		hung := r.on(0, keys...)
		l, err := r.s.Load(ctx, ns, append(slices.Clone(hung), r.on(1, keys...)...))
		if err != nil {
			t.Fatal(err)
		}
		began := time.Now()
		for i := range keys {
			it, _ := l.Next()
			want := OK
			if i < len(hung) {
				want = Unavailable
			}
			if it.Status != want {
				t.Errorf("key %d, %q: %v (%v), want %v", i, it.Key, it.Status, it.Err, want)
			}
			if it.Buf != nil {
				it.Buf.Release()
			}
		}
		if took := time.Since(began); took > hangLimit+2*watchEvery {
			t.Errorf("the batch took %v", took)
		}
		release()
		synctest.Wait() // the reads of the keys given up have ended
		l.window.mu.Lock()
		if l.window.held != 7<<20 || l.window.keys != 1 { // the last result counts on
			t.Errorf("at the end the window counts %d bytes of %d keys", l.window.held, l.window.keys)
		}
		l.window.mu.Unlock()
		l.Close()
	})
}

// While a transfer is not answered, and nobody knows yet whether it ever will be,
// stores go to the other slab, full as it may be; when it is, they come back.
func TestStoresAvoidALateSlab(t *testing.T) {
	inBubble(t, func(o *rigOptions) { o.slabs, o.slots = 2, 128 }, func(t *testing.T, r *rig) {
		keys := names(60)
		r.mustStoreTogether(1000, keys[:20]...)
		on0 := r.on(0, keys[:20]...)
		r.remove(false, on0[1:]...) // so that all that else counts speaks for it
		release := r.devs[0].Hang(0, r.devs[0].Geometry().Size)
		defer release()
		loaded := make(chan []Status, 1)
		go func() { loaded <- r.load(1, on0[0]) }()
		time.Sleep(lateLimit + watchEvery)
		began := time.Now()
		r.mustStoreTogether(1000, keys[30:40]...)
		if got := r.bySlab(keys[30:40]...); got[1] != 10 || time.Since(began) != 0 {
			t.Errorf("beside a slab that may hang: %v, after %v", got, time.Since(began))
		}
		if h := r.health("s0"); h != HealthOnline {
			t.Errorf("it is %s, and no test", h)
		}
		release()
		if got := <-loaded; got[0] != OK {
			t.Errorf("the load: %v", got)
		}
		time.Sleep(2 * watchEvery)
		r.mustStoreTogether(1000, keys[40:]...)
		if got := r.bySlab(keys[40:]...); got[0] < 10 {
			t.Errorf("afterwards: %v", got)
		}
	})
}
