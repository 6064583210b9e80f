// SPDX-License-Identifier: Apache-2.0

package store

// quarantineShare limits what errors of the device may take out of use: a sick
// drive must not use itself up. Beyond it keys fail, and their slots stay.
const quarantineShare = 64 // one slot in so many, but at least as many slots

// mayQuarantine tells whether I/O errors of a volume may still cost it slots,
// when pending more are about to go. Under the pin lock the answer is exact.
func (s *Store) mayQuarantine(v, pending int) bool {
	c := s.volumes[v].slab.Counts()
	return c.Quarantined+uint32(pending) < max(quarantineShare, c.Total/quarantineShare)
}

// condemn drops an entry whose bytes are bad and puts its slots out of use, if
// the entry is still the one that was read: never a newer one of the same key.
// With limited, only within the share that errors of the device may take.
func (s *Store) condemn(it *loadItem, reason string, limited bool) {
	h := s.lock(lockCondemn)
	defer s.unlock(h)
	if s.x.gen[it.head] != it.Gen || limited && !s.mayQuarantine(it.vol, 0) {
		return
	}
	s.detachLocked(it.head, condemn)
	v := s.volumes[it.vol]
	slots := s.x.chain(nil, it.head)
	v.slab.Quarantine(it.pay.Slots)
	s.spaces[s.x.ns[it.head]].used -= s.sizeLocked(it.head)
	s.commits.enqueue(group{sync: !v.relaxed, bad: []badRow{{head: it.head, slots: slots, reason: reason}}})
	s.o.Log.Warn("entry dropped, its slots are quarantined", "slab", v.slab.Name(), "slot", it.pay.Slots[0], "slots", len(slots), "reason", reason)
}
