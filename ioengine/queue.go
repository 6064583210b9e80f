// SPDX-License-Identifier: Apache-2.0

package ioengine

import "time"

// loadShare is how many bytes loads get for each byte of stores while both
// wait.
const loadShare = 7

// batch is one Submit. The queue chains batches, not ops: a Submit costs one
// allocation however many ops it brings.
type batch struct {
	ops   []Op
	done  Done
	since time.Time // of Submit; zero where nobody observes
	lane  [2]lane   // by Dir
}

// lane is a batch's place in the line of one direction.
type lane struct {
	left int // ops of this direction that have not started
	at   int // no such op before this index
	next *batch
}

// line is the batches that have ops of one direction waiting: a FIFO from which
// one op is taken at a time, its batch going to the back. That is round robin,
// so a small batch starts after at most one op of each batch before it.
type line struct {
	first, last *batch
}

// queue decides which op starts next.
//
// Rejected: one priority queue with loads always first. Stores would starve
// under a steady load of reads, and a batch of stores holds reserved slots and
// arena memory for as long as it waits.
type queue struct {
	lines [2]line
	ops   int // waiting

	// credit is how many bytes of loads have started while stores waited, less
	// loadShare times the bytes of stores that started while loads waited. A
	// store may overtake waiting loads when the credit pays for all of it.
	// Nothing saved outlives the wait: when no store is left it returns to 0.
	credit int64
}

// pick is one op that has been chosen.
type pick struct {
	b   *batch
	i   int
	dir Dir
	len int64
	err error // found before starting: it must not reach the device
}

func (p pick) op() *Op { return &p.b.ops[p.i] }

func (q *queue) add(b *batch) {
	for i := range b.ops {
		b.lane[b.ops[i].Dir&1].left++
	}
	q.ops += len(b.ops)
	for dir := range q.lines {
		if b.lane[dir].left > 0 {
			q.push(Dir(dir), b)
		}
	}
}

func (q *queue) push(dir Dir, b *batch) {
	l := &q.lines[dir]
	b.lane[dir].next = nil
	if l.last == nil {
		l.first = b
	} else {
		l.last.lane[dir].next = b
	}
	l.last = b
}

// peek returns the op that is to start next, without taking it; ok is false if
// none waits.
func (q *queue) peek(g *Geometry) (p pick, ok bool) {
	load, store := q.lines[Read].first, q.lines[Write].first
	switch {
	case load == nil && store == nil:
		return pick{}, false
	case store == nil:
		return q.front(g, Read), true
	case load == nil:
		return q.front(g, Write), true
	}
	if p = q.front(g, Write); q.credit >= loadShare*p.cost() {
		return p, true
	}
	return q.front(g, Read), true
}

// front returns the first waiting op of one direction.
func (q *queue) front(g *Geometry, dir Dir) pick {
	b := q.lines[dir].first
	ln := &b.lane[dir]
	for b.ops[ln.at].Dir&1 != dir {
		ln.at++
	}
	op := &b.ops[ln.at]
	p := pick{b: b, i: ln.at, dir: dir, len: op.Len()}
	p.err = check(g, op, p.len)
	return p
}

// cost is what an op takes of the shares and the budget: nothing if it never
// reaches the device.
func (p pick) cost() int64 {
	if p.err != nil {
		return 0
	}
	return p.len
}

// take removes the op that peek returned.
func (q *queue) take(p pick) {
	l := &q.lines[p.dir]
	ln := &p.b.lane[p.dir]
	loadsWaited := q.lines[Read].first != nil
	ln.at++
	ln.left--
	q.ops--
	l.first = ln.next
	if l.first == nil {
		l.last = nil
	}
	if ln.left > 0 {
		q.push(p.dir, p.b)
	}
	switch {
	case q.lines[Write].first == nil:
		q.credit = 0
	case p.dir == Read:
		q.credit += p.cost()
	case loadsWaited:
		q.credit -= loadShare * p.cost()
	}
}
