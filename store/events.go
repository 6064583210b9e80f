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
	// Seq grows by one with every change, in whatever namespace, and leaps with every
	// start: no two changes ever have the same. That of a snapshot or of lost is 0: a
	// reader that ends there begins anew.
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
	// eventLinger is how long events are kept after the last reader has left, so
	// that one that lost its connection can go on where it was.
	eventLinger = time.Minute
)

// events numbers the changes in the order of the log, and keeps the last ones
// while somebody listens. The committer tells them after Pebble has them, so
// that of a commit that fails nothing is ever told. While nobody listens it only
// counts them.
type events struct {
	size   uint64        // eventRing, less in tests
	linger time.Duration // eventLinger, less in tests

	// turn, of capacity 1, is held by the committer from before it decides whether
	// to tell a batch until it has, and by whoever makes it begin to: so no batch
	// is half told.
	turn chan struct{}

	mu sync.Mutex
	// +checklocks:mu
	ring []Event // by sequence number modulo size; nil while nobody listens
	// +checklocks:mu
	first, next uint64 // those from first on, before next, are in the ring
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
		size: eventRing, linger: eventLinger, turn: make(chan struct{}, 1), first: 1, next: 1, moved: make(chan struct{}),
	}
}

// begin numbers the events of a process whose generations begin at born behind all
// those of earlier ones, so that none of theirs passes for one of these. Each entry
// is told once when it comes and once when it goes: there are at most as many events
// in a process as entries at its start and twice the generations that it draws.
func (e *events) begin(born uint64) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.first = 2*born - 1
	e.next = e.first
}

// wanted tells whether somebody listens or did lately, and takes note that n
// changes are about to be written. Only the committer calls it, in its turn.
func (e *events) wanted(n int) bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.writing = uint64(n)
	if e.ring != nil && e.feeds == 0 && time.Since(e.quiet) > e.linger {
		e.ring = nil
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
	if !t.whole || e.ring == nil {
		e.next += uint64(t.n)
		e.first = e.next
	} else {
		for _, ev := range t.events {
			ev.Seq = e.next
			e.ring[e.next%e.size] = ev
			e.next++
		}
		if e.next-e.first > e.size {
			e.first = e.next - e.size
		}
	}
	e.wakeLocked()
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

// listen begins a feed: from is the number of its first event, and resumed tells
// whether nothing is missing between since and that.
func (e *events) listen(ctx context.Context, since uint64) (from uint64, resumed bool, err error) {
	if from, resumed, ok := e.join(since, nil); ok {
		return from, resumed, nil
	}
	ring := make([]Event, e.size)
	select {
	case e.turn <- struct{}{}:
	case <-ctx.Done():
		return 0, false, ctx.Err()
	}
	defer func() { <-e.turn }()
	from, resumed, _ = e.join(since, ring)
	return from, resumed, nil
}

// join counts a feed in if events are being kept, or begins to keep them in ring.
func (e *events) join(since uint64, ring []Event) (from uint64, resumed, ok bool) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.ring == nil {
		if ring == nil {
			return 0, false, false
		}
		e.ring, e.first = ring, e.next
	}
	e.feeds++
	if since > 0 && since < e.next && since+1 >= e.first {
		return since + 1, true, true
	}
	return e.next, false, true
}

// leave counts a feed out.
func (e *events) leave() {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.feeds--
	if e.feeds == 0 {
		e.quiet = time.Now()
	}
}

// last returns the number of the last event; if there was none yet, one that is
// behind those of all earlier processes.
func (e *events) last() uint64 {
	e.mu.Lock()
	defer e.mu.Unlock()
	return e.next - 1
}

// seen returns the number of the last event whose change the metadata store may
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
