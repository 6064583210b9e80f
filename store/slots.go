// SPDX-License-Identifier: Apache-2.0

package store

import (
	"log/slog"
	"sort"
	"sync/atomic"

	"github.com/rawblockd/rawblockd/meta"
	"github.com/rawblockd/rawblockd/slab"
)

// volume is one slab as the store sees it: its slots are the ids from base on.
type volume struct {
	slab    *slab.Slab
	relaxed bool
	base    id
	inc     meta.Incarnation // zero: its device is missing and metadata does not know it
	dirty   chan struct{}    // capacity 1, holds a token while a background flush is under way
	depth   int64            // ops that its engine has on the device at once

	ops    atomic.Int64 // on the device or waiting for it, by what the store knows
	late   atomic.Bool  // an op or a flush has been on the device for lateLimit
	loads  loads
	scrub  scrub
	share  share
	health health
	log    *slog.Logger
	watch  chan<- struct{} // wakes the watch loop
}

// wake makes the watch loop look at the slabs.
func (v *volume) wake() {
	select {
	case v.watch <- struct{}{}:
	default:
	}
}

func (v *volume) end() id { return v.base + v.slab.SlotCount() }

// bytes is the size of all slots.
func (v *volume) bytes() int64 { return int64(v.slab.SlotCount()) * v.slab.SlotSize() }

// volumeOf returns the place in s.volumes of the slab that has slot n.
func (s *Store) volumeOf(n id) int {
	if len(s.volumes) == 1 {
		return 0
	}
	return sort.Search(len(s.volumes), func(i int) bool { return n < s.volumes[i].end() })
}

// rowKey says where the row of the entry with head h lives.
func (s *Store) rowKey(h id) (meta.Incarnation, uint32) {
	v := s.volumes[s.volumeOf(h)]
	return v.inc, h - v.base
}

// toSlots turns ids of one volume into its slot numbers, in place.
func (v *volume) toSlots(ids []id) []uint32 {
	for i := range ids {
		ids[i] -= v.base
	}
	return ids
}

// toIDs returns the ids of a volume's slots.
func (v *volume) toIDs(slots []uint32) []id {
	ids := make([]id, len(slots))
	for i, sl := range slots {
		ids[i] = sl + v.base
	}
	return ids
}

// slotLists collects slots by volume, so that each slab is called once.
type slotLists [][]uint32

func (s *Store) newSlotLists(n int) slotLists {
	l := make(slotLists, len(s.volumes))
	for i := range l {
		l[i] = make([]uint32, 0, n)
	}
	return l
}

// addChainLocked appends the slots of the entry at h.
// +checklocks:s.mu
func (s *Store) addChainLocked(l slotLists, h id) {
	v := s.volumeOf(h)
	from := len(l[v])
	l[v] = s.x.chain(l[v], h)
	s.volumes[v].toSlots(l[v][from:])
}

// move changes the state of all listed slots, one call per slab.
func (s *Store) move(l slotLists, from, to slab.State) {
	for i, slots := range l {
		if len(slots) > 0 {
			s.volumes[i].slab.Move(slots, from, to)
		}
	}
}

// slotBytes is what an entry of the given length takes of its namespace's quota.
func (v *volume) slotBytes(length int64) int64 {
	return int64(v.slab.SlotsFor(length)) * v.slab.SlotSize()
}

// sizeLocked returns the slot bytes of the entry at h.
// +checklocks:s.mu
func (s *Store) sizeLocked(h id) int64 {
	return s.volumes[s.volumeOf(h)].slotBytes(int64(s.x.length[h]))
}

// dropPinsLocked forgets the pins of an entry that is about to be unlinked: its
// generation goes, so what the leases still list is stale.
// +checklocks:s.mu
func (s *Store) dropPinsLocked(h id) {
	if s.x.pins[h] == 0 {
		return
	}
	s.pins -= int64(s.x.pins[h])
	s.spaces[s.x.ns[h]].pinned -= s.sizeLocked(h)
}

// countLocked adds the live entry at h to what its namespace holds, or with −1
// takes it off.
// +checklocks:s.mu
func (s *Store) countLocked(h id, n int64) {
	sp := s.spaces[s.x.ns[h]]
	sp.entries += n
	sp.wasted += n * (s.sizeLocked(h) - int64(s.x.length[h]))
}

// unlinkLocked takes an entry out of the index for deletion and collects its
// slots.
// +checklocks:s.mu
func (s *Store) unlinkLocked(h id, l slotLists) {
	s.detachLocked(h, dying)
	s.addChainLocked(l, h)
}

// detachLocked takes an entry out of the index, for whatever reason.
// +checklocks:s.mu
func (s *Store) detachLocked(h id, to life) {
	s.dropPinsLocked(h)
	s.countLocked(h, -1)
	s.x.unlink(h, to)
}

// forgetLocked ends an entry whose slots are free again.
// +checklocks:s.mu
func (s *Store) forgetLocked(h id) {
	s.spaces[s.x.ns[h]].used -= s.sizeLocked(h)
	s.x.forget(h)
}

// unrefLocked ends one read of the entry at h and collects its slots in free if
// it was the last one of a retired entry.
// +checklocks:s.mu
func (s *Store) unrefLocked(h id, free slotLists) {
	if s.x.refs[h] == 0 {
		panic("store: a reference was given back twice")
	}
	s.x.refs[h]--
	if s.x.refs[h] == 0 && s.x.life[h] == retired {
		s.addChainLocked(free, h)
		s.forgetLocked(h)
	}
}
