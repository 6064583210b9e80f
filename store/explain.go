// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
	"time"
)

// Explanation says what became of a key, as far as this process knows.
type Explanation struct {
	Status Status // what a lookup answers
	Reason Reason // never Forced, Cleared, Replaced or IOError: Detail tells those apart
	Detail string // a sentence; not where the entry lies
	Err    error  // why it cannot be served, if the slab says so; not in Detail
	At     int64  // unix ms: when it came to be so; 0: not known

	// Of an entry that is in the index, be it expired or out of reach.
	Slab       string
	Slot       uint32 // head slot, within its slab; of no meaning without a slab
	Bytes      int64  // payload length
	SlotBytes  int64
	Generation uint64
	StoredAt   int64 // unix ms; 0: its row is not written yet, or cannot be read
	ExpiresAt  int64 // unix ms; 0: never
	Pinned     bool
}

// Explain tells why a key is there or not. Like a lookup it may see what is not
// durable yet, and promises nothing across a crash. ErrInvalidKey for what is no
// key.
//
// Keys that left are remembered up to a number, and none from before the start of
// this process. NeverStored is said only while nothing was forgotten, and means
// since the start; after that it is Unknown.
func (s *Store) Explain(ctx context.Context, ns, key string) (Explanation, error) {
	sp, err := s.enter(ns)
	if err != nil {
		return Explanation{}, err
	}
	defer s.work.Done()
	if err := CheckKey(key); err != nil {
		return Explanation{}, err
	}
	d := s.hash.of(sp.salt, key)
	now := s.nowMS()
	h := s.lockIn(ctx, lockExplain)
	res := s.hitLocked(d, true, now)
	e := Explanation{Status: res.Status}
	head, found := s.x.find(d)
	if found {
		s.describeLocked(&e, head)
	}
	_, storing := s.claims[d]
	s.unlock(h)
	switch {
	case found:
		s.explainEntry(&e, res, head, now)
	case storing:
		e.Reason, e.Detail = ReasonStoring, "a batch is storing it now; it is there when that batch has been published"
	default:
		s.explainMiss(&e, d)
	}
	return e, nil
}

// describeLocked notes what the index knows of an entry.
// +checklocks:s.mu
func (s *Store) describeLocked(e *Explanation, h id) {
	v := s.volumes[s.volumeOf(h)]
	e.Slab, e.Slot = v.slab.Name(), h-v.base
	e.Bytes, e.SlotBytes = int64(s.x.length[h]), s.sizeLocked(h)
	e.Generation, e.ExpiresAt, e.Pinned = s.x.gen[h], s.x.expiry[h], s.x.pins[h] > 0
}

// explainEntry explains a key that is in the index.
func (s *Store) explainEntry(e *Explanation, res KeyResult, head id, now int64) {
	inc, slot := s.rowKey(head)
	if row, ok, err := s.o.Meta.Get(inc, slot); err == nil && ok && row.Gen == e.Generation {
		e.StoredAt = row.StoredAt
	}
	switch res.Status {
	case Expired:
		e.Reason, e.At = ReasonExpired, e.ExpiresAt
		e.Detail = "its time to live ended at " + stamp(e.ExpiresAt) + "; it counts as absent and is about to be removed"
	case OK:
		e.Reason, e.At = ReasonStored, e.StoredAt
		e.Detail = fmt.Sprintf("it is stored: %d bytes", e.Bytes)
		switch {
		case e.ExpiresAt == 0:
		case e.ExpiresAt <= now:
			e.Detail += "; its time to live ended at " + stamp(e.ExpiresAt) + ", a lease keeps it"
		default:
			e.Detail += "; it expires at " + stamp(e.ExpiresAt)
		}
	default:
		e.Reason, e.Detail = ReasonUnavailable, "it is stored but cannot be served now"
		e.Err = res.Err
	}
}

// explainMiss explains a key that is not in the index.
func (s *Store) explainMiss(e *Explanation, d digest) {
	why, at := s.past.of(d)
	e.Reason, e.At = why.miss(), at
	since := " since this process started at " + stamp(s.started.UnixMilli())
	switch why {
	case ReasonNeverStored:
		e.Detail = "nothing was stored under this key" + since + "; keys that left before that are not remembered"
		return
	case ReasonUnknown:
		e.Detail = fmt.Sprintf("it is not stored; only the last %d keys that left%s are remembered, and more have: it may never have been stored, or it left before those", s.past.size, since)
		return
	case ReasonUnavailable:
		e.Detail = "a change of this key could not be made durable because the metadata store failed; what is true shows after a restart"
		return
	}
	e.Detail = map[Reason]string{
		ReasonEvicted: "it was evicted to make room for others",
		ReasonExpired: "its time to live was over and it was removed",
		ReasonRemoved: "a request removed it",
		ReasonForced:  "a request removed it by force, although leases protected it",
		ReasonCleared: "it was removed when its namespace was cleared",
		ReasonCorrupt: "its bytes did not match their checksum and it was dropped",
		ReasonIOError: "the device could not read it and it was dropped",
	}[why] + ", at " + stamp(at)
}

// stamp is a time of day for sentences.
func stamp(ms int64) string { return time.UnixMilli(ms).UTC().Format("2006-01-02T15:04:05.000Z") }
