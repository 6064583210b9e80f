// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// C21: 10,000 racing stores and removes of 100 keys. At the end the used slots
// are those of the keys that are there, every other slot is free, and each key
// is what was stored under it, before and after a restart.
func TestChurn(t *testing.T) {
	for _, relaxed := range []bool{false, true} {
		t.Run(fmt.Sprintf("relaxed=%v", relaxed), func(t *testing.T) {
			r := newRig(t, func(o *rigOptions) {
				o.slotSize, o.slots, o.payload, o.relaxed, o.interval = 4096, 150, 64<<10, relaxed, time.Millisecond
			})
			const workers, ops = 20, 500
			var done [workers]int
			var wg sync.WaitGroup
			for w := range workers {
				wg.Go(func() { done[w] = churn(t, r, rand.New(rand.NewPCG(21, uint64(w))), ops) })
			}
			wg.Wait()
			r.s.work.Wait()
			stored, n := 0, 0
			for _, k := range done {
				n += k
			}
			for i := range 100 {
				if e := r.explain(fmt.Sprint("k", i)); e.Reason == ReasonStored {
					stored += int(e.SlotBytes / 4096)
				}
			}
			if n != workers*ops || stored == 0 {
				t.Fatalf("%d operations, %d slots stored", n, stored)
			}
			for _, when := range []string{"before", "after"} {
				if !relaxed || when == "after" { // relaxed: the last deletes wait for their sync
					if c := r.counts(); int(c.Used) != stored || c.Free != c.Total-c.Used {
						t.Errorf("%s the restart: the keys have %d slots: %+v", when, stored, c)
					}
				}
				r.checkStates()
				for i := range 100 {
					if err := raceLoad(context.Background(), r, []string{fmt.Sprint("k", i)}); err != nil {
						t.Errorf("%s the restart: %v", when, err)
					}
				}
				if when == "before" {
					r.restart()
				}
			}
		})
	}
}

// churn does n stores and removes of single keys and returns how many it did.
func churn(t *testing.T, r *rig, rng *rand.Rand, n int) (did int) {
	for range n {
		key := fmt.Sprint("k", rng.IntN(100))
		if rng.IntN(5) < 2 {
			r.remove(rng.IntN(2) == 0, key)
		} else if err := churnStore(r, rng, key); err != nil {
			t.Error(err)
			return did
		}
		did++
	}
	return did
}

func churnStore(r *rig, rng *rand.Rand, key string) error {
	st, err := r.s.BeginStore(context.Background(), ns, StoreOptions{Overwrite: rng.IntN(2) == 0})
	if err != nil {
		return err
	}
	st.Add(r.item(key, payload(key, rng.IntN(4), 1+rng.IntN(3*4096))))
	res, err := st.Commit()
	if err != nil {
		return err
	}
	switch res[0].Status {
	case OK, Exists, NoSpace, Busy:
		return nil
	}
	return fmt.Errorf("store %q: %v (%v)", key, res[0].Status, res[0].Err)
}
