// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// Loads that wait for memory which stores hold do not keep those stores from the
// device: nobody waits for anybody in a circle.
func TestLoadsThatWaitForMemoryLetStoresGo(t *testing.T) {
	inBubble(t, func(o *rigOptions) {
		o.slabs, o.slotSize, o.slots, o.payload, o.buffers = 2, 1<<20-4096, 80, 1<<20-4096, 16<<20
	}, func(t *testing.T, r *rig) {
		const size = 1<<20 - 4096
		keys := names(60)
		r.mustStore(size, keys...)
		var items []StoreItem // their bytes come in from clients
		for i := range 16 {
			items = append(items, r.item(fmt.Sprint("new", i), payload(fmt.Sprint("new", i), 1, size)))
		}
		var all sync.WaitGroup
		for _, k := range keys {
			all.Go(func() {
				if got := r.load(1, k); got[0] != OK {
					t.Errorf("load of %q: %v", k, got)
				}
			})
		}
		synctest.Wait()
		began := time.Now()
		for _, it := range items {
			all.Go(func() {
				st, err := r.s.BeginStore(context.Background(), ns, StoreOptions{})
				if err != nil {
					t.Error(err)
					return
				}
				st.Add(it)
				res, err := st.Commit()
				if err != nil || res[0].Status != OK {
					t.Errorf("store: %+v, %v", res, err)
				}
			})
		}
		all.Wait()
		if took := time.Since(began); took != 0 {
			t.Errorf("took %v on devices that take no time", took)
		}
	})
}
