// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"
)

// A namespace that gives no lease back comes to the end of its leases, and no other
// does; those that end make room.
func TestLeasesAreBounded(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.spaces = []Namespace{{Name: "a"}, {Name: "b"}} })
	r.storeIn("a", 100, "k0", "k1")
	r.storeIn("b", 100, "k0")
	ctx := context.Background()
	var first string
	for i := range mostLeases {
		// Of two keys, as one entry cannot have as many pins.
		res, err := r.s.Pin(ctx, "a", []string{fmt.Sprintf("k%d", i%2)}, LeaseRequest{TTL: time.Minute})
		if err != nil || res.Lease == nil {
			t.Fatalf("lease %d: %+v, %v", i, res, err)
		}
		if first == "" {
			first = res.Lease.ID
		}
	}
	refused := func(res KeyResult, lease *Lease) {
		t.Helper()
		if lease != nil || res.Status != Busy || !errors.Is(res.Err, ErrPinLimit) || !strings.Contains(res.Err.Error(), "65536 leases") {
			t.Errorf("one more: %+v, lease %v", res, lease)
		}
	}
	pinned, err := r.s.Pin(ctx, "a", []string{"k0"}, LeaseRequest{})
	if err != nil {
		t.Fatal(err)
	}
	refused(pinned.Results[0], pinned.Lease)
	looked, err := r.s.Lookup(ctx, "a", []string{"k0"}, LookupOptions{Lease: &LeaseRequest{}})
	if err != nil {
		t.Fatal(err)
	}
	refused(looked.Results[0], looked.Lease)
	if res, err := r.s.Pin(ctx, "b", []string{"k0"}, LeaseRequest{}); err != nil || res.Lease == nil {
		t.Errorf("of another namespace: %+v, %v", res, err)
	}
	if n := len(r.s.Leases("a")); n != mostLeases {
		t.Errorf("%d leases are listed", n)
	}
	if n := len(r.s.Leases("")); n != mostLeases+1 {
		t.Errorf("%d leases of all are listed", n)
	}
	if _, _, err := r.s.Release(first); err != nil {
		t.Fatal(err)
	}
	if res, err := r.s.Pin(ctx, "a", []string{"k0"}, LeaseRequest{}); err != nil || res.Lease == nil {
		t.Errorf("after one was given back: %+v, %v", res, err)
	}
}
