// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"

	"github.com/rawblockd/rawblockd/internal/mutant"
	"github.com/rawblockd/rawblockd/slab"
)

// start claims the items that are open, finds slots for those it got, and
// submits their writes.
func (st *Storing) start(items []*storeItem) {
	if len(items) == 0 {
		return
	}
	short := st.obtain(items)
	// Slots and quota of what was removed come back with the next sync.
	if len(short) > 0 && st.s.reclaim(st) {
		for _, it := range short {
			it.status, it.err, it.settle = OK, nil, false
		}
		st.obtain(short)
	}
	byVolume := make([][]*storeItem, len(st.s.volumes))
	for _, it := range items {
		switch {
		case it.settle:
			st.drop(it)
		case it.claim != nil:
			byVolume[it.vol] = append(byVolume[it.vol], it)
		case !st.keep(it):
			st.drop(it)
		}
	}
	for v, mine := range byVolume {
		if len(mine) > 0 {
			st.write(v, mine)
		}
	}
}

// obtain claims items in one lock section and then reserves their slots. It
// settles and returns those for which there was no room.
func (st *Storing) obtain(items []*storeItem) []*storeItem {
	p := st.s.newPlan(st.ns)
	st.claimAll(items, p)
	for _, it := range items {
		if it.claim != nil && !it.settle {
			st.reserve(it, p)
		}
	}
	st.forfeit(items)
	var short []*storeItem
	for _, it := range items {
		if it.settle && (it.status == OverQuota || it.status == NoSpace) {
			short = append(short, it)
		}
	}
	return short
}

// claimAll decides in one lock section which items this batch stores, which are
// there already, and which another batch is storing now. What it stores is
// charged to the namespace, by the slab it is planned for.
func (st *Storing) claimAll(items []*storeItem, p *plan) {
	s := st.s
	broken := s.commits.broken()
	claims := make([]claim, len(items))
	for i := range claims {
		claims[i].done = make(chan struct{})
	}
	if broken == nil {
		broken = s.tooFull()
	}
	now := s.nowMS()
	h := s.lockIn(st.ctx, lockStore)
	defer s.unlock(h)
	for i, it := range items {
		switch {
		case it.settle:
		case broken != nil:
			it.end(Unavailable, broken)
		default:
			st.claimLocked(it, &claims[i], p, now)
		}
	}
}

// +checklocks:st.s.mu
func (st *Storing) claimLocked(it *storeItem, c *claim, p *plan, now int64) {
	s := st.s
	h, found := s.x.find(it.digest)
	if found && !s.x.dead(h, now) {
		if !st.o.Overwrite && s.servesLocked(h) {
			it.end(Exists, nil)
			return
		}
		if s.x.pins[h] > 0 && !st.o.Force {
			it.end(Pinned, nil)
			return
		}
		if mutant.On(mutant.H9) {
			it.replaces = h
		}
	}
	if other := s.claims[it.digest]; other != nil {
		it.follow = other
		return
	}
	if err := st.ns.hereLocked(); err != nil {
		it.end(Unavailable, err)
		return
	}
	if !p.choose(it) || !st.chargeLocked(it, s.volumes[it.vol].slotBytes(it.Len)) {
		return
	}
	p.keep(it)
	s.claims[it.digest] = c
	it.claim = c
}

// chargeLocked charges an item's slots to the namespace, or settles it if that
// is beyond its quota.
// +checklocks:st.s.mu
func (st *Storing) chargeLocked(it *storeItem, bytes int64) bool {
	more := bytes - it.slotBytes
	if quota := st.ns.settings().quota; quota > 0 && more > 0 && st.ns.used+more > quota {
		it.end(OverQuota, fmt.Errorf("namespace %q uses %d of %d bytes of slots, the payload needs %d", st.ns.name, st.ns.used-it.slotBytes, quota, bytes))
		return false
	}
	st.ns.used += more
	it.slotBytes = bytes
	return true
}

// reserve takes a generation and slots for an item we have claimed, or settles it.
func (st *Storing) reserve(it *storeItem, p *plan) {
	s := st.s
	gen, err := s.o.Meta.NextGenerations(1)
	if err != nil {
		it.end(Unavailable, err)
		return
	}
	if it.gen = gen; st.run == 0 {
		st.run = gen
	}
	if mutant.On(mutant.H9) && st.reserveInPlace(it) {
		return
	}
	p.reserve(it)
}

// forfeit takes back the claims and charges of items that were settled without
// slots, and corrects the charge of those that went to another slab than first
// thought. It takes the lock only if there is something to correct.
func (st *Storing) forfeit(items []*storeItem) {
	var wrong []*storeItem
	for _, it := range items {
		if it.claim != nil && it.slotBytes != st.due(it) {
			wrong = append(wrong, it)
		}
	}
	if len(wrong) > 0 {
		st.correct(wrong)
	}
}

// due is what an item has to be charged with, now that its slots are known.
func (st *Storing) due(it *storeItem) int64 {
	if it.settle {
		return 0
	}
	return st.s.volumes[it.vol].slotBytes(it.Len)
}

func (st *Storing) correct(items []*storeItem) {
	h := st.s.lock(lockStore)
	defer st.s.unlock(h)
	for _, it := range items {
		if !it.settle && !st.chargeLocked(it, st.due(it)) {
			st.s.volumes[it.vol].slab.Move(it.slots, slab.Reserved, slab.Free)
			it.ids, it.slots = nil, nil
		}
		if it.settle {
			st.ns.used -= it.slotBytes
			it.slotBytes = 0
			st.s.dropClaimLocked(it, false, 0)
		}
	}
}

// dropClaimLocked ends an item's claim and tells its followers how.
// +checklocks:s.mu
func (s *Store) dropClaimLocked(it *storeItem, ok bool, pos uint64) {
	if it.claim == nil {
		return
	}
	delete(s.claims, it.digest)
	it.claim.ok, it.claim.pos = ok, pos
	close(it.claim.done)
	it.claim = nil
}
