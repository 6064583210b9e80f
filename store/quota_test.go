// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
)

// C9: 3.5 times the quota is written by several clients that make room for
// themselves, with a restart in the middle. What is used never passes the quota,
// and after the restart it is exactly what it was.
func TestQuotaNeverExceeded(t *testing.T) {
	const slot, quota, clients = 64 << 10, 40 * 64 << 10, 4
	r := newRig(t, func(o *rigOptions) {
		o.slabs, o.slots = 2, 128
		o.spaces = seeds(Namespace{Name: "q", Quota: quota})
	})
	written := int64(0)
	for half := range 2 {
		var stop atomic.Bool
		var watch, work sync.WaitGroup
		watch.Go(func() {
			for !stop.Load() {
				if i, err := r.s.Namespace("q"); err != nil || i.Used > quota {
					t.Errorf("%d bytes used of %d (%v)", i.Used, quota, err)
					return
				}
			}
		})
		var ok atomic.Int64
		for c := range clients {
			work.Go(func() { ok.Add(fillAndMakeRoom(r, fmt.Sprint(half, c), 7*quota/4/clients)) })
		}
		work.Wait()
		stop.Store(true)
		watch.Wait()
		written += ok.Load()
		if half == 0 {
			r.s.work.Wait()
			was := r.info("q")
			r.restart()
			if got := r.info("q"); !cmp.Equal(got, was) || got.Used == 0 {
				t.Errorf("after the restart %+v, before %+v", got, was)
			}
		}
	}
	if written < 7*quota/2 {
		t.Errorf("%d bytes of slots were written, want 3.5 times the quota", written)
	}
	r.s.work.Wait()
	i := r.info("q")
	fits := (quota - i.Used) / slot
	for n := range fits {
		if got := r.storeIn("q", slot, fmt.Sprint("fill", n)); got[0] != OK {
			t.Errorf("store %d of the %d that fit: %v", n, fits, got)
		}
	}
	if got := r.storeIn("q", 1, "one more"); got[0] != OverQuota {
		t.Errorf("one more than fits: %v", got)
	}
	if got := r.info("q"); got.Used != quota {
		t.Errorf("full: %+v", got)
	}
}

// fillAndMakeRoom stores until so many bytes of slots were accepted; what is
// refused for the quota makes it remove what it stored first. It leaves two
// entries at most, so that the others always find room.
func fillAndMakeRoom(r *rig, who string, bytes int64) int64 {
	rng := rand.New(rand.NewPCG(uint64(len(who)), uint64(who[len(who)-1])))
	var mine []string
	sum, n := int64(0), 0
	for sum < bytes {
		st, err := r.s.BeginStore(context.Background(), "q", StoreOptions{})
		if err != nil {
			r.t.Error(err)
			return sum
		}
		for range 1 + rng.IntN(4) {
			n++
			key := fmt.Sprint(who, "-", n)
			st.Add(r.item(key, payload(key, 1, 1+rng.IntN(200<<10))))
		}
		res, err := st.Commit()
		if err != nil {
			r.t.Error(err)
			return sum
		}
		refused := false
		for _, x := range res {
			switch x.Status {
			case OK:
				mine = append(mine, x.Key)
				sum += x.SlotBytes
			case OverQuota:
				refused = true
			default:
				r.t.Errorf("store %q: %v (%v)", x.Key, x.Status, x.Err)
				return sum
			}
		}
		if refused && len(mine) > 0 {
			half := mine[:(len(mine)+1)/2]
			if _, err := r.s.Remove(context.Background(), "q", half, false); err != nil {
				r.t.Error(err)
			}
			mine = mine[len(half):]
		}
	}
	if last := mine[:max(len(mine)-2, 0)]; len(last) > 0 {
		if _, err := r.s.Remove(context.Background(), "q", last, false); err != nil {
			r.t.Error(err)
		}
	}
	return sum
}

// C10: a client looks up with a lease and is gone. When the lease's time is over
// there are no pins, and the key can be removed.
func TestPinsOfAClientThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *rigOptions) { o.realTime = true })
		defer r.end()
		r.mustStore(1000, "a", "b")
		res, err := r.s.Lookup(context.Background(), ns, []string{"a", "b"}, LookupOptions{Lease: &LeaseRequest{TTL: time.Minute, Owner: "gone"}})
		if err != nil || res.Lease == nil || res.Lease.Entries != 2 {
			t.Fatalf("lookup: %+v, %v", res, err)
		}
		time.Sleep(time.Minute - time.Millisecond)
		synctest.Wait()
		if st := r.s.Status(); st.Pins != 2 || st.Leases != 1 {
			t.Errorf("just before the end: %d pins, %d leases", st.Pins, st.Leases)
		}
		if got := r.remove(false, "a").Results[0].Status; got != Pinned {
			t.Errorf("remove while it is pinned: %v", got)
		}
		time.Sleep(2 * time.Millisecond)
		synctest.Wait()
		if st := r.s.Status(); st.Pins != 0 || st.Leases != 0 || r.info(ns).Pinned != 0 {
			t.Errorf("after the end: %d pins, %d leases, %d bytes", st.Pins, st.Leases, r.info(ns).Pinned)
		}
		if got := r.remove(false, "a").Results[0].Status; got != OK {
			t.Errorf("remove after the end: %v", got)
		}
		if got := r.clear(ns); got != (ClearResult{Removed: 1}) {
			t.Errorf("clear after the end: %+v", got)
		}
	})
}
