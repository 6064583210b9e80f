// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rawblockd/rawblockd/slab"
)

// A slab's map has the state of every slot, and which ones leases protect, also
// those of an entry whose head lies outside the part that was asked for.
func TestSlabMap(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.slabs, o.maxPinned = 2, 1 })
	r.mustStoreTogether(200_000, "a", "b", "c", "d") // four slots each
	l := r.pin(r.on(1, "a", "b", "c", "d")[0])
	r.slabs[1].Quarantine([]uint32{40})
	whole, err := r.s.SlabMap("s1", 0, 1<<20)
	if err != nil || len(whole) != int(r.slabs[1].SlotCount()) {
		t.Fatalf("%d slots, %v", len(whole), err)
	}
	count := map[byte]int{}
	for _, b := range whole {
		count[b]++
	}
	want := map[byte]int{
		byte(slab.Used): 4, byte(slab.Used) | MapPinned: 4, byte(slab.Quarantined): 1, byte(slab.Free): len(whole) - 9,
	}
	if d := cmp.Diff(want, count); d != "" {
		t.Errorf("slots by state (-want +got):\n%s", d)
	}
	pinned := slices.Index(whole, byte(slab.Used)|MapPinned)
	for _, from := range []int{0, pinned, pinned + 2, 39, len(whole) - 1, len(whole), len(whole) + 5} {
		part, err := r.s.SlabMap("s1", uint32(from), 3)
		if from = min(from, len(whole)); err != nil || !slices.Equal(part, whole[from:min(from+3, len(whole))]) {
			t.Errorf("three slots from %d on: %v, %v, want %v", from, part, err, whole[from:min(from+3, len(whole))])
		}
	}
	if other, err := r.s.SlabMap("s0", 0, 1<<20); err != nil || slices.Contains(other, byte(slab.Used)|MapPinned) {
		t.Errorf("of the other slab: %v", err)
	}
	if _, _, err := r.s.Unpin(t.Context(), ns, l.ID, nil); err != nil {
		t.Fatal(err)
	}
	if whole, err = r.s.SlabMap("s1", 0, 1<<20); err != nil || slices.Contains(whole, byte(slab.Used)|MapPinned) {
		t.Errorf("after the unpin: %v", err)
	}
	if _, err := r.s.SlabMap("s2", 0, 1); !errors.Is(err, ErrSlab) {
		t.Errorf("of an unknown slab: %v", err)
	}
}
