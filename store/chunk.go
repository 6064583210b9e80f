// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"slices"
)

// chunk is how many slots, deletes or departures are dealt with in one holding of
// a lock, where there may be as many as there are slots.
const chunk = 16384

// fewInChunk is up to how many departures of a chunk are copied, 48 KiB of them.
const fewInChunk = 1024

// room is what a walk through a chunk of ids fills under the pin lock, and what
// must therefore be made before. Mostly little of it is used: then it serves again.
type room struct {
	left    []departure
	deletes []id
	slots   slotLists
}

// roomFor returns room for the entries whose heads lie in [from, to).
func (s *Store) roomFor(from, to int) *room {
	r, ok := s.rooms.Get().(*room)
	if !ok {
		r = &room{slots: make(slotLists, len(s.volumes))}
	}
	r.left, r.deletes = slices.Grow(r.left, to-from), slices.Grow(r.deletes, to-from)
	for i, v := range s.volumes {
		if from < int(v.end()) && int(v.base) < to {
			r.slots[i] = slices.Grow(r.slots[i], to-from)
		}
	}
	return r
}

// begin gives g the room.
func (r *room) begin(g *group) { g.left, g.deletes = r.left, r.deletes }

// keep leaves g with what is its own: few departures are copied, many take their
// room along. It is called under the pin lock, before g is queued.
func (r *room) keep(g *group) {
	if len(g.left) > fewInChunk {
		r.left, r.deletes = nil, nil
		return
	}
	g.left, g.deletes = slices.Clone(g.left), slices.Clone(g.deletes)
}

// giveBack keeps the room for the next chunk.
func (s *Store) giveBack(r *room) {
	for i := range r.slots {
		r.slots[i] = r.slots[i][:0]
	}
	s.rooms.Put(r)
}

// pace has a walk through all entries keep at most two chunks on their way to the
// disk. Otherwise it would queue everything at once, and whoever comes then would
// wait for all of that.
type pace struct{ last, before uint64 }

// sent notes the position of one more chunk.
func (p *pace) sent(pos uint64) { p.before, p.last = p.last, pos }

// wait returns when the next chunk may go, or as committer.wait does.
func (p *pace) wait(ctx context.Context, c *committer) error { return c.wait(ctx, p.before) }
