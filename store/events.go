// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/rawblockd/rawblockd/meta"
)

// EventKind says what an Event is about.
type EventKind uint8

// The kinds. String gives the word that the HTTP API uses.
const (
	EventStored   EventKind = iota // an entry was published
	EventRemoved                   // one left
	EventSnapshot                  // one was there when the feed began
	EventSynced                    // all that was there when the feed began has been told
	EventLost                      // the reader fell behind; the feed ends
)

var eventWords = [...]string{"stored", "removed", "snapshot", "synced", "lost"}

// String returns the API's word, such as "stored".
func (k EventKind) String() string {
	if int(k) < len(eventWords) {
		return eventWords[k]
	}
	return "unknown"
}

// Event is one change of the set of stored keys, or a word about the feed.
type Event struct {
	// Seq counts the changes of what the feed is about, from a random start of 1 to 2^52:
	// it grows by one with each. It tells nothing of other namespaces. That of a snapshot
	// or of lost is 0: a reader that ends there begins anew.
	Seq       uint64
	Kind      EventKind
	Namespace string // of stored, removed and snapshot
	Key       string
	Bytes     int64  // payload length
	Reason    Reason // of removed: Removed, Forced, Expired, Evicted, Cleared, Corrupt, Replaced or IOError
	At        int64  // unix ms; of a snapshot: when it was stored
}

const (
	// eventRing is how many events are kept for readers that are behind. At 72
	// bytes each, that is 4.5 MiB and the keys, while somebody listens.
	eventRing = 65_536
	// eventLinger is how long events are kept after the last reader of a view has
	// left, so that one that lost its connection can go on where it was.
	eventLinger = time.Minute
)

// events gives the changes positions in the order of the log, and keeps the last ones
// while somebody listens. The committer tells them after Pebble has them, so
// that of a commit that fails nothing is ever told. While nobody listens it only
// counts them. No position is ever handed out, for they count the changes of all
// namespaces: readers get numbers of their view.
type events struct {
	size    uint64        // eventRing, less in tests
	linger  time.Duration // eventLinger, less in tests
	steps   int           // locateSteps, less in tests
	draw    func() uint64 // drawStart, not random in tests
	yielded func()        // of tests: others have the lock

	// turn, of capacity 1, is held by the committer from before it decides whether
	// to tell a batch until it has, and by whoever makes it begin to: so no batch
	// is half told.
	turn chan struct{}

	mu sync.Mutex
	// +checklocks:mu
	ring []Event // by position modulo size, without numbers; nil while nobody listens
	// +checklocks:mu
	first, next uint64 // those from first on, before next, are in the ring
	// +checklocks:mu
	origin uint64 // the first since the ring began to be kept, or since a gap
	// +checklocks:mu
	counts map[string]uint64 // how many there were since then, by namespace
	// +checklocks:mu
	numberings map[string]*numbering // by key of the view
	// +checklocks:mu
	prune int // at as many numberings those that have ended are taken out
	// +checklocks:mu
	writing uint64 // changes that are being written: they follow at next, or never
	// +checklocks:mu
	failed bool // they, and all later ones, never come
	// +checklocks:mu
	feeds int
	// +checklocks:mu
	quiet time.Time // since when there are no feeds
	// +checklocks:mu
	waited bool // somebody waits for moved
	// +checklocks:mu
	moved chan struct{} // closed and replaced when events come and somebody waits
	// +checklocks:mu
	closed bool
}

func newEvents() *events {
	return &events{
		size: eventRing, linger: eventLinger, steps: locateSteps, draw: drawStart,
		turn: make(chan struct{}, 1), first: 1, next: 1, moved: make(chan struct{}),
	}
}

// wanted tells whether somebody listens or did lately, and takes note that n
// changes are about to be written. Only the committer calls it, in its turn.
func (e *events) wanted(n int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.writing = uint64(n)
	if e.ring != nil && e.feeds == 0 && time.Since(e.quiet) > e.linger {
		e.ring = nil
		e.restartLocked()
	}
	return e.ring != nil
}

// told is what the committer has to tell about one batch.
type told struct {
	n      int // how many changes there are
	events []Event
	whole  bool // events has them all; else nobody listens, or a key could not be found out
}

// tell makes the events of a batch that was written known.
func (e *events) tell(t told) {
	if t.n == 0 {
		return
	}
	e.mu.Lock()
	defer e.mu.Unlock()
	e.writing = 0
	switch {
	case e.ring == nil:
		e.next += uint64(t.n)
	case t.whole:
		e.keepLocked(t.events)
	default:
		e.next += uint64(t.n)
		e.restartLocked()
	}
	e.wakeLocked()
}

// keepLocked puts events into the ring, and counts them.
// +checklocks:e.mu
func (e *events) keepLocked(list []Event) {
	run := 0 // of events of one namespace
	for i := range list {
		e.ring[e.next%e.size] = list[i]
		e.next++
		if run++; i+1 == len(list) || list[i+1].Namespace != list[i].Namespace {
			e.counts[list[i].Namespace] += uint64(run)
			run = 0
		}
	}
	if e.next-e.first > e.size {
		e.first = e.next - e.size
	}
}

// fail takes note that the batch, and all later ones, will not be written.
func (e *events) fail() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.failed = true
	e.wakeLocked()
}

// +checklocks:e.mu
func (e *events) wakeLocked() {
	if e.waited {
		close(e.moved)
		e.moved, e.waited = make(chan struct{}), false
	}
}

// close ends all feeds once they have told what there is.
func (e *events) close() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.closed = true
	e.wakeLocked()
}

// place is where a feed begins.
type place struct {
	*numbering
	next    uint64 // position of the first event to look at
	seq     uint64 // number of the last event of the view before that
	resumed bool   // that is what was asked for: nothing is missing in between
}

// listen begins a feed, after the event of the view with number since where it can.
func (e *events) listen(ctx context.Context, v View, since uint64) (place, error) {
	if p, ok := e.join(v, since, nil); ok {
		return p, nil
	}
	ring := make([]Event, e.size)
	select {
	case e.turn <- struct{}{}:
	case <-ctx.Done():
		return place{}, ctx.Err()
	}
	defer func() { <-e.turn }()
	p, _ := e.join(v, since, ring)
	return p, nil
}

// join counts a feed in if events are being kept, or begins to keep them in ring.
func (e *events) join(v View, since uint64, ring []Event) (p place, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ring == nil {
		if ring == nil {
			return place{}, false
		}
		e.ring = ring
		e.restartLocked()
	}
	n := e.numberingLocked(v)
	n.feeds++
	e.feeds++
	if pos, known := e.locateLocked(n, since); known {
		return place{n, pos, since, true}, true
	}
	if n.over { // meanwhile
		n = e.numberingLocked(v)
		n.feeds++
	}
	return place{n, e.next, e.lastLocked(n), false}, true
}

// leave counts a feed out.
func (e *events) leave(n *numbering) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if n.feeds--; n.feeds == 0 {
		n.quiet = time.Now()
	}
	if e.feeds--; e.feeds == 0 {
		e.quiet = time.Now()
	}
}

// last returns the position of the last event.
func (e *events) last() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.next - 1
}

// seen returns the position of the last event whose change the metadata store may
// show already, told or not.
func (e *events) seen() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.next - 1 + e.writing
}

// changes makes events of what groups are about to change, in the order of the
// log. Where only the slot of an entry is known, its key is read from its row,
// which is there until the groups are written.
func (s *Store) changes(groups []group) told {
	t := told{}
	rows := false
	for i := range groups {
		g := &groups[i]
		t.n += len(g.left) + len(g.sets)
		for j := range g.left {
			rows = rows || g.left[j].key == ""
		}
	}
	if t.n == 0 || !s.events.wanted(t.n) {
		return t
	}
	t.events = make([]Event, 0, t.n)
	var fresh map[id]*meta.Row // rows of this very batch
	if rows {
		fresh = map[id]*meta.Row{}
	}
	for i := range groups {
		g := &groups[i]
		for j := range g.left {
			ev, err := s.departed(g, &g.left[j], fresh)
			if err != nil {
				s.o.Log.Error("readers of events have to begin anew: a key that left is not known", "error", err)
				return told{n: t.n}
			}
			t.events = append(t.events, ev)
		}
		for _, r := range g.sets {
			t.events = append(t.events, Event{
				Kind: EventStored, Namespace: r.row.Namespace, Key: strings.Clone(r.row.Key), Bytes: int64(r.row.Len), At: g.at,
			})
			if rows {
				fresh[r.head] = r.row
			}
		}
	}
	t.whole = true
	return t
}

// departed makes an event of one departure. Keys of requests are copied: they may
// be parts of whole bodies.
func (s *Store) departed(g *group, d *departure, fresh map[id]*meta.Row) (Event, error) {
	ev := Event{Kind: EventRemoved, Bytes: int64(d.length), Reason: d.why, At: g.at}
	if d.key != "" {
		ev.Namespace, ev.Key = g.space, strings.Clone(d.key)
		return ev, nil
	}
	if row := fresh[d.head]; row != nil {
		ev.Namespace, ev.Key = row.Namespace, strings.Clone(row.Key)
		return ev, nil
	}
	inc, slot := s.rowKey(d.head)
	row, ok, err := s.o.Meta.Get(inc, slot)
	if err == nil && !ok {
		err = errors.New("there is none")
	}
	if err != nil {
		return ev, fmt.Errorf("row of slot %d: %w", slot, err)
	}
	ev.Namespace, ev.Key = row.Namespace, row.Key
	return ev, nil
}
