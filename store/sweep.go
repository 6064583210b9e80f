// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"time"

	"github.com/rawblockd/rawblockd/slab"
)

// sweepEvery is the time between looks for expired entries, while there are any
// with an expiry.
const sweepEvery = time.Second

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

// sweepAll removes every entry whose time is over, unless it is stopped.
func (s *Store) sweepAll() {
	now := s.nowMS()
	var p pace
	for from := 0; from < len(s.x.gen); from += chunk {
		if !s.mayGoOn(&p) || !s.sweepEntries(from, min(from+chunk, len(s.x.gen)), now, &p) {
			return
		}
	}
}

// mayGoOn waits until the next chunk may be swept; false if none may. Leases end
// in time also while the disk lets that wait.
func (s *Store) mayGoOn(p *pace) bool {
	for {
		ctx, cancel := context.WithTimeout(context.Background(), sweepEvery)
		err := p.wait(ctx, s.commits)
		cancel()
		select {
		case <-s.stop:
			return false
		default:
		}
		if !errors.Is(err, ErrOutcomeUnknown) {
			return err == nil
		}
		s.sweepLeases()
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
func (s *Store) sweepEntries(from, to int, nowMS int64, p *pace) bool {
	room := s.roomFor(from, to)
	defer s.giveBack(room)
	g := group{at: nowMS, sync: true}
	room.begin(&g)
	h := s.lock(lockSweep)
	defer s.unlock(h)
	if s.x.ttls == 0 {
		return false
	}
	for i := from; i < to; i++ {
		if s.x.life[i] == live && s.x.dead(id(i), nowMS) {
			s.dropLocked(&g, room.slots, id(i), "", ReasonExpired)
		}
	}
	if n := len(g.deletes); n > 0 {
		s.move(room.slots, slab.Used, slab.Deleting)
		room.keep(&g)
		p.sent(s.commits.enqueue(g))
		s.metrics.expirations.Add(float64(n))
	}
	return true
}
