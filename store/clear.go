// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
	"math"

	"github.com/rawblockd/rawblockd/slab"
)

// ClearResult says what a clear did.
type ClearResult struct {
	Removed int
	Pinned  int // entries that stay because leases protect them
}

// clearing is a clear under way. It takes what was published before it began.
// Generations do not tell that, for they are given before the write and not at
// publication: so what is published while it runs, with a generation from before,
// is noted.
type clearing struct {
	space  *space
	before uint64              // generations from here on were given later
	spared map[uint64]struct{} // generations below that were published later
}

// Clear removes the entries of a namespace but for those that leases pin. It
// covers what was published before it began and nothing that is published after,
// and lets others in all the time. What the namespace has on slabs that
// are not configured goes too, and is not counted. It is durable when it returns. If
// ctx ends first the result says what was removed until then, and some of it may
// not be durable: clear again.
func (s *Store) Clear(ctx context.Context, ns string) (ClearResult, error) {
	var r ClearResult
	sp, err := s.enter(ns)
	if err != nil {
		return r, err
	}
	defer s.work.Done()
	if err := s.turn(ctx, s.clears); err != nil {
		return r, err
	}
	defer func() { <-s.clears }()
	c, err := s.beginClear(sp)
	if err != nil {
		return r, err
	}
	defer s.endClear()
	var p pace
	for from := 0; from < len(s.x.gen); from += chunk {
		err := p.wait(ctx, s.commits)
		if ctx.Err() != nil {
			return r, fmt.Errorf("clear of namespace %q stopped after %d entries: %w", ns, r.Removed, context.Cause(ctx))
		}
		if err == nil {
			err = s.commits.broken()
		}
		if err == nil {
			err = s.clearChunk(c, from, min(from+chunk, len(s.x.gen)), &r, &p)
		}
		if err != nil {
			return r, err
		}
	}
	if err := s.dropAway(ctx, ns); err != nil {
		return r, err
	}
	// Also on relaxed slabs, where a crash could bring back what was removed.
	return r, s.commits.wait(ctx, s.commits.enqueue(group{sync: true}))
}

// beginClear draws the line. From here on publications are noted, whatever their
// generation, until it is known which ones need not be.
func (s *Store) beginClear(sp *space) (*clearing, error) {
	c := &clearing{space: sp, before: math.MaxUint64, spared: map[uint64]struct{}{}}
	h := s.lock(lockClear)
	err := sp.hereLocked()
	if err == nil {
		s.clearing = c
	}
	s.unlock(h)
	if err != nil {
		return nil, err
	}
	gen, err := s.o.Meta.NextGenerations(1)
	if err != nil {
		s.endClear()
		return nil, fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	h = s.lock(lockClear)
	c.before = gen
	s.unlock(h)
	return c, nil
}

func (s *Store) endClear() {
	h := s.lock(lockClear)
	s.clearing = nil
	s.unlock(h)
}

// spareLocked notes a publication that a clear of its namespace must not take.
// +checklocks:s.mu
func (s *Store) spareLocked(sp *space, gen uint64) {
	if c := s.clearing; c != nil && c.space == sp && gen < c.before {
		c.spared[gen] = struct{}{}
	}
}

// clearChunk removes what c covers among the ids of one chunk, and lets others in on
// the way.
func (s *Store) clearChunk(c *clearing, from, to int, r *ClearResult, p *pace) error {
	var last uint64
	for from < to {
		next, pos, err := s.clearSome(c, from, to, r)
		if err != nil {
			return err
		}
		from, last = next, max(last, pos)
	}
	p.sent(last)
	return nil
}

// clearSome removes what c covers among the ids from one on, as many as one holding
// of the pin lock may, and returns where to go on and the position of what it queued; 0:
// nothing. The namespace's number may be another's once it is deleted, so that is
// looked at every time.
func (s *Store) clearSome(c *clearing, from, to int, r *ClearResult) (next int, pos uint64, err error) {
	room := s.makeRoom(from, to)
	defer s.giveBack(room)
	now := s.nowMS()
	g := group{at: now, sync: true}
	room.begin(&g)
	h := s.lock(lockClear)
	defer s.unlock(h)
	if err := c.space.hereLocked(); err != nil {
		return from, 0, err
	}
	for next = from; next < to && !room.full(&g); next++ {
		e := id(next)
		if s.x.life[e] != live || s.x.ns[e] != c.space.num || s.x.gen[e] >= c.before {
			continue
		}
		if _, later := c.spared[s.x.gen[e]]; later {
			continue
		}
		switch {
		case s.x.pins[e] > 0:
			r.Pinned++
		case s.x.dead(e, now): // it was absent already
			s.dropLocked(&g, room.slots, e, "", ReasonExpired)
		default:
			r.Removed++
			s.dropLocked(&g, room.slots, e, "", ReasonCleared)
		}
	}
	if len(g.deletes) > 0 {
		s.move(room.slots, slab.Used, slab.Deleting)
		room.keep(&g)
		pos = s.commits.enqueue(g)
	}
	return next, pos, nil
}
