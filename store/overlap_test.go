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
