// SPDX-License-Identifier: Apache-2.0

package store

import (
	"time"

	"github.com/rawblockd/rawblockd/slab"
)

const (
	sweepChunk = 16384       // slots looked at in one section of the pin lock
	sweepEvery = time.Second // between looks for expired entries, while there are any with an expiry
)

// sweepLoop ends leases and expired entries. With neither it sleeps.
func (s *Store) sweepLoop() {
	defer s.loops.Done()
	var looked time.Time // when entries were looked through last
	for {
		var due <-chan time.Time
		var timer *time.Timer
		if d, any := s.nextSweep(looked); any {
			timer = time.NewTimer(d)
			due = timer.C
		}
		select {
		case <-s.stop:
			stopTimer(timer)
			return
		case <-s.expire:
			stopTimer(timer)
			// However often this comes, what is due is done.
		case <-due:
		}
		s.sweepLeases()
		if time.Since(looked) >= sweepEvery {
			s.sweepAll()
			looked = time.Now()
		}
	}
}

func stopTimer(t *time.Timer) {
	if t != nil {
		t.Stop()
	}
}

// nextSweep tells how long there is nothing to do, if entries were looked through
// at the given time.
func (s *Store) nextSweep(looked time.Time) (time.Duration, bool) {
	now := s.o.Now()
	h := s.lock(lockSweep)
	defer s.unlock(h)
	d, any := time.Duration(0), false
	if s.x.ttls > 0 {
		d, any = max(sweepEvery-time.Since(looked), 0), true
	}
	if len(s.leases.due) > 0 {
		if until := s.leases.due[0].expires.Sub(now); !any || until < d {
			d, any = max(until, 0), true
		}
	}
	return d, any
}

// sweepAll removes every entry whose time is over.
func (s *Store) sweepAll() {
	now := s.nowMS()
	for from := 0; from < len(s.x.gen); from += sweepChunk {
		if !s.sweepEntries(from, min(from+sweepChunk, len(s.x.gen)), now) {
			return
		}
	}
}

func (s *Store) sweepLeases() {
	now := s.o.Now()
	h := s.lock(lockSweep)
	defer s.unlock(h)
	for len(s.leases.due) > 0 && !s.leases.due[0].expires.After(now) {
		_, stale := s.endLeaseLocked(s.leases.due[0])
		s.metrics.leasesExpired.Inc()
		s.metrics.stalePins.Add(float64(stale))
	}
}

// sweepEntries removes expired entries among the ids of one chunk; false if
// there are none left anywhere.
func (s *Store) sweepEntries(from, to int, nowMS int64) bool {
	slots := s.newSlotLists(0)
	g := group{at: nowMS, sync: true, left: s.spare()}
	h := s.lock(lockSweep)
	defer s.unlock(h)
	if s.x.ttls == 0 {
		s.unused(g.left)
		return false
	}
	for i := from; i < to; i++ {
		if s.x.life[i] == live && s.x.dead(id(i), nowMS) {
			s.dropLocked(&g, slots, id(i), "", ReasonExpired)
		}
	}
	if len(g.deletes) == 0 {
		s.unused(g.left)
		return true
	}
	s.move(slots, slab.Used, slab.Deleting)
	s.commits.enqueue(g)
	s.metrics.expirations.Add(float64(len(g.deletes)))
	return true
}

// spare returns room for the departures of a chunk: they must not be made room
// for under the pin lock, and mostly there are none.
func (s *Store) spare() []departure {
	if p, ok := s.spares.Get().(*[]departure); ok {
		return *p
	}
	return make([]departure, 0, min(sweepChunk, len(s.x.gen)))
}

// unused gives back what spare gave, if there were none.
func (s *Store) unused(room []departure) { s.spares.Put(&room) }
