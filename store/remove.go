// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"

	"github.com/rawblockd/rawblockd/internal/mutant"
	"github.com/rawblockd/rawblockd/slab"
)

// RemoveResult answers a remove, one result per key in request order.
type RemoveResult struct {
	Results []KeyResult
	Removed int
}

// Remove deletes keys. The pin lock is taken once, whatever their number.
//
// The contract: no keys, nothing removed; a repeated key is counted once, its
// later places answer Duplicate; a key that is not stored answers Missing, which
// is no error; without force a pinned key stays and answers Pinned; with force
// it goes and its pins with it. An answer waits until it is durable (in relaxed
// mode, until the index has it). The idea of one hold per batch is LMCache's
// (its raw block backend once took it per key).
func (s *Store) Remove(ctx context.Context, ns string, keys []string, force bool) (RemoveResult, error) {
	sp, err := s.enter(ns)
	if err != nil {
		return RemoveResult{}, err
	}
	defer s.work.Done()
	r := RemoveResult{Results: make([]KeyResult, len(keys))}
	if len(keys) == 0 {
		return r, nil
	}
	ds, valid := s.digests(sp, keys)
	markRepeats(r.Results, ds, valid)
	broken := s.commits.broken()
	now := s.nowMS()
	g := group{at: now, space: sp.name, deletes: make([]id, 0, len(keys)), left: make([]departure, 0, len(keys))}
	slots := s.newSlotLists(len(keys))

	h := s.lockIn(ctx, lockRemove)
	for i := range keys {
		res := &r.Results[i]
		switch {
		case !valid[i]:
			res.Status = InvalidKey
		case res.Status == Duplicate:
		case broken != nil:
			res.Status, res.Err = Unavailable, broken
		default:
			res.Status = s.removeLocked(&g, slots, ds[i], keys[i], force)
		}
	}
	s.move(slots, slab.Used, slab.Deleting)
	pos := s.commits.position()
	if len(g.deletes) > 0 {
		g.sync = s.anySync(sp)
		pos = s.commits.enqueue(g)
	}
	s.unlock(h)

	refuseKeys(r.Results, keys)
	s.settleRemove(ctx, sp, &r, pos)
	s.metrics.countResults("remove", r.Results)
	return r, nil
}

// markRepeats sets Duplicate on every later place of a key.
func markRepeats(results []KeyResult, ds []digest, valid []bool) {
	if len(ds) < 2 {
		return
	}
	seen := make(map[digest]struct{}, len(ds))
	for i, d := range ds {
		if !valid[i] {
			continue
		}
		if _, again := seen[d]; again {
			results[i].Status = Duplicate
			continue
		}
		seen[d] = struct{}{}
	}
}

// removeLocked unlinks one entry. An expired one goes too, but was absent.
// +checklocks:s.mu
func (s *Store) removeLocked(g *group, slots slotLists, d digest, key string, force bool) Status {
	h, ok := s.x.find(d)
	if !ok {
		return Missing
	}
	switch pinned := s.x.pins[h] > 0; {
	case s.x.dead(h, g.at):
		s.dropLocked(g, slots, h, key, ReasonExpired)
		return Missing
	case pinned && !force:
		return Pinned
	case pinned:
		s.dropLocked(g, slots, h, key, ReasonForced)
	default:
		s.dropLocked(g, slots, h, key, ReasonRemoved)
	}
	return OK
}

// anySync tells whether an answer about this namespace waits for a sync.
func (s *Store) anySync(sp *space) bool {
	return sp.waits.Load()
}

// settleRemove waits for what the answers assert and turns them if it does not
// come true. Missing waits too: the remove that made a key missing may be on
// its way still.
func (s *Store) settleRemove(ctx context.Context, sp *space, r *RemoveResult, pos uint64) {
	asserts := false
	for i := range r.Results {
		st := r.Results[i].Status
		asserts = asserts || st == OK || st == Missing && !mutant.On(mutant.H35)
	}
	var err error
	if asserts && s.anySync(sp) {
		err = s.commits.wait(ctx, pos)
	}
	for i := range r.Results {
		res := &r.Results[i]
		if err != nil && (res.Status == OK || res.Status == Missing) {
			res.Status, res.Err = turned(err), err
		}
		if res.Status == OK {
			r.Removed++
		}
	}
}

// turned is the answer of a change that could not be seen through.
func turned(err error) Status {
	if errors.Is(err, ErrOutcomeUnknown) {
		return Deadline
	}
	return Unavailable
}
