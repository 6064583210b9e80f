// SPDX-License-Identifier: Apache-2.0

package ioengine

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// core is what the engines have in common: the queue, the budget, the counters,
// flushes, and what Close waits for. How ops get to the device is theirs.
type core struct {
	dev          Device
	geo          Geometry
	budget       int64 // bytes at once, a multiple of the block; 0: none
	observe      func(Timing)
	observeFlush func(time.Duration)

	mu sync.Mutex
	// +checklocks:mu
	queue queue
	// +checklocks:mu
	users int // goroutines, flushes and late answers that Close waits for
	// +checklocks:mu
	closed bool
	// +checklocks:mu
	stats Stats
	// +checklocks:mu
	flushes []*time.Time // when each flush under way began
	// +checklocks:mu
	gone sync.Cond // users reached 0
}

// prepare panics where the options are out of range: config validates.
func (c *core) prepare(dev Device, name string, depth int, inflight int64) {
	geo := dev.Geometry()
	if depth < 1 {
		panic(fmt.Sprintf("ioengine: %s engine of depth %d", name, depth))
	}
	if inflight != 0 && inflight < int64(geo.Block) {
		panic(fmt.Sprintf("ioengine: %d bytes in flight, less than one block of %d", inflight, geo.Block))
	}
	c.dev, c.geo = dev, geo
	c.budget = inflight - inflight%int64(geo.Block)
	c.mu.Lock()
	defer c.mu.Unlock()
	c.gone.L = &c.mu
	c.stats = Stats{Name: name, Depth: depth}
}

// batchOf makes a batch of what was submitted.
func (c *core) batchOf(ops []Op, done Done) *batch {
	b := &batch{ops: ops, done: done}
	if c.observe != nil {
		b.since = time.Now()
	}
	return b
}

// acceptLocked queues a batch, or, after Close, has it answered with ErrClosed on a
// goroutine of the engine's like any other answer: the caller of Submit may hold a
// lock that done takes.
//
// +checklocks:c.mu
func (c *core) acceptLocked(b *batch) bool {
	if !c.closed {
		c.queue.add(b)
		return true
	}
	c.users++
	go func() {
		defer c.leave()
		for i := range b.ops {
			b.done(i, 0, ErrClosed)
		}
	}()
	return false
}

// held is what an op takes of the byte budget while it is on the device.
func (c *core) held(next pick) int64 {
	if c.budget == 0 {
		return next.cost()
	}
	return min(next.cost(), c.budget)
}

// startableLocked returns the next op if the budget has room for it.
//
// +checklocks:c.mu
func (c *core) startableLocked() (pick, bool) {
	next, ok := c.queue.peek(&c.geo)
	if !ok || c.budget > 0 && c.stats.InFlightBytes+c.held(next) > c.budget {
		return pick{}, false
	}
	return next, true
}

// takeLocked takes an op out of the queue and books it as in flight; it reports
// whether it is to go to the device at all.
//
// +checklocks:c.mu
func (c *core) takeLocked(next pick) bool {
	c.queue.take(next)
	if next.cost() == 0 {
		return false
	}
	c.stats.InFlightOps++
	c.stats.InFlightBytes += c.held(next)
	c.stats.MaxInFlight = max(c.stats.MaxInFlight, c.stats.InFlightOps)
	return true
}

// bookLocked books the end of an op, before its done runs: whoever learns of the
// result finds it in the counters, and the next op need not wait for done.
//
// +checklocks:c.mu
func (c *core) bookLocked(next pick, n int, err error) {
	if next.cost() > 0 {
		c.stats.InFlightOps--
		c.stats.InFlightBytes -= c.held(next)
	}
	c.stats.Ops[next.dir]++
	c.stats.Bytes[next.dir] += uint64(n)
	if err != nil {
		c.stats.Errors[next.dir]++
	}
}

// Flush implements Engine. It runs on the caller's goroutine: io_uring would give an
// fsync to a thread of its own, and what is to be covered has ended before.
func (c *core) Flush() error {
	c.mu.Lock()
	if c.closed {
		c.mu.Unlock()
		return ErrClosed
	}
	c.users++
	start := time.Now()
	c.flushes = append(c.flushes, &start)
	c.mu.Unlock()
	defer c.leave()

	err := c.dev.Flush()
	if c.observeFlush != nil {
		c.observeFlush(time.Since(start))
	}
	c.mu.Lock()
	c.stats.Flushes++
	c.flushes = slices.DeleteFunc(c.flushes, func(t *time.Time) bool { return t == &start })
	c.mu.Unlock()
	if err != nil {
		return fmt.Errorf("flush %q: %w", c.dev.Path(), err)
	}
	return nil
}

// leave ends a use that Close waits for.
func (c *core) leave() {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.users--; c.users == 0 {
		c.gone.Broadcast()
	}
}

// waitLocked returns when nobody uses the engine any more.
//
// +checklocks:c.mu
func (c *core) waitLocked() {
	for c.users > 0 {
		c.gone.Wait()
	}
}

// snapshotLocked returns the counters, without the ages of ops.
//
// +checklocks:c.mu
func (c *core) snapshotLocked() Stats {
	s := c.stats
	s.QueuedOps = c.queue.ops
	for _, began := range c.flushes {
		s.OldestFlush = max(s.OldestFlush, time.Since(*began))
	}
	return s
}
