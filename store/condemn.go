// SPDX-License-Identifier: Apache-2.0

package store

import (
	"github.com/rawblockd/rawblockd/slab"
)

// quarantineLimit is from how many quarantined slots on errors of the device take
// no more out of use: a sick drive must not use itself up. Beyond it keys that cannot
// be read fail and stay, those with wrong bytes go and their slots are used again.
// One in 64, but some also of a small slab.
func quarantineLimit(total uint32) uint32 { return max(total/64, min(64, total/8), 1) }

// mayQuarantine tells whether an I/O error of a volume may still cost it an entry's
// slots, when pending more are about to go. The last entry may pass the limit: of a
// payload with more slots than that a bad sector would otherwise never let go.
// Under the pin lock the answer is exact.
// Of a slab that is offline, or that fails every write, errors say nothing about
// places on it.
func (s *Store) mayQuarantine(v, pending int) bool {
	if !s.volumes[v].health.now.Load().sound {
		return false
	}
	return !s.volumes[v].exhausted(pending)
}

// exhausted tells whether errors have put as many slots out of use as they may, when
// pending more are about to go.
func (v *volume) exhausted(pending int) bool {
	c := v.slab.Counts()
	return c.Quarantined+uint32(pending) >= quarantineLimit(c.Total)
}

// condemn drops an entry whose bytes are bad and puts its slots out of use, if
// the entry is still the one that was read: never a newer one of the same key.
// Slots go only within the share that errors of the device may take; beyond it an
// entry with wrong bytes goes without them, one that was not read stays.
func (s *Store) condemn(it *loadItem, reason string, unread bool) {
	v := s.volumes[it.vol]
	why := ReasonCorrupt
	if unread {
		why = ReasonIOError
	}
	g := group{at: s.nowMS()}
	h := s.lock(lockCondemn)
	current, torn, worn := s.x.gen[it.head] == it.Gen, !unread && s.torn(it), v.exhausted(0)
	mine := current && (!unread || s.mayQuarantine(it.vol, 0))
	switch {
	case !mine:
	case torn || worn:
		slots := s.newSlotLists(len(it.pay.Slots))
		g.space = s.spaces[s.x.ns[it.head]].name
		s.dropLocked(&g, slots, it.head, it.Key, why)
		s.move(slots, slab.Used, slab.Deleting)
		s.commits.enqueue(g)
	default:
		g.space, g.sync = s.spaces[s.x.ns[it.head]].name, !v.relaxed
		g.left = append(g.left, departure{it.head, s.x.length[it.head], why, s.x.digest[it.head], it.Key})
		s.detachLocked(it.head, condemn)
		v.slab.Quarantine(it.pay.Slots)
		s.spaces[s.x.ns[it.head]].used -= s.sizeLocked(it.head)
		g.bad = append(g.bad, badRow{head: it.head, slots: s.x.chain(nil, it.head), reason: reason})
		s.commits.enqueue(g)
	}
	s.unlock(h)
	if current && worn && !torn {
		v.wearOut()
	}
	if mine {
		s.o.Log.Warn("entry dropped", "slab", v.slab.Name(), "slot", it.pay.Slots[0], "slots", len(it.pay.Slots), "reason", reason)
	}
}

// torn tells bad bytes that a crash explains from those that accuse the
// device: a relaxed store that an earlier mount had not flushed. Its entry goes,
// its slots are as good as any.
func (s *Store) torn(it *loadItem) bool { return s.volumes[it.vol].relaxed && it.Gen < s.born }
