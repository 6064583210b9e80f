// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"fmt"
	"slices"
)

// plan chooses slabs for the items of one batch, counting what it has chosen
// already: so a batch spreads over equal slabs, which no look at the slabs alone
// would tell it to.
//
// It is made outside the pin lock and used under it, where it neither locks nor
// allocates.
type plan struct {
	slabs   []planned
	last    int   // place of the slab chosen last
	refusal error // why there are none
}

// planned is one slab of a plan.
type planned struct {
	vol         int
	v           *volume
	depth, ops  int64 // ops at once; ops on the device, waiting for it, and planned
	free, total int64 // slots; free ones less what is planned
	late        bool  // its device keeps something for long: it may hang
	tried       bool  // had no room after all for the item that is being reserved
}

// newPlan looks at the slabs that take the namespace's stores now.
func (s *Store) newPlan(sp *space) *plan {
	p := &plan{}
	var why []error
	for _, i := range sp.settings().volumes {
		v := s.volumes[i]
		if err := v.refuses(); err != nil {
			why = append(why, err)
			continue
		}
		c := v.slab.Counts()
		p.slabs = append(p.slabs, planned{
			vol: i, v: v, late: v.late.Load(), depth: max(v.depth, 1), ops: v.ops.Load(), free: int64(c.Free), total: max(int64(c.Total), 1),
		})
	}
	switch {
	case len(p.slabs) > 0:
	case len(why) == 0:
		p.refusal = fmt.Errorf("none of the slabs of namespace %q is configured", sp.name)
	case len(why) == 1:
		p.refusal = why[0]
	default:
		p.refusal = fmt.Errorf("no slab of namespace %q takes stores: %w", sp.name, severalError(why))
	}
	return p
}

// best returns the place in p of the slab for a payload, or -1. Of those with room:
// one whose device answers before one whose device may hang, then the one that wastes
// least, then the one with fewer full rounds of ops before this
// one, then the one with most of its slots free.
func (p *plan) best(length int64) int {
	best := -1
	for i := range p.slabs {
		if !p.slabs[i].tried && (best < 0 || p.slabs[i].before(&p.slabs[best], length)) {
			best = i
		}
	}
	return best
}

// before tells whether a is a better place for a payload than b; of equals neither.
func (a *planned) before(b *planned, length int64) bool {
	if x, y := a.fits(length), b.fits(length); x != y {
		return x
	}
	if a.late != b.late {
		return b.late
	}
	if x, y := a.v.slotBytes(length), b.v.slotBytes(length); x != y {
		return x < y
	}
	if x, y := a.ops/a.depth, b.ops/b.depth; x != y {
		return x < y
	}
	return a.free*b.total > b.free*a.total
}

func (a *planned) fits(length int64) bool { return int64(a.v.slab.SlotsFor(length)) <= a.free }

// take notes that a payload goes to a slab.
func (a *planned) take(length int64) {
	a.ops += int64(a.v.slab.OpsFor(length))
	a.free -= int64(a.v.slab.SlotsFor(length))
}

// choose plans an item; false if no slab takes it.
func (p *plan) choose(it *storeItem) bool {
	p.last = p.best(it.Len)
	if p.last < 0 {
		it.end(Unavailable, p.refusal)
		return false
	}
	it.vol = p.slabs[p.last].vol
	return true
}

// keep counts the item chosen last: it was charged, and goes there.
func (p *plan) keep(it *storeItem) { p.slabs[p.last].take(it.Len) }

// reserve takes slots for an item: from the slab it was planned for, or, if that
// has none left, from the next best. Otherwise it settles the item.
func (p *plan) reserve(it *storeItem) {
	for i := range p.slabs {
		p.slabs[i].tried = false
	}
	planned := slices.IndexFunc(p.slabs, func(a planned) bool { return a.vol == it.vol })
	status, reason := Unavailable, p.refusal
	for at := planned; at >= 0; at = p.best(it.Len) {
		a := &p.slabs[at]
		n := a.v.slab.SlotsFor(it.Len)
		if slots, ok := a.v.slab.Reserve(n); ok {
			if at != planned {
				a.take(it.Len)
			}
			it.vol, it.slots, it.ids = a.vol, slots, a.v.toIDs(slots)
			return
		}
		a.tried, a.free = true, int64(a.v.slab.Counts().Free)
		if err := a.v.refuses(); err != nil {
			reason = cmp.Or(reason, err)
			continue
		}
		status, reason = NoSpace, &roomError{a.v.slab.Name(), a.free, n}
	}
	it.end(status, reason)
}
