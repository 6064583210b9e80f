// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"testing"
)

// A lease keeps memory for what it protects, not for all keys that were asked for: one
// key that is stored among many that are not, again and again, must not fill the host.
func TestLeaseTakesMemoryOfItsPins(t *testing.T) {
	r := newRig(t)
	keys := append(names(10_000), "there", "and there")
	r.mustStore(100, "there", "and there")
	pinned := r.pin(keys...)
	found, err := r.s.Lookup(context.Background(), ns, keys, LookupOptions{Lease: &LeaseRequest{}})
	if err != nil || found.Lease == nil {
		t.Fatalf("lookup: %+v, %v", found.Lease, err)
	}
	for _, id := range []string{pinned.ID, found.Lease.ID} {
		h := r.s.lock(lockReport)
		room := cap(r.s.leases.byID[id].pins)
		r.s.unlock(h)
		if room > 2*roomyLease {
			t.Errorf("a lease on two keys has room for %d", room)
		}
		if released, stale, err := r.s.Unpin(context.Background(), ns, id, nil); released != 2 || stale != 0 || err != nil {
			t.Errorf("got %d released, %d stale, %v", released, stale, err)
		}
	}
}
