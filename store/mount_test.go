// SPDX-License-Identifier: Apache-2.0

package store

import (
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rawblockd/rawblockd/meta"
)

// What a mount notes of each slab is there once the store is open, is renewed by
// the next mount, and keeps what a later release added.
func TestMountDescribesSlabs(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.slabs, o.slotSizes = 2, []int64{64 << 10, 128 << 10} })
	later := meta.Features{Compat: 1 << 7, Ext: []byte("of a later release")}
	for range 2 {
		want := map[meta.Incarnation]meta.SlabRecord{}
		for _, sl := range r.slabs {
			inc := meta.Incarnation(sl.Label().Incarnation)
			want[inc] = meta.SlabRecord{Inc: inc, Name: sl.Name(), Device: sl.Device(), SlotSize: sl.SlotSize(), Slots: sl.SlotCount()}
		}
		recs, err := r.db.Slabs()
		if err != nil || len(recs) != len(want) {
			t.Fatalf("%d records (%v), want %d", len(recs), err, len(want))
		}
		b := r.db.NewBatch()
		for _, got := range recs {
			got.Features = meta.Features{}
			if d := cmp.Diff(want[got.Inc], got); d != "" {
				t.Errorf("record of slab %v (-want +got):\n%s", got.Inc, d)
			}
			b.SetSlab(got.Inc, meta.SlabRecord{Name: "an older name", Features: later})
		}
		if err := r.db.Commit(b, true); err != nil {
			t.Fatal(err)
		}
		r.restart()
	}
	recs, err := r.db.Slabs()
	if err != nil {
		t.Fatal(err)
	}
	for _, got := range recs {
		if d := cmp.Diff(later, got.Features); d != "" {
			t.Errorf("what a later release added to the record of %q (-want +got):\n%s", got.Name, d)
		}
	}
}
