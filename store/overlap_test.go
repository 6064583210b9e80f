// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rawblockd/rawblockd/ioengine"
)

// A batch overlaps its I/O with a bound: N keys of one piece each take
// ⌈N ÷ pool⌉ service times, loads and stores alike. Device and time are
// simulated, so the figures are exact.
func TestBatchTakesCeilOfPiecesOverPool(t *testing.T) {
	const service, pool = time.Second, 32
	for _, n := range []int{1, 32, 33, 128} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				var slow func(ioengine.Dir, int) time.Duration
				r := newRig(t, func(o *rigOptions) {
					o.slots, o.workers, o.interval = 160, pool, 1000*time.Hour
					o.service = func(d ioengine.Dir, bytes int) time.Duration {
						if slow == nil {
							return 0
						}
						return slow(d, bytes)
					}
				})
				slow = func(ioengine.Dir, int) time.Duration { return service }
				keys := names(n)
				want := time.Duration((n+pool-1)/pool) * service

				start := time.Now()
				r.mustStoreTogether(1000, keys...)
				if got := time.Since(start); got != want {
					t.Errorf("store of %d keys took %v, want %v", n, got, want)
				}
				start = time.Now()
				for i, st := range r.load(1, keys...) {
					if st != OK {
						t.Errorf("%q: %v", keys[i], st)
					}
				}
				if got := time.Since(start); got != want {
					t.Errorf("load of %d keys took %v, want %v", n, got, want)
				}
				if got := r.devs[0].MaxInFlight(); got != min(n, pool) {
					t.Errorf("%d ops in flight at most, want %d", got, min(n, pool))
				}
				r.end()
			})
		})
	}
}

// mustStoreTogether adds all keys in one call.
func (r *rig) mustStoreTogether(n int, keys ...string) {
	r.t.Helper()
	st, err := r.s.BeginStore(context.Background(), ns, StoreOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	var items []StoreItem
	for _, k := range keys {
		items = append(items, r.item(k, payload(k, 1, n)))
	}
	st.Add(items...)
	res, err := st.Commit()
	if err != nil {
		r.t.Fatal(err)
	}
	for _, x := range res {
		if x.Status != OK {
			r.t.Fatalf("store %q: %v (%v)", x.Key, x.Status, x.Err)
		}
	}
}

// C2: one payload of a batch that is a byte short of whole pieces costs nothing:
// the same transfers, the same time, every byte exact.
func TestOddLengthCostsNothing(t *testing.T) {
	const size = 3 << 20
	run := func(t *testing.T, odd int) (took [2]time.Duration, transfers [2]int) {
		synctest.Test(t, func(t *testing.T) {
			slow := time.Duration(0)
			r := newRig(t, func(o *rigOptions) {
				o.slotSize, o.slots, o.workers, o.interval, o.buffers = 2<<20, 70, 16, 1000*time.Hour, 128<<20
				o.service = func(ioengine.Dir, int) time.Duration { return slow }
			})
			slow = time.Second
			st, err := r.s.BeginStore(context.Background(), ns, StoreOptions{})
			if err != nil {
				t.Fatal(err)
			}
			keys := names(32)
			var items []StoreItem
			for i, k := range keys {
				n := size
				if i == 17 {
					n -= odd
				}
				items = append(items, r.item(k, payload(k, 1, n)))
			}
			before := r.devs[0].Counts().Transfers
			start := time.Now()
			st.Add(items...)
			if _, err := st.Commit(); err != nil {
				t.Fatal(err)
			}
			took[0] = time.Since(start)
			start = time.Now()
			for i, st := range r.load(1, keys...) { // compares every byte
				if st != OK {
					t.Errorf("%q: %v", keys[i], st)
				}
			}
			took[1] = time.Since(start)
			after := r.devs[0].Counts().Transfers
			transfers = [2]int{after[0] - before[0], after[1] - before[1]}
			r.end()
		})
		return took, transfers
	}
	took, transfers := run(t, 0)
	oddTook, oddTransfers := run(t, 1)
	if took != oddTook || transfers != oddTransfers {
		t.Errorf("whole: %v, %v transfers; one byte short: %v, %v", took, transfers, oddTook, oddTransfers)
	}
}
