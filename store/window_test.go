// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rawblockd/rawblockd/ioengine"
)

// How many payloads of one size a batch may hold at once.
func TestWindowShares(t *testing.T) {
	const mib = 1 << 20
	for _, c := range []struct {
		all, n int64
		want   int
	}{
		{512 * mib, 24 * mib, 5},
		{512 * mib, 128 * mib, 2}, // two, as they are within half
		{512 * mib, mib, 128},
		{256 * mib, 24 * mib, 3},
		{512 * mib, 80 * mib, 3},
		{256 * mib, 128 * mib, 1}, // always one
		{256 * mib, 256 * mib, 1},
		{256 * mib, 64 * mib, 2},
	} {
		w := &window{all: c.all, share: c.all / windowShare, freed: make(chan struct{}, 1)}
		got := 0
		for w.tryTake(c.n) {
			got++
		}
		if got != c.want {
			t.Errorf("%d bytes each of %d: %d at once, want %d", c.n, c.all, got, c.want)
		}
		w.give(c.n)
		if !w.tryTake(c.n) {
			t.Errorf("%d bytes each of %d: one given back is not there for the next", c.n, c.all)
		}
	}
}

// Small payloads are let in several at once, large ones one by one.
func TestWindowLetsSmallOnesInTogether(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := &window{all: 128, share: 32, freed: make(chan struct{}, 1)} // an eighth of the share is 4
		for w.tryTake(1) {
		}
		taken := make(chan error, 1)
		go func() { taken <- w.take(t.Context(), 1) }()
		for range 3 {
			w.give(1)
			synctest.Wait()
			if len(taken) > 0 {
				t.Fatal("let in before four are free")
			}
		}
		w.give(1)
		if err := <-taken; err != nil {
			t.Error(err)
		}
		ctx, cancel := context.WithCancel(t.Context())
		for w.tryTake(1) {
		}
		go func() { taken <- w.take(ctx, 1) }()
		cancel()
		if err := <-taken; !errors.Is(err, context.Canceled) {
			t.Errorf("got %v", err)
		}
	})
}

// A batch whose client takes nothing keeps a share of the memory from others, not
// all; when it is closed its memory and its references are back.
func TestStalledBatchHoldsItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const size, n = 2 << 20, 24
		r := newRig(t, func(o *rigOptions) {
			o.slotSize, o.slots, o.payload, o.buffers, o.interval = 2<<20, n+1, 4<<20, 32<<20, 1000*time.Hour
		})
		keys := names(n)
		r.mustStore(size, keys...)
		stalled, err := r.s.Load(t.Context(), ns, keys)
		if err != nil {
			t.Fatal(err)
		}
		synctest.Wait()
		if got := r.arena.InUse(); got != 8<<20 {
			t.Errorf("untouched it holds %d bytes, want a quarter of %d", got, r.arena.Cap())
		}
		first, _ := stalled.Next()
		synctest.Wait()
		if got := r.arena.InUse(); got != 8<<20 {
			t.Errorf("with one key taken it holds %d bytes, want a quarter of %d", got, r.arena.Cap())
		}
		first.Buf.Release()
		second, _ := stalled.Next()
		synctest.Wait()
		if got := r.arena.InUse(); got != 8<<20 {
			t.Errorf("with one key done it holds %d bytes: the next should have come in for it", got)
		}
		// Others go on meanwhile, without waiting.
		began := time.Now()
		if got := r.load(1, keys...); !cmp.Equal(got, all(n, OK)) || time.Since(began) != 0 {
			t.Errorf("another batch beside it: %v after %v", got, time.Since(began))
		}
		r.remove(true, keys...)
		if c := r.counts(); c.Retired == 0 {
			t.Errorf("slots: %+v, want some that the stalled batch refers to", c)
		}
		second.Buf.Release()
		stalled.Close()
		r.s.work.Wait()
		if c := r.counts(); c.Retired != 0 || c.Used != 0 || r.arena.InUse() != 0 {
			t.Errorf("cut off, it left %+v and %d bytes of memory", c, r.arena.InUse())
		}
		r.end()
	})
}

// All keys of a batch are read however little it may hold, in order.
func TestWindowedBatchIsWhole(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.slotSize, o.slots, o.payload, o.buffers = 256<<10, 120, 1<<20, 2<<20 })
	keys := names(40)
	for i, k := range keys {
		r.mustStore([]int{1 << 20, 1000, 300 << 10, 4096}[i%4], k)
	}
	keys = append(keys, "missing", keys[0], keys[1])
	want := append(all(40, OK), Missing, OK, OK)
	if got := r.load(1, keys...); !cmp.Equal(got, want) {
		t.Errorf("got %v", got)
	}
}

// A store holds no more than its share in payloads that the device has not taken,
// and its own memory is what it waits for then.
func TestStoreHoldsItsShare(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *rigOptions) { o.slots, o.payload, o.buffers, o.interval = 256, 1<<20, 16<<20, 1000*time.Hour })
		release := r.devs[0].Hang(1<<20, 64<<20)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		defer cancel()
		st, err := r.s.BeginStore(ctx, ns, StoreOptions{})
		if err != nil {
			t.Fatal(err)
		}
		keys := names(8)
		added := 0
		add := func() error {
			buf, err := st.Buffer(ctx, 1<<20, time.Second)
			if err == nil {
				st.Add(StoreItem{Key: keys[added], Len: 1 << 20, Buf: buf})
				added++
			}
			return err
		}
		time.AfterFunc(10*time.Second, release)
		began := time.Now()
		for range keys {
			if err := add(); err != nil {
				t.Fatal(err)
			}
			if got := r.arena.InUse(); got > 4<<20 {
				t.Errorf("%d bytes are held, want at most a quarter of %d", got, r.arena.Cap())
			}
			if took := time.Since(began); took > 0 != (added > 4) {
				t.Errorf("key %d came in after %v", added, took)
			}
		}
		res, err := st.Commit()
		if err != nil || res[7].Status != OK {
			t.Errorf("%+v %v", res, err)
		}
		r.end()
	})
}

// What followers keep is bounded for each batch, and does not keep the batch from
// taking in what it stores itself.
func TestFollowersHoldTheirShare(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.slots, o.payload, o.buffers = 256, 1<<20, 16<<20 })
	leader, err := r.s.BeginStore(context.Background(), ns, StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	keys := names(8)
	for _, k := range keys {
		leader.Add(r.item(k, payload(k, 1, 10)))
	}
	for _, f := range leader.flights {
		<-f.done
	}
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	st, err := r.s.BeginStore(ctx, ns, StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	add := func(key string, n int64) {
		buf, err := st.Buffer(ctx, n, time.Second)
		if err != nil {
			t.Fatalf("%q: %v", key, err)
		}
		st.Add(StoreItem{Key: key, Len: n, Buf: buf})
	}
	for _, k := range keys {
		add(k, 1<<20)
	}
	if got := r.arena.InUse(); got != 4<<20 {
		t.Errorf("followers keep %d bytes, want a quarter of %d", got, r.arena.Cap())
	}
	for _, k := range []string{"own1", "own2", "own3", "own4", "own5"} {
		add(k, 1<<20)
	}
	leader.Abort()
	res, err := st.Commit()
	if err != nil {
		t.Fatal(err)
	}
	count := map[Status]int{}
	for _, x := range res {
		count[x.Status]++
	}
	if want := map[Status]int{OK: 9, Busy: 4}; !cmp.Equal(count, want) {
		t.Errorf("got %v, want %v", count, want)
	}
}

// A single batch, of loads or of stores, is as fast with its share of the memory as
// with all of it, within the 5 % of case C1, be the device the slower side or the
// client. Device and time are simulated: 4 workers move a MiB in 10 ms each, 32 keys
// are of 3 MiB, and the budget is 21 of them, as 512 MiB are of 24 MiB.
func TestWindowCostsASingleBatchNothing(t *testing.T) {
	const n, size, budget = 32, 3 << 20, 64 << 20
	keys := names(n)
	timed := func(batch func(r *rig, client time.Duration, share int64), client time.Duration, share int64) (took time.Duration) {
		synctest.Test(t, func(t *testing.T) {
			slow := time.Duration(0)
			r := newRig(t, func(o *rigOptions) {
				o.slotSize, o.slots, o.workers, o.payload, o.buffers, o.interval = 1<<20, 2*n*3+8, 4, size, budget, 1000*time.Hour
				o.service = func(ioengine.Dir, int) time.Duration { return slow }
			})
			r.mustStore(size, keys...)
			slow = 10 * time.Millisecond
			began := time.Now()
			batch(r, client, share)
			took = time.Since(began)
			r.end()
		})
		return took
	}
	load := func(r *rig, client time.Duration, share int64) {
		l, err := r.s.loadWithin(context.Background(), ns, keys, 0, share)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		for it, more := l.Next(); more; it, more = l.Next() {
			if it.Status != OK {
				t.Fatalf("%q: %v", it.Key, it.Status)
			}
			time.Sleep(client)
			it.Buf.Release()
		}
	}
	store := func(r *rig, client time.Duration, share int64) {
		st, err := r.s.BeginStore(context.Background(), ns, StoreOptions{})
		if err != nil {
			t.Fatal(err)
		}
		st.window.share = share
		for _, k := range keys {
			buf, err := st.Buffer(context.Background(), size, 0)
			if err != nil {
				t.Fatal(err)
			}
			time.Sleep(client)
			st.Add(StoreItem{Key: "new-" + k, Len: size, Buf: buf})
		}
		res, err := st.Commit()
		if err != nil || res[n-1].Status != OK {
			t.Fatalf("%+v, %v", res, err)
		}
	}
	const device = 7500 * time.Microsecond // for one key
	for what, batch := range map[string]func(*rig, time.Duration, int64){"load": load, "store": store} {
		for name, client := range map[string]time.Duration{"device": 0, "device, just": device - time.Millisecond, "even": device, "client": 2 * device} {
			whole, quarter := timed(batch, client, budget), timed(batch, client, budget/windowShare)
			ratio := float64(quarter) / float64(whole)
			t.Logf("%s, the slower is the %s: ratio %.3f (%v with a quarter of the memory, %v with all of it)", what, name, ratio, quarter, whole)
			if ratio > 1.05 {
				t.Error("that is slower")
			}
		}
	}
}
