// SPDX-License-Identifier: Apache-2.0

package store

import (
	"crypto/rand"
	"encoding/binary"
	"fmt"
	"slices"
	"time"
)

// View is which namespaces a feed is about. The zero View is about none.
type View struct {
	all   bool
	names []string // else these; sorted, each once
	key   string   // no two views share one
}

// ViewOfAll is the view of all namespaces, also of those that are made later.
func ViewOfAll() View { return View{all: true, key: "*"} }

// ViewOf is the view of some namespaces, whether there are any of these names or not.
func ViewOf(names ...string) View {
	names = slices.Compact(slices.Sorted(slices.Values(names)))
	return View{names: names, key: fmt.Sprintf("%q", names)}
}

// Equal tells whether two views are about the same.
func (v View) Equal(w View) bool { return v.key == w.key }

// has tells whether a namespace is in the view.
func (v View) has(name string) bool {
	if v.all {
		return true
	}
	_, there := slices.BinarySearch(v.names, name)
	return there
}

// numbering is the numbers that the readers of one view are given: they count its own
// events from a random start, and say nothing of others, not even whether the ring was
// kept for them meanwhile. It ends eventLinger after its last reader has left, whoever
// else listens.
type numbering struct {
	view  View
	start uint64 // what events are counted from
	skip  uint64 // events of the view that were in events.counts then
	feeds int
	quiet time.Time // since when there are none
	over  bool      // events were not kept without a gap
}

// startBits bounds where numbers start. With as many events to come they stay exact in
// JSON, where a number may be a double of 53 bits; and a number of another view or process
// is not among those of the last 65,536 events but once in 2^36.
const startBits = 52

// drawStart draws the start of a numbering: 1 to 2^52.
func drawStart() uint64 {
	var b [8]byte
	_, _ = rand.Read(b[:]) // never fails
	return binary.NativeEndian.Uint64(b[:])>>(64-startBits) + 1
}

// numberingLocked returns the numbering of a view: the one there is, if it has readers
// or had until lately.
// +checklocks:e.mu
func (e *events) numberingLocked(v View) *numbering {
	if n := e.numberings[v.key]; n != nil && !e.expiredLocked(n) {
		return n
	}
	if len(e.numberings) >= e.prune {
		for key, n := range e.numberings {
			if e.expiredLocked(n) {
				delete(e.numberings, key)
			}
		}
		e.prune = 2*len(e.numberings) + minPrune
	}
	n := &numbering{view: v, start: e.draw(), skip: e.countLocked(v)}
	e.numberings[v.key] = n
	return n
}

// minPrune is how many numberings there are at least before it is looked for those that
// have ended.
const minPrune = 64

// +checklocks:e.mu
func (e *events) expiredLocked(n *numbering) bool {
	return n.feeds == 0 && time.Since(n.quiet) > e.linger
}

// countLocked is how many events of a view there were since the ring began to be kept.
// +checklocks:e.mu
func (e *events) countLocked(v View) (n uint64) {
	if v.all {
		return e.next - e.origin
	}
	for _, name := range v.names {
		n += e.counts[name]
	}
	return n
}

// lastLocked is the number of the last event of a view.
// +checklocks:e.mu
func (e *events) lastLocked(n *numbering) uint64 {
	return n.start + e.countLocked(n.view) - n.skip
}

// restartLocked begins to count: what was told before is not in the ring.
// +checklocks:e.mu
func (e *events) restartLocked() {
	for _, n := range e.numberings {
		n.over = true
	}
	e.first, e.origin = e.next, e.next
	e.counts, e.numberings, e.prune = map[string]uint64{}, map[string]*numbering{}, minPrune
}

// locateSteps is how many events are looked through before others get their turn: 10 to
// 30 µs.
const locateSteps = 1024

// locateLocked returns a position in the ring behind which are all events of a view after
// the one with number seq, and before which is none of them: if such a number was given
// and the ring has them all. It goes back from the newest event. A whole ring of events
// of others takes one or two milliseconds (BenchmarkResume), but never the lock for long.
// +checklocks:e.mu
func (e *events) locateLocked(n *numbering, seq uint64) (pos uint64, ok bool) {
	last := e.lastLocked(n)
	if seq < n.start || seq > last {
		return 0, false
	}
	pos = e.next
	missing := last - seq
	if n.view.all {
		pos -= missing
		return pos, pos >= e.first
	}
	for steps := 1; missing > 0; steps++ {
		if pos <= e.first { // after a gap, it is behind all that
			return 0, false
		}
		pos--
		if n.view.has(e.ring[pos%e.size].Namespace) {
			missing--
		}
		if steps%e.steps == 0 {
			e.yieldLocked()
		}
	}
	return pos, !n.over
}

// yieldLocked lets others have the lock.
// +checklocks:e.mu
func (e *events) yieldLocked() {
	e.mu.Unlock()
	if e.yielded != nil {
		e.yielded()
	}
	e.mu.Lock()
}
