// SPDX-License-Identifier: Apache-2.0

package ioengine

import (
	"fmt"
	"slices"
	"sync"
	"time"
)

// PreadOptions bounds what a Pread engine has on the device at once.
type PreadOptions struct {
	Workers       int   // ops at once, at least 1
	InflightBytes int64 // bytes at once, at least one block; 0: bounded by Workers alone
	// Observe, if set, hears of every op that went to the device, on the worker
	// and before its done: it must be quick.
	Observe func(Timing)
	// ObserveFlush, if set, hears how long each flush took.
	ObserveFlush func(took time.Duration)
}

// Timing is how long one op took.
type Timing struct {
	Dir    Dir
	Bytes  int           // moved
	Queued time.Duration // from Submit until a worker took it
	Took   time.Duration // on the device
	Err    error
}

// Pread is the engine of plain preadv and pwritev calls: a fixed number of
// goroutines, each carrying one op to the device and its result to done.
//
// One mutex guards the queue. A worker looks at the queue when it has nothing
// to do, never while its op is on the device, and wakes one further worker if
// there is more to start: at any time either no op can start, or no worker is
// idle, or a wake-up is on its way. (Rejected: Submit waking as many workers as
// it brings ops. It was not measurably faster.)
//
// An op larger than InflightBytes is moved in steps of that size, so the budget
// holds for it too. An op that does not fit beside what is on the device waits,
// and the ops behind it wait with it: letting small ones pass would keep a
// large one waiting for as long as small ones come.
type Pread struct {
	dev          Device
	budget       int64 // a multiple of the block; 0: none
	observe      func(Timing)
	observeFlush func(time.Duration)

	mu sync.Mutex
	// +checklocks:mu
	geo Geometry
	// +checklocks:mu
	queue queue
	// +checklocks:mu
	idle int // workers in wake.Wait
	// +checklocks:mu
	users int // workers, flushes and late answers that Close waits for
	// +checklocks:mu
	closed bool
	// +checklocks:mu
	stats Stats
	// +checklocks:mu
	began []time.Time // by worker: when its op went to the device; zero: it has none there
	// +checklocks:mu
	flushes []*time.Time // when each flush under way began

	// +checklocks:mu
	wake sync.Cond // an op may start, or closed
	// +checklocks:mu
	gone sync.Cond // users reached 0
}

var _ Engine = (*Pread)(nil)

// NewPread starts an engine on dev. Close ends it; dev stays the caller's. It
// panics if o is out of range: config validates.
func NewPread(dev Device, o PreadOptions) *Pread {
	geo := dev.Geometry()
	if o.Workers < 1 {
		panic(fmt.Sprintf("ioengine: pread engine with %d workers", o.Workers))
	}
	if o.InflightBytes != 0 && o.InflightBytes < int64(geo.Block) {
		panic(fmt.Sprintf("ioengine: %d bytes in flight, less than one block of %d", o.InflightBytes, geo.Block))
	}
	p := &Pread{
		dev:    dev,
		geo:    geo,
		budget: o.InflightBytes - o.InflightBytes%int64(geo.Block),

		observe:      o.Observe,
		observeFlush: o.ObserveFlush,

		users: o.Workers,
		began: make([]time.Time, o.Workers),
		stats: Stats{Name: "pread", Depth: o.Workers},
	}
	p.wake.L, p.gone.L = &p.mu, &p.mu
	for w := range o.Workers {
		go p.work(w)
	}
	return p
}

// Submit implements Engine.
func (p *Pread) Submit(ops []Op, done Done) {
	if len(ops) == 0 {
		return
	}
	b := &batch{ops: ops, done: done}
	if p.observe != nil {
		b.since = time.Now()
	}
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.closed {
		p.users++
		go p.refuse(b)
		return
	}
	p.queue.add(b)
	p.passLocked()
}

// refuse answers a batch that came after Close, on a goroutine of the engine's
// like any other answer: the caller of Submit may hold a lock that done takes.
func (p *Pread) refuse(b *batch) {
	defer p.leave()
	for i := range b.ops {
		b.done(i, 0, ErrClosed)
	}
}

// work is worker w.
func (p *Pread) work(w int) {
	defer p.leave()
	for {
		next, ok := p.start(w)
		if !ok {
			return
		}
		n, err := 0, next.err
		if err == nil && next.len > 0 {
			n, err = p.move(next)
		}
		p.finish(w, next, n, err)
		next.b.done(next.i, n, err)
	}
}

// move carries one op to the device.
func (p *Pread) move(next pick) (int, error) {
	op := next.op()
	if p.observe == nil {
		return transfer(p.dev, next.dir, op.Vec, op.Off, p.held(next))
	}
	start := time.Now()
	n, err := transfer(p.dev, next.dir, op.Vec, op.Off, p.held(next))
	p.observe(Timing{Dir: next.dir, Bytes: n, Queued: start.Sub(next.b.since), Took: time.Since(start), Err: err})
	return n, err
}

// held is what an op takes of the byte budget while it is on the device.
func (p *Pread) held(next pick) int64 {
	if p.budget == 0 {
		return next.cost()
	}
	return min(next.cost(), p.budget)
}

// start waits for an op that may go to the device and takes it; ok is false
// when the engine is closed and nothing waits any more.
func (p *Pread) start(w int) (next pick, ok bool) {
	p.mu.Lock()
	defer p.mu.Unlock()
	for {
		if next, ok = p.startableLocked(); ok {
			break
		}
		if p.closed && p.queue.ops == 0 {
			return pick{}, false
		}
		p.idle++
		p.wake.Wait()
		p.idle--
	}
	p.queue.take(next)
	if next.cost() > 0 {
		p.stats.InFlightOps++
		p.stats.InFlightBytes += p.held(next)
		p.stats.MaxInFlight = max(p.stats.MaxInFlight, p.stats.InFlightOps)
		p.began[w] = time.Now()
	}
	p.passLocked()
	return next, true
}

// startableLocked returns the next op if the budget has room for it.
//
// +checklocks:p.mu
func (p *Pread) startableLocked() (pick, bool) {
	next, ok := p.queue.peek(&p.geo)
	if !ok || p.budget > 0 && p.stats.InFlightBytes+p.held(next) > p.budget {
		return pick{}, false
	}
	return next, true
}

// passLocked wakes one more worker if it would find something to do.
//
// +checklocks:p.mu
func (p *Pread) passLocked() {
	if p.idle == 0 {
		return
	}
	if p.closed && p.queue.ops == 0 {
		p.wake.Broadcast()
		return
	}
	if _, ok := p.startableLocked(); ok {
		p.wake.Signal()
	}
}

// finish books an op before its done runs: whoever learns of the result finds
// it in the counters, and the next op need not wait for done.
func (p *Pread) finish(w int, next pick, n int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if next.cost() > 0 {
		p.stats.InFlightOps--
		p.stats.InFlightBytes -= p.held(next)
		p.began[w] = time.Time{}
	}
	p.stats.Ops[next.dir]++
	p.stats.Bytes[next.dir] += uint64(n)
	if err != nil {
		p.stats.Errors[next.dir]++
	}
	p.passLocked()
}

// Flush implements Engine. It runs on the caller's goroutine, beside the
// workers.
func (p *Pread) Flush() error {
	p.mu.Lock()
	if p.closed {
		p.mu.Unlock()
		return ErrClosed
	}
	p.users++
	start := time.Now()
	p.flushes = append(p.flushes, &start)
	p.mu.Unlock()
	defer p.leave()

	err := p.dev.Flush()
	if p.observeFlush != nil {
		p.observeFlush(time.Since(start))
	}
	p.mu.Lock()
	p.stats.Flushes++
	p.flushes = slices.DeleteFunc(p.flushes, func(t *time.Time) bool { return t == &start })
	p.mu.Unlock()
	if err != nil {
		return fmt.Errorf("flush %q: %w", p.dev.Path(), err)
	}
	return nil
}

// Close implements Engine: ops accepted before it are still carried out. It may
// be called more than once, but not from a Done.
func (p *Pread) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.wake.Broadcast()
	for p.users > 0 {
		p.gone.Wait()
	}
	return nil
}

// leave ends a use that Close waits for.
func (p *Pread) leave() {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.users--; p.users == 0 {
		p.gone.Broadcast()
	}
}

// Stats implements Engine.
func (p *Pread) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.stats
	s.QueuedOps = p.queue.ops
	for _, began := range p.began {
		if !began.IsZero() {
			s.OldestOp = max(s.OldestOp, time.Since(began))
		}
	}
	for _, began := range p.flushes {
		s.OldestFlush = max(s.OldestFlush, time.Since(*began))
	}
	return s
}
