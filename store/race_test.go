// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// C34, H38: two batches of the same keys in opposite order, at once, over and
// over: nobody waits for anybody in a ring, and each key is stored once.
func TestOppositeBatches(t *testing.T) {
	times := 10_000
	if testing.Short() {
		times = 500
	}
	r := newRig(t, func(o *rigOptions) { o.slotSize, o.payload = 4096, 4096 })
	ctx, cancel := context.WithTimeout(context.Background(), 5*time.Minute) // only so that a hang fails by name
	defer cancel()
	for n := range times {
		a, b := fmt.Sprint("a", n), fmt.Sprint("b", n)
		var wg sync.WaitGroup
		var got [2][]StoreResult
		for who, keys := range [][]string{{a, b}, {b, a}} {
			wg.Go(func() {
				st, err := r.s.BeginStore(ctx, ns, StoreOptions{})
				if err != nil {
					t.Error(err)
					return
				}
				for _, k := range keys {
					st.Add(r.item(k, payload(k, 1, 100)))
				}
				if got[who], err = st.Commit(); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		stored := map[string]int{}
		for _, res := range got {
			for _, x := range res {
				switch x.Status {
				case OK:
					stored[x.Key]++
				case Exists:
				default:
					t.Fatalf("round %d, %q: %v (%v)", n, x.Key, x.Status, x.Err)
				}
			}
		}
		if stored[a] != 1 || stored[b] != 1 {
			t.Fatalf("round %d: stored %v, want each once", n, stored)
		}
		if n%20 == 19 {
			var old []string
			for i := n - 19; i <= n; i++ {
				old = append(old, fmt.Sprint("a", i), fmt.Sprint("b", i))
			}
			if got := r.remove(false, old...); got.Removed != 40 {
				t.Fatalf("removed %d of 40", got.Removed)
			}
		}
	}
}

// A batch that follows another takes the key over if the other fails.
func TestFollowerTakesOver(t *testing.T) {
	r := newRig(t)
	release := r.devs[0].Hang(1<<20, 64<<20)
	first, err := r.s.BeginStore(context.Background(), ns, StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	first.Add(r.item("a", payload("a", 1, 1000)))
	r.devs[0].AwaitInFlight(1)
	second, err := r.s.BeginStore(context.Background(), ns, StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	second.Add(r.item("a", payload("a", 2, 1000)), r.item("b", payload("b", 2, 1000)))
	if second.items[0].follow == nil {
		t.Fatal("the second batch does not follow the first")
	}
	first.Abort()
	release()
	res, err := second.Commit()
	if err != nil || res[0].Status != OK || res[1].Status != OK {
		t.Fatalf("%+v %v", res, err)
	}
	if got := r.load(2, "a", "b"); !cmp.Equal(got, all(2, OK)) {
		t.Errorf("load: %v", got)
	}
}

// What Commit has answered with Deadline does not become visible later, not even
// a key that is being taken over at that moment. (The crash campaign found it.)
func TestTakeoverAfterTheDeadline(t *testing.T) {
	r := newRig(t)
	release := r.devs[0].Hang(1<<20, 64<<20)
	first, err := r.s.BeginStore(context.Background(), ns, StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	first.Add(r.item("a", payload("a", 1, 1000)))
	r.devs[0].AwaitInFlight(1)
	ctx, cancel := context.WithCancel(context.Background())
	second, err := r.s.BeginStore(ctx, ns, StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	second.Add(r.item("a", payload("a", 2, 1000)))
	first.Abort()
	release()
	<-first.ended
	release = r.devs[0].Hang(1<<20, 64<<20)
	answer := make(chan []StoreResult, 1)
	go func() {
		res, _ := second.Commit()
		answer <- res
	}()
	r.devs[0].AwaitInFlight(1) // the takeover's write
	cancel()
	if res := <-answer; res[0].Status != Deadline || errors.Is(res[0].Err, ErrOutcomeUnknown) {
		t.Errorf("answer: %+v", res)
	}
	release()
	<-second.ended
	if got := r.lookup("a"); got[0] != Missing {
		t.Errorf("after the answer: %v", got)
	}
	if c := r.counts(); c.Free != c.Total {
		t.Errorf("slots: %+v", c)
	}
}

// A follower publishes its own keys without waiting for the batch it follows.
func TestFollowerPublishesItsOwnFirst(t *testing.T) {
	r := newRig(t)
	leader, err := r.s.BeginStore(context.Background(), ns, StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	leader.Add(r.item("a", payload("a", 1, 1000)))
	done := make(chan []StoreResult)
	go func() { done <- r.store(1000, StoreOptions{}, "a", "b") }()
	for r.lookup("b")[0] != OK { // polls: the follower must get there by itself
		select {
		case <-done:
			t.Fatal("the follower answered before its leader")
		default:
		}
	}
	res, err := leader.Commit()
	if err != nil || res[0].Status != OK {
		t.Fatalf("%+v %v", res, err)
	}
	if got := <-done; got[0].Status != Exists || got[1].Status != OK {
		t.Errorf("follower: %+v", got)
	}
}

// C7, C21 in small: many goroutines, few keys, payload = f(key, version). Run it
// under -race.
func TestRacingOperations(t *testing.T) {
	for _, relaxed := range []bool{false, true} {
		t.Run(fmt.Sprintf("relaxed=%v", relaxed), func(t *testing.T) {
			r := newRig(t, func(o *rigOptions) {
				o.slotSize, o.slots, o.payload, o.relaxed, o.interval = 4096, 40, 64<<10, relaxed, time.Millisecond
			})
			var wg sync.WaitGroup
			for g := range 6 {
				wg.Go(func() { racer(t, r, rand.New(rand.NewPCG(1, uint64(g))), 400) })
			}
			wg.Wait()
			r.s.work.Wait()
			for _, l := range r.s.Leases("") {
				if _, _, err := r.s.Unpin(context.Background(), ns, l.ID, nil); err != nil {
					t.Error(err)
				}
			}
			if st := r.s.Status(); st.Pins != 0 {
				t.Errorf("%d pins left", st.Pins)
			}
			r.checkStates()
			r.restart()
			r.checkStates()
		})
	}
}

// racer does random operations and checks that bytes are some version of their key.
func racer(t *testing.T, r *rig, rng *rand.Rand, n int) {
	ctx := context.Background()
	var leases []string
	for range n {
		keys := make([]string, 1+rng.IntN(4))
		for i := range keys {
			keys[i] = fmt.Sprint("k", rng.IntN(8))
		}
		var err error
		switch rng.IntN(7) {
		case 0, 1, 2:
			err = raceStore(ctx, r, rng, keys)
		case 3:
			err = raceLoad(ctx, r, keys)
		case 4:
			_, err = r.s.Remove(ctx, ns, keys, rng.IntN(2) == 0)
		case 5:
			var res LookupResult
			res, err = r.s.Lookup(ctx, ns, keys, LookupOptions{Lease: &LeaseRequest{}})
			if res.Lease != nil {
				leases = append(leases, res.Lease.ID)
			}
		case 6:
			if len(leases) > 0 {
				_, _, err = r.s.Unpin(ctx, ns, leases[0], nil)
				leases = leases[1:]
			}
		}
		if err != nil {
			t.Error(err)
			return
		}
	}
}

func raceStore(ctx context.Context, r *rig, rng *rand.Rand, keys []string) error {
	st, err := r.s.BeginStore(ctx, ns, StoreOptions{Overwrite: rng.IntN(2) == 0, Force: rng.IntN(4) == 0})
	if err != nil {
		return err
	}
	for _, k := range keys {
		st.Add(r.item(k, payload(k, rng.IntN(4), 1+rng.IntN(20_000))))
	}
	if rng.IntN(8) == 0 {
		st.Abort()
		return nil
	}
	res, err := st.Commit()
	for _, x := range res {
		switch x.Status {
		case OK, Exists, Pinned, NoSpace, Duplicate, Busy:
		default:
			return fmt.Errorf("store %q: %v (%v)", x.Key, x.Status, x.Err)
		}
	}
	return err
}

func raceLoad(ctx context.Context, r *rig, keys []string) error {
	l, err := r.s.Load(ctx, ns, keys)
	if err != nil {
		return err
	}
	defer l.Close()
	for {
		it, ok := l.Next()
		if !ok {
			return nil
		}
		switch it.Status {
		case OK:
			good := false
			got := bytesOf(it)
			for v := range 4 {
				good = good || bytes.Equal(got, payload(it.Key, v, len(got)))
			}
			it.Buf.Release()
			if !good {
				return fmt.Errorf("load %q: bytes of no version of it", it.Key)
			}
		case Missing:
		default:
			return fmt.Errorf("load %q: %v (%v)", it.Key, it.Status, it.Err)
		}
	}
}

// Results come in request order and while later reads are under way.
func TestLoadStreams(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.slots, o.workers = 64, 64 })
	keys := names(16)
	r.mustStore(60_000, keys...)
	off, n := r.where(keys[15])
	release := r.devs[0].Hang(off, n)
	defer release()
	l, err := r.s.Load(context.Background(), ns, keys)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for i := range 15 {
		it, ok := l.Next()
		if !ok || it.Key != keys[i] || it.Status != OK {
			t.Fatalf("place %d: %q %v", i, it.Key, it.Status)
		}
		it.Buf.Release()
	}
	release()
	if it, _ := l.Next(); it.Status != OK {
		t.Errorf("last: %v", it.Status)
	} else {
		it.Buf.Release()
	}
}

// A reader that takes nothing holds no more than the stream budget, and others
// go on once it has left.
func TestStalledReader(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.slots, o.payload, o.buffers = 64, 512<<10, 1<<20 })
	keys := names(30)
	r.mustStore(64<<10, keys...)
	l, err := r.s.Load(context.Background(), ns, keys)
	if err != nil {
		t.Fatal(err)
	}
	it, _ := l.Next()
	if it.Status != OK || r.arena.InUse() > 1<<20 {
		t.Errorf("%v, %d bytes in use", it.Status, r.arena.InUse())
	}
	it.Buf.Release()
	l.Close()
	if got := r.load(1, keys...); !cmp.Equal(got, all(30, OK)) {
		t.Errorf("afterwards: %v", got)
	}
}

// Relaxed: the answer does not wait, the reuse of slots does.
func TestRelaxedReuseWaitsForTheSync(t *testing.T) {
	r := newRig(t, exactly(2), func(o *rigOptions) { o.relaxed = true })
	r.mustStore(1000, "a", "b")
	if got := r.remove(false, "a", "b"); got.Removed != 2 {
		t.Fatal(got)
	}
	if c := r.counts(); c.Free != 0 || c.Deleting != 2 {
		t.Errorf("removed, not synced: %+v", c)
	}
	r.mustStore(1000, "c") // asks for the sync itself
	if c := r.counts(); c.Deleting != 0 || c.Free != 1 || c.Used != 1 {
		t.Errorf("after a store that needed room: %+v", c)
	}
}

// A batch keeps as many ops in flight as the pool allows.
func TestBatchFillsThePool(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.slots, o.workers = 64, 32 })
	keys := names(32)
	release := r.devs[0].Hang(1<<20, 1<<30)
	st, err := r.s.BeginStore(context.Background(), ns, StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		st.Add(r.item(k, payload(k, 1, 1000)))
	}
	r.devs[0].AwaitInFlight(32)
	release()
	if _, err := st.Commit(); err != nil {
		t.Fatal(err)
	}
	release = r.devs[0].Hang(1<<20, 1<<30)
	l, err := r.s.Load(context.Background(), ns, keys)
	if err != nil {
		t.Fatal(err)
	}
	r.devs[0].AwaitInFlight(32)
	release()
	for {
		it, ok := l.Next()
		if !ok {
			break
		}
		if it.Status != OK {
			t.Errorf("%q: %v", it.Key, it.Status)
			continue
		}
		it.Buf.Release()
	}
	l.Close()
	if got := r.devs[0].MaxInFlight(); got != 32 {
		t.Errorf("%d ops in flight at most, want 32", got)
	}
}
