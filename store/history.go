// SPDX-License-Identifier: Apache-2.0

package store

import (
	"sync"
	"sync/atomic"
)

// historySize is how many keys that left are remembered. At 40 bytes each, and as
// much for the map, that is about 5 MiB, taken as keys leave.
const historySize = 65_536

// history remembers why the last keys left the index. It is of this process:
// a start begins with nothing.
//
// A section of the pin lock only hands its departures over (pend), whatever their
// number; the table is brought up to date by the committer after each commit,
// or by a reader who comes first. So the pin lock is not held for a map, and a
// reader still finds every departure of the sections before its own.
type history struct {
	size int // historySize, less in tests

	in sync.Mutex
	// +checklocks:in
	pending []departures // in the order of the sections
	waiting atomic.Bool  // pending is not empty

	mu sync.RWMutex
	// +checklocks:mu
	known map[digest]uint32 // place in records
	// +checklocks:mu
	records []record // the first one is no key: it ties the ends of the list
	// +checklocks:mu
	forgot bool // something had to be forgotten
}

// departures are those of one section of the pin lock.
type departures struct {
	at   int64 // unix ms
	left []departure
}

// record is one key that left. All form a ring from the oldest to the newest, so
// that a key that leaves again takes no second place.
type record struct {
	digest     digest
	at         int64
	prev, next uint32
	why        Reason
}

// pend hands departures over. The caller holds the pin lock and does not touch
// them any more.
func (p *history) pend(at int64, left []departure) {
	if len(left) == 0 {
		return
	}
	p.in.Lock()
	defer p.in.Unlock()
	p.pending = append(p.pending, departures{at, left})
	p.waiting.Store(true)
}

// absorb brings the table up to date. Others get at it between chunks of departures.
func (p *history) absorb() {
	for p.waiting.Load() {
		p.absorbChunk()
	}
}

func (p *history) absorbChunk() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, d := range p.takeSome() {
		for i := range d.left {
			if d.left[i].why != ReasonReplaced { // the key is there
				p.noteLocked(d.left[i].digest, d.left[i].why, d.at)
			}
		}
	}
}

// takeSome takes what is pending, up to a chunk or to one section's.
func (p *history) takeSome() []departures {
	p.in.Lock()
	defer p.in.Unlock()
	n, left := 0, 0
	for n < len(p.pending) && (n == 0 || left+len(p.pending[n].left) <= chunk) {
		left += len(p.pending[n].left)
		n++
	}
	some := p.pending[:n:n]
	p.pending = p.pending[n:]
	if len(p.pending) == 0 {
		p.pending = nil
		p.waiting.Store(false)
	}
	return some
}

// noteLocked makes a key the newest.
// +checklocks:p.mu
func (p *history) noteLocked(d digest, why Reason, at int64) {
	if len(p.records) == 0 {
		p.records, p.known = append(p.records, record{}), map[digest]uint32{}
	}
	i, again := p.known[d]
	switch {
	case again:
		p.takeOutLocked(i)
	case len(p.records) <= p.size:
		i = uint32(len(p.records))
		p.records = append(p.records, record{})
	default:
		i = p.records[0].next
		p.forgot = true
		delete(p.known, p.records[i].digest)
		p.takeOutLocked(i)
	}
	p.known[d] = i
	last := p.records[0].prev
	p.records[i] = record{digest: d, at: at, why: why, prev: last}
	p.records[last].next, p.records[0].prev = i, i
}

// +checklocks:p.mu
func (p *history) takeOutLocked(i uint32) {
	r := p.records[i]
	p.records[r.prev].next, p.records[r.next].prev = r.next, r.prev
}

// of says why a key that is not in the index is not, and when it left (unix ms;
// 0: not known).
func (p *history) of(d digest) (Reason, int64) {
	p.absorb()
	p.mu.RLock()
	defer p.mu.RUnlock()
	return p.ofLocked(d)
}

// +checklocksread:p.mu
func (p *history) ofLocked(d digest) (Reason, int64) {
	if i, ok := p.known[d]; ok {
		return p.records[i].why, p.records[i].at
	}
	if p.forgot {
		return ReasonUnknown, 0
	}
	return ReasonNeverStored, 0
}
