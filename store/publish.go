// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"context"
	"errors"
	"slices"
	"strings"

	"github.com/rawblockd/rawblockd/internal/mutant"
	"github.com/rawblockd/rawblockd/slab"
)

// finish takes a batch to its end: it waits for the writes, flushes once per
// slab, publishes in one lock section, waits for the commit, and only then for
// the batches that it follows. So two batches of the same keys in opposite
// order never wait for each other.
func (st *Storing) finish() {
	defer st.s.work.Done()
	defer close(st.ended)
	st.written(st.items)
	if !st.gone() {
		st.flush(st.items)
	}
	if !st.enter(finishing, publishing) {
		st.giveBack(st.items)
		return
	}
	pos := st.publish(st.items)
	st.confirm(st.items, pos)
	st.record(st.items)
	close(st.shown)
	for round := st.followers(st.items); len(round) > 0; round = st.followers(round) {
		st.start(round)
		st.written(round)
		st.flush(round)
		if !st.takeOver(round) {
			st.giveBack(round)
			return
		}
		st.confirm(round, st.publish(round))
		st.record(round)
	}
}

// written waits for the round's writes.
func (st *Storing) written(round []*storeItem) {
	if trace := traceOf(st.ctx); trace != nil {
		var names []string
		for _, it := range round {
			if it.ids == nil {
				continue
			}
			if name := st.s.volumes[it.vol].slab.Name(); !slices.Contains(names, name) {
				names = append(names, name)
			}
		}
		trace.On(strings.Join(names, ","))
	}
	for _, f := range st.flights {
		f.wait()
	}
	st.flights = nil
}

// gone tells whether the caller has left.
func (st *Storing) gone() bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	return st.phase == cancelled
}

// flush makes the round's writes durable, once per slab in sync mode. A slab
// whose flush fails, or hangs, fails its items.
func (st *Storing) flush(round []*storeItem) {
	s := st.s
	flushes := make([]chan error, len(s.volumes))
	for v, vol := range s.volumes {
		if vol.relaxed || mutant.On(mutant.H1) || !st.wrote(round, v) {
			continue
		}
		done := make(chan error, 1)
		flushes[v] = done
		s.work.Go(func() { done <- vol.flush() })
	}
	failed := make([]error, len(s.volumes))
	for v, done := range flushes {
		if done == nil {
			continue
		}
		select {
		case failed[v] = <-done:
		case <-s.volumes[v].health.unsynced.on().Done():
			select {
			case failed[v] = <-done:
			default:
				failed[v] = cmp.Or(s.volumes[v].refuses(), errOut)
			}
		}
	}
	for _, it := range round {
		if it.ids != nil && it.writeErr == nil {
			it.writeErr = failed[it.vol]
		}
	}
}

// wrote tells whether the round has something whole on volume v.
func (st *Storing) wrote(round []*storeItem, v int) bool {
	for _, it := range round {
		if it.ids != nil && it.vol == v && it.writeErr == nil {
			return true
		}
	}
	return false
}

// publish puts the round's written items into the index and queues their rows,
// all in one lock section, and returns the position that makes every answer of
// the round true.
func (st *Storing) publish(round []*storeItem) uint64 {
	s := st.s
	now := s.nowMS()
	g := group{at: now, space: st.ns.name, sync: s.anySync(st.ns), sets: make([]setRow, 0, len(round))}
	if st.o.Overwrite { // else what is replaced is an exception
		g.left, g.deletes = make([]departure, 0, len(round)), make([]id, 0, len(round))
	}
	old, back, suspect := s.newSlotLists(len(round)), s.newSlotLists(0), s.newSlotLists(0)
	used := s.newSlotLists(len(round))
	rows := make([]setRow, len(round))
	for i, it := range round {
		if it.ids != nil {
			rows[i] = setRow{it.ids[0], st.row(it)}
		}
	}
	h := s.lockIn(st.ctx, lockPublish)
	for i, it := range round {
		switch {
		case it.ids == nil:
		case it.writeErr != nil:
			st.failLocked(it, &g, back, suspect)
		case st.admitLocked(it, &g, old, now):
			g.sets = append(g.sets, rows[i])
			used[it.vol] = append(used[it.vol], it.slots...)
		default:
			st.returnLocked(it, back)
		}
	}
	s.move(used, slab.Reserved, slab.Used)
	s.move(old, slab.Used, slab.Deleting)
	s.move(back, slab.Reserved, slab.Free)
	for v, slots := range suspect {
		if len(slots) > 0 {
			s.volumes[v].slab.Quarantine(slots)
		}
	}
	pos := s.commits.position()
	if len(g.sets) > 0 || len(g.bad) > 0 {
		pos = s.commits.enqueue(g)
	}
	for _, it := range round {
		s.dropClaimLocked(it, it.status == OK && it.settle, pos)
	}
	s.unlock(h)
	if st.expiry != 0 {
		s.nudge()
	}
	return pos
}

// admitLocked publishes one item, replacing what it may replace.
// +checklocks:st.s.mu
func (st *Storing) admitLocked(it *storeItem, g *group, old slotLists, now int64) bool {
	s := st.s
	if it.replaces != none {
		return st.admitInPlaceLocked(it, g)
	}
	if h, found := s.x.find(it.digest); found {
		switch {
		case !s.x.dead(h, now) && !st.o.Overwrite && s.servesLocked(h):
			it.end(Exists, nil)
			return false
		case s.x.pins[h] > 0 && !st.o.Force:
			it.end(Pinned, nil)
			return false
		}
		it.forced = s.x.pins[h] > 0
		why := ReasonReplaced
		if s.x.dead(h, now) {
			why = ReasonExpired
		}
		s.dropLocked(g, old, h, it.Key, why)
	}
	s.x.insert(entry{it.digest, it.gen, it.sum, uint32(it.Len), st.expiry, st.ns.num}, it.ids)
	s.countLocked(it.ids[0], 1)
	s.spareLocked(st.ns, it.gen)
	it.end(OK, nil)
	return true
}

// returnLocked gives an item's slots and quota back unpublished.
// +checklocks:st.s.mu
func (st *Storing) returnLocked(it *storeItem, back slotLists) {
	if it.replaces == none {
		back[it.vol] = append(back[it.vol], it.slots...)
		st.ns.used -= it.slotBytes
	}
	it.ids = nil
}

// failLocked settles an item whose write failed. An error that accuses the medium
// puts its slots out of use.
// +checklocks:st.s.mu
func (st *Storing) failLocked(it *storeItem, g *group, back, suspect slotLists) {
	s := st.s
	var ioErr *slab.IOError
	switch {
	case errors.Is(it.writeErr, ErrNoMemory):
		it.end(Busy, it.writeErr)
	case errors.Is(it.writeErr, context.Canceled), errors.Is(it.writeErr, context.DeadlineExceeded):
		it.end(Deadline, it.writeErr)
	case errors.Is(it.writeErr, slab.ErrReadOnly):
		it.end(Unavailable, it.writeErr)
	case !errors.As(it.writeErr, &ioErr):
		it.end(Unavailable, it.writeErr) // it did not reach the device, or was not awaited
	case accuses(it.writeErr) && it.replaces == none && s.mayQuarantine(it.vol, len(suspect[it.vol])):
		it.end(IOError, it.writeErr)
		suspect[it.vol] = append(suspect[it.vol], it.slots...)
		g.bad = append(g.bad, badRow{head: none, slots: it.ids, reason: "write error on store: " + it.writeErr.Error()})
		st.ns.used -= it.slotBytes
		it.ids = nil
		return
	default:
		it.end(IOError, it.writeErr)
	}
	st.returnLocked(it, back)
}

// confirm waits until what the round's answers assert is durable.
func (st *Storing) confirm(round []*storeItem, pos uint64) {
	asserts := false
	for _, it := range round {
		asserts = asserts || it.settle && (it.status == OK || it.status == Exists && !mutant.On(mutant.H35))
	}
	if !asserts || !st.s.anySync(st.ns) {
		return
	}
	if err := st.s.commits.wait(st.ctx, pos); err != nil {
		for _, it := range round {
			if it.settle && (it.status == OK || it.status == Exists) {
				it.end(turned(err), err)
			}
		}
	}
}

// followers waits for the batches that store the items we follow. It returns
// those that failed to: this batch stores them itself.
func (st *Storing) followers(round []*storeItem) []*storeItem {
	var open, settled []*storeItem
	for _, it := range round {
		if it.settle || it.follow == nil {
			continue
		}
		if st.followed(it) {
			settled = append(settled, it)
		} else {
			open = append(open, it)
		}
	}
	st.record(settled)
	return open
}

// followed waits for one item's leader; false if the item is ours to store now.
func (st *Storing) followed(it *storeItem) bool {
	c := it.follow
	it.follow = nil
	traceOf(st.ctx).At(StageFollow)
	select {
	case <-c.done:
	case <-st.ctx.Done():
		it.end(Deadline, st.ctx.Err())
		st.drop(it)
		return true
	}
	switch {
	case c.ok && !st.o.Overwrite:
		it.end(Exists, nil)
		st.drop(it)
		st.confirm([]*storeItem{it}, c.pos)
	case it.Buf == nil:
		it.end(Busy, errors.New("another batch was storing this key, and the bytes of this one were not kept: store it again"))
	default:
		return false
	}
	return true
}

// giveBack ends a batch that will not be published.
func (st *Storing) giveBack(round []*storeItem) {
	s := st.s
	back := s.newSlotLists(len(round))
	h := s.lock(lockPublish)
	for _, it := range round {
		if it.ids != nil {
			st.returnLocked(it, back)
		}
		s.dropClaimLocked(it, false, 0)
	}
	s.move(back, slab.Reserved, slab.Free)
	s.unlock(h)
	for _, it := range round {
		st.drop(it)
	}
}
