// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"slices"
)

// chunk is how many slots, deletes or departures are dealt with at a time, where
// there may be as many as there are slots.
const chunk = 16384

// hold is up to how many entries leave the index in one holding of the pin lock, where
// nobody asked for them as one batch; 4*hold is up to how many slots, or pins, of them,
// but for one entry, or lease, of more. An entry takes a microsecond and more where
// nothing of it is in the caches, so this is about one millisecond
// (BenchmarkHoldOfClear).
const hold = 1024

// fewInHold is up to how many departures of a holding are copied, 3 KiB of them.
const fewInHold = 64

// room is what a walk through ids fills in one holding of the pin lock, and what must
// therefore be made before. Mostly little of it is used: then it serves again.
type room struct {
	left    []departure
	deletes []id
	slots   slotLists
	seen    int // departures when full was asked last
}

// makeRoom returns room for what leaves in one holding, of entries whose heads lie in
// [from, to).
func (s *Store) makeRoom(from, to int) *room {
	r, ok := s.rooms.Get().(*room)
	if !ok {
		r = &room{slots: make(slotLists, len(s.volumes))}
	}
	n := min(hold, to-from)
	r.left, r.deletes = slices.Grow(r.left, n), slices.Grow(r.deletes, n)
	for i, v := range s.volumes {
		if from < int(v.end()) && int(v.base) < to {
			r.slots[i] = slices.Grow(r.slots[i], 4*n)
		}
	}
	return r
}

// full tells whether what g has is enough for one holding. It is asked for each slot.
func (r *room) full(g *group) bool {
	if len(g.deletes) == r.seen {
		return false
	}
	r.seen = len(g.deletes)
	slots := 0
	for _, l := range r.slots {
		slots += len(l)
	}
	return r.seen >= hold || slots >= 4*hold
}

// begin gives g the room.
func (r *room) begin(g *group) { g.left, g.deletes = r.left, r.deletes }

// keep leaves g with what is its own: few departures are copied, many take their
// room along. It is called under the pin lock, before g is queued.
func (r *room) keep(g *group) {
	if len(g.left) > fewInHold {
		r.left, r.deletes = nil, nil
		return
	}
	g.left, g.deletes = slices.Clone(g.left), slices.Clone(g.deletes)
}

// giveBack keeps the room for the next holding.
func (s *Store) giveBack(r *room) {
	for i := range r.slots {
		r.slots[i] = r.slots[i][:0]
	}
	r.seen = 0
	s.rooms.Put(r)
}

// pace has a walk through all entries keep at most two chunks on their way to the
// disk. Otherwise it would queue everything at once, and whoever comes then would
// wait for all of that.
type pace struct{ last, before uint64 }

// sent notes the position of one more chunk; 0: there was nothing to send of it.
func (p *pace) sent(pos uint64) {
	if pos > 0 {
		p.before, p.last = p.last, pos
	}
}

// wait returns when the next chunk may go, or as committer.wait does.
func (p *pace) wait(ctx context.Context, c *committer) error { return c.wait(ctx, p.before) }
