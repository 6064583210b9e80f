// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
	"sync"
	"time"

	"github.com/rawblockd/rawblockd/internal/mutant"
	"github.com/rawblockd/rawblockd/meta"
)

// The committer is the only writer of rows.
//
// A change is made to the index and queued here in one section of the pin lock,
// so that the order of the log is the order of the index. One goroutine takes
// whatever has been queued, writes it as one Pebble batch and moves the durable
// position on; everybody who queued meanwhile shares the next sync. The
// alternative, each request committing for itself after the lock, needs a
// second lock over the sync to keep the two orders alike, and gives group
// commit away.

// group is what one section of the pin lock changed: it becomes durable as one.
type group struct {
	pos     uint64
	sync    bool   // someone waits for it: a slab in sync mode is concerned
	at      int64  // unix ms
	space   string // namespace of those in left that have a key
	sets    []setRow
	touches []setRow // rows of entries whose expiry changed
	deletes []id     // heads of unlinked entries, whose slots may be freed
	left    []departure
	bad     []badRow // slots to put out of use
	names   []nameRow
	away    []rowAway // rows to delete that the index does not know
}

// setRow publishes the entry at head.
type setRow struct {
	head id
	row  *meta.Row
}

// badRow records slots as quarantined and drops the row of head, if any.
type badRow struct {
	head   id // none: there is no row
	slots  []id
	reason string
}

// committer orders and syncs changes.
type committer struct {
	s    *Store
	wake chan struct{} // capacity 1

	settling sync.Mutex // one advance at a time: a position is durable only when its slots are free

	mu sync.Mutex
	// +checklocks:mu
	queue []group
	// +checklocks:mu
	tail uint64 // position of the group queued last
	// +checklocks:mu
	written uint64 // position up to which Pebble has the groups, synced or not
	// +checklocks:mu
	durable uint64 // position up to which they are synced
	// +checklocks:mu
	unsynced []group // written without sync; their deletes wait
	// +checklocks:mu
	failed error
	// +checklocks:mu
	moved chan struct{} // closed and replaced whenever written, durable or failed changes
	// +checklocks:mu
	closing bool
}

func newCommitter(s *Store) *committer {
	return &committer{s: s, wake: make(chan struct{}, 1), moved: make(chan struct{})}
}

// enqueue queues a group and returns its position. The caller holds the pin
// lock, in the section in which it changed the index; an empty group only asks
// for a sync.
func (c *committer) enqueue(g group) uint64 {
	c.s.past.pend(g.at, g.left)
	c.mu.Lock()
	c.tail++
	g.pos = c.tail
	c.queue = append(c.queue, g)
	pos := c.tail
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
	return pos
}

// position returns that of the last group queued: whatever is true in the index
// now was made true at or before it.
func (c *committer) position() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tail
}

// backlog returns how many groups are queued and not yet durable.
func (c *committer) backlog() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.tail - c.durable
}

// broken returns the error that ended commits, if any.
func (c *committer) broken() error {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.failed
}

// wait returns when pos is durable, commits are broken, or ctx ends.
func (c *committer) wait(ctx context.Context, pos uint64) error {
	err := c.await(ctx, pos, true)
	if err != nil && err == ctx.Err() {
		return ErrOutcomeUnknown
	}
	return err
}

// waitWritten returns when Pebble has the groups up to pos, durable or not,
// commits are broken, or ctx ends.
func (c *committer) waitWritten(ctx context.Context, pos uint64) error {
	return c.await(ctx, pos, false)
}

func (c *committer) await(ctx context.Context, pos uint64, synced bool) error {
	trace := traceOf(ctx)
	trace.At(StageCommit)
	defer trace.At(StageStart)
	for {
		c.mu.Lock()
		done, failed, moved := c.durable >= pos || !synced && c.written >= pos, c.failed, c.moved
		c.mu.Unlock()
		switch {
		case done:
			return nil
		case failed != nil:
			return failed
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// run takes groups until stop was called and nothing is left.
func (c *committer) run() {
	for {
		groups, closing := c.take()
		if len(groups) > 0 {
			c.s.events.turn <- struct{}{}
			c.commit(groups)
			<-c.s.events.turn
			continue
		}
		if closing {
			return
		}
		<-c.wake
	}
}

// take takes what is queued, up to a chunk of deletes: the acknowledgements of a
// commit must not wait for all that a clear or a mass expiry deletes.
func (c *committer) take() (groups []group, closing bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	n, deletes := 0, 0
	for n < len(c.queue) {
		if deletes += len(c.queue[n].deletes) + len(c.queue[n].away); n > 0 && deletes > chunk {
			break
		}
		n++
	}
	groups, c.queue = c.queue[:n:n], c.queue[n:]
	if len(c.queue) == 0 {
		c.queue = nil
	}
	return groups, c.closing
}

func (c *committer) stop() {
	c.mu.Lock()
	c.closing = true
	c.mu.Unlock()
	select {
	case c.wake <- struct{}{}:
	default:
	}
}

// commit writes groups as one Pebble batch, with a sync if anybody waits.
func (c *committer) commit(groups []group) {
	defer c.s.past.absorb()
	needSync := false
	for i := range groups {
		needSync = needSync || groups[i].sync
	}
	batch := c.s.o.Meta.NewBatch()
	for i := range groups {
		c.fill(batch, &groups[i])
	}
	syncNow := needSync
	if mutant.Enabled {
		syncNow = c.mutatedSync(groups, needSync)
	}
	start := time.Now()
	err := c.broken()
	var news told
	if err == nil {
		news = c.s.changes(groups)
		err = c.write(batch, syncNow)
	}
	c.s.metrics.commit.Observe(time.Since(start).Seconds())
	if err != nil {
		c.fail(groups, err)
		return
	}
	if mutant.On(mutant.H3) && needSync {
		c.s.settle(groups)
		if err = c.s.o.Meta.Sync(); err != nil {
			c.fail(groups, err)
			return
		}
	}
	c.s.events.tell(news)
	last := groups[len(groups)-1].pos
	c.mu.Lock()
	c.written = last
	c.unsynced = append(c.unsynced, groups...)
	if !needSync {
		c.tellLocked()
	}
	c.mu.Unlock()
	if needSync {
		c.advance(last)
	}
}

// write commits a batch. One without rows is a request for a sync.
func (c *committer) write(b *meta.Batch, sync bool) error {
	if b.Len() == 0 && sync {
		return c.s.o.Meta.Sync()
	}
	return c.s.o.Meta.Commit(b, sync)
}

// mutatedSync weakens the sync as the mutants H2 and H3 want it.
func (c *committer) mutatedSync(groups []group, needSync bool) bool {
	if mutant.On(mutant.H3) {
		return false
	}
	if !mutant.On(mutant.H2) {
		return needSync
	}
	for i := range groups {
		if len(groups[i].sets) > 0 {
			return needSync
		}
	}
	return false
}

func (c *committer) fill(b *meta.Batch, g *group) {
	for _, d := range g.deletes {
		inc, slot := c.s.rowKey(d)
		b.Delete(inc, slot)
	}
	for _, r := range g.away {
		b.Delete(r.inc, r.head)
	}
	for _, q := range g.bad {
		if q.head != none {
			inc, slot := c.s.rowKey(q.head)
			b.Delete(inc, slot)
		}
		for _, sl := range q.slots {
			inc, slot := c.s.rowKey(sl)
			b.Quarantine(inc, slot, q.reason)
		}
	}
	for _, rows := range [...][]setRow{g.sets, g.touches} {
		for _, r := range rows {
			inc, slot := c.s.rowKey(r.head)
			b.Set(inc, slot, r.row)
		}
	}
	for _, n := range g.names {
		if n.rec == nil {
			b.DeleteNamespace(n.name)
			continue
		}
		b.SetNamespace(n.name, n.rec)
	}
}

// advance makes pos the durable position: first the slots of deleted entries
// become free, then those who wait may answer.
func (c *committer) advance(pos uint64) {
	c.settling.Lock()
	defer c.settling.Unlock()
	c.mu.Lock()
	n := 0
	for n < len(c.unsynced) && c.unsynced[n].pos <= pos {
		n++
	}
	groups := c.unsynced[:n:n]
	c.unsynced = c.unsynced[n:]
	if len(c.unsynced) == 0 {
		c.unsynced = nil
	}
	c.mu.Unlock()
	if !mutant.On(mutant.H3) {
		c.s.settle(groups)
	}
	c.mu.Lock()
	if pos > c.durable {
		c.durable = pos
	}
	c.tellLocked()
	c.mu.Unlock()
}

// fail answers groups, and all later ones, with ErrUnavailable. What they
// published is no longer served, what they removed is not freed.
func (c *committer) fail(groups []group, cause error) {
	c.s.unserve(groups)
	c.s.events.fail()
	c.mu.Lock()
	first := c.failed == nil
	if first {
		c.failed = fmt.Errorf("%w: %w", ErrUnavailable, cause)
	}
	c.tellLocked()
	c.mu.Unlock()
	if first {
		c.s.o.Log.Error("commits stopped", "cause", cause)
	}
}

// tellLocked wakes everybody who waits for a position.
// +checklocks:c.mu
func (c *committer) tellLocked() {
	close(c.moved)
	c.moved = make(chan struct{})
}

// reached returns the position up to which Pebble has the groups.
func (c *committer) reached() uint64 {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.written
}
