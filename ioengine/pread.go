// SPDX-License-Identifier: Apache-2.0

package ioengine

import (
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
	core

	// +checklocks:mu
	idle int // workers in wake.Wait
	// +checklocks:mu
	began []time.Time // by worker: when its op went to the device; zero: it has none there
	// +checklocks:mu
	wake sync.Cond // an op may start, or closed
}

var _ Engine = (*Pread)(nil)

// NewPread starts an engine on dev. Close ends it; dev stays the caller's. It
// panics if o is out of range: config validates.
func NewPread(dev Device, o PreadOptions) *Pread {
	p := &Pread{began: make([]time.Time, max(o.Workers, 0))}
	p.prepare(dev, "pread", o.Workers, o.InflightBytes)
	p.observe, p.observeFlush = o.Observe, o.ObserveFlush
	p.mu.Lock()
	defer p.mu.Unlock()
	p.wake.L = &p.mu
	p.users = o.Workers
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
	b := p.batchOf(ops, done)
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.acceptLocked(b) {
		p.passLocked()
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
	if p.takeLocked(next) {
		p.began[w] = time.Now()
	}
	p.passLocked()
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

// finish books an op, and lets the next one start before its done has run.
func (p *Pread) finish(w int, next pick, n int, err error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.began[w] = time.Time{}
	p.bookLocked(next, n, err)
	p.passLocked()
}

// Close implements Engine: ops accepted before it are still carried out. It may
// be called more than once, but not from a Done.
func (p *Pread) Close() error {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.closed = true
	p.wake.Broadcast()
	p.waitLocked()
	return nil
}

// Stats implements Engine.
func (p *Pread) Stats() Stats {
	p.mu.Lock()
	defer p.mu.Unlock()
	s := p.snapshotLocked()
	for _, began := range p.began {
		if !began.IsZero() {
			s.OldestOp = max(s.OldestOp, time.Since(began))
		}
	}
	return s
}
