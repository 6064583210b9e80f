// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/rawblockd/rawblockd/meta"
)

// snapshotRows is how many rows are read at once for a snapshot, so that no view
// of the metadata store outlives a slow reader.
const snapshotRows = 1024

// snapshotPages is how often that is done for a reader who wants no more than what
// there is, while it finds nothing of its namespace: some milliseconds.
const snapshotPages = 16

// Feed tells one reader what is stored and what changes. Next and Close belong to
// one goroutine.
type Feed struct {
	s    *Store
	nums *numbering

	next   uint64 // position of the first event that was not looked at
	seq    uint64 // number of the last one of the view before that
	synced bool   // EventSynced was told
	target uint64 // it is told after the event at this position
	ended  bool
	closed bool

	// The snapshot, until reading is false.
	reading bool
	vol     int
	slot    uint32
	page    []Event
}

// Events begins a feed of a view. It goes on after the event with number since, which
// a feed of the same view gave, if what follows is still known: if that was a feed of
// this process, the last one of them ended less than a minute ago, and there were not
// too many changes since, whatever of. Otherwise, and for 0, it tells what is there
// first (EventSnapshot).
//
// Then come the changes, in the order of the log. EventSynced stands where the
// reader has been told all that was there, or had changed, when the feed began;
// its number is that of the last change before it. A snapshot is read while
// changes go on, so what comes between the two may repeat what the snapshot
// shows; a reader that applies all in order has, from EventSynced on, exactly the
// keys that were stored after each change. An entry that has expired is among
// them until it is swept.
//
// A change is told once the metadata store has it: durable in sync mode; in
// relaxed mode a crash may undo the last interval. The caller must Close.
func (s *Store) Events(ctx context.Context, v View, since uint64) (*Feed, error) {
	if err := s.begin(); err != nil {
		return nil, err
	}
	defer s.work.Done()
	p, err := s.events.listen(ctx, v, since)
	if err != nil {
		return nil, err
	}
	return &Feed{s: s, nums: p.numbering, next: p.next, seq: p.seq, reading: !p.resumed, target: s.events.last()}, nil
}

// Next returns the next event, and waits for one if there is none. An event that
// is there is returned although ctx has ended; so a context that has ended asks
// for no more than what there is; of a snapshot, than what is found at once, as
// there may be much of others to go through. After ctx's error Next can be called
// again.
// After EventLost it returns io.EOF, and ErrClosed when the store ends.
func (f *Feed) Next(ctx context.Context) (Event, error) {
	patience := 0
	if ctx.Err() != nil {
		patience = snapshotPages
	}
	for ; f.reading; patience-- {
		if len(f.page) > 0 {
			ev := f.page[0]
			f.page = f.page[1:]
			return ev, nil
		}
		if patience <= 0 && ctx.Err() != nil {
			return Event{}, ctx.Err()
		}
		if err := f.read(); err != nil {
			return Event{}, err
		}
	}
	for {
		ev, moved, err := f.take()
		if moved == nil {
			return ev, err
		}
		select {
		case <-moved:
		case <-ctx.Done():
			return Event{}, ctx.Err()
		}
	}
}

// Last returns the number of the last change of the view that there has been: where a
// reader that wants no more than what there is may end.
func (f *Feed) Last() uint64 {
	e := f.s.events
	e.mu.Lock()
	defer e.mu.Unlock()
	if f.nums.over {
		return f.seq
	}
	return e.lastLocked(f.nums)
}

// Seen returns the number after which another feed of the view may go on without
// missing anything: that of the last change that Next has returned, or of the last
// before the feed began. It is 0 while the snapshot is told.
func (f *Feed) Seen() uint64 {
	if f.reading {
		return 0
	}
	return f.seq
}

// Close ends the feed. For a while a new one can go on after its last event.
func (f *Feed) Close() {
	if !f.closed {
		f.closed = true
		f.s.events.leave(f.nums)
	}
}

// take returns the next event that is in the ring, or what to wait for.
func (f *Feed) take() (Event, <-chan struct{}, error) {
	e := f.s.events
	e.mu.Lock()
	defer e.mu.Unlock()
	for steps := 1; ; steps++ {
		switch {
		case f.ended:
			return Event{}, nil, io.EOF
		case f.nums.over || f.next < e.first && !f.skipLocked():
			f.ended = true
			return Event{Kind: EventLost, At: f.s.nowMS()}, nil, nil
		case !f.synced && (f.next > f.target || e.failed && f.next == e.next):
			f.synced = true
			return Event{Seq: f.seq, Kind: EventSynced, At: f.s.nowMS()}, nil, nil
		case f.next < e.next:
			ev := e.ring[f.next%e.size]
			f.next++
			if f.nums.view.has(ev.Namespace) {
				f.seq++
				ev.Seq = f.seq
				return ev, nil, nil
			}
			if steps%e.steps == 0 {
				e.yieldLocked()
			}
		case e.closed:
			return Event{}, nil, ErrClosed
		default:
			e.waited = true
			return Event{}, e.moved, nil
		}
	}
}

// skipLocked goes on behind events that are no longer in the ring, if they were all of
// others: how much these do must not end a feed that has missed nothing.
// +checklocks:f.s.events.mu
func (f *Feed) skipLocked() bool {
	pos, ok := f.s.events.locateLocked(f.nums, f.seq)
	if ok {
		f.next = pos
	}
	return ok
}

// read gets the next rows of the snapshot. What changes while it is read has a
// position behind f.next, for the rows are read later than that was drawn.
func (f *Feed) read() error {
	s := f.s
	if err := s.begin(); err != nil {
		return err
	}
	defer s.work.Done()
	if f.vol == len(s.volumes) {
		f.reading, f.target = false, s.events.seen()
		return nil
	}
	v := s.volumes[f.vol]
	seen, more := 0, false
	f.page = f.page[:0]
	err := s.o.Meta.Scan(v.inc, f.slot, 0, func(head uint32, row meta.Row, rowErr error) bool {
		if seen == snapshotRows {
			f.slot, more = head, true
			return false
		}
		seen++
		if rowErr == nil && f.nums.view.has(row.Namespace) {
			f.page = append(f.page, Event{Kind: EventSnapshot, Namespace: row.Namespace, Key: row.Key, Bytes: int64(row.Len), At: row.StoredAt})
		}
		return true
	})
	switch {
	case errors.Is(err, meta.ErrFailed):
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
		fallthrough
	case err != nil:
		f.page = f.page[:0] // these rows are read again
		return err
	case !more:
		f.vol, f.slot = f.vol+1, 0
	}
	return nil
}
