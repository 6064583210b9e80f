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

// sweepLeases ends the leases whose time is over, and lets others in on the way.
func (s *Store) sweepLeases() {
	now := s.o.Now()
	for s.sweepSomeLeases(now) {
	}
}

// sweepSomeLeases ends as many as one holding of the pin lock may; false if there are
// no more.
func (s *Store) sweepSomeLeases(now time.Time) bool {
	h := s.lock(lockSweep)
	defer s.unlock(h)
	for pins := 0; len(s.leases.due) > 0 && !s.leases.due[0].expires.After(now); {
		if pins >= 4*hold {
			return true
		}
		released, stale := s.endLeaseLocked(s.leases.due[0])
		pins += released + stale
		s.metrics.leasesExpired.Inc()
		s.metrics.stalePins.Add(float64(stale))
	}
	return false
}

// sweepEntries removes expired entries among the ids of one chunk, and lets others in
// on the way; false if there are none left anywhere.
func (s *Store) sweepEntries(from, to int, nowMS int64, p *pace) bool {
	var last uint64
	for from < to {
		next, pos, any := s.sweepSome(from, to, nowMS)
		if !any {
			return false
		}
		from, last = next, max(last, pos)
	}
	p.sent(last)
	return true
}

// sweepSome removes expired entries among the ids from one on, as many as one holding
// of the pin lock may, and returns where to go on and the position of what it queued; 0:
// nothing. Any is false if no entry at all expires.
func (s *Store) sweepSome(from, to int, nowMS int64) (next int, pos uint64, any bool) {
	room := s.makeRoom(from, to)
	defer s.giveBack(room)
	g := group{at: nowMS, sync: true}
	room.begin(&g)
	h := s.lock(lockSweep)
	defer s.unlock(h)
	if s.x.ttls == 0 {
		return to, 0, false
	}
	for next = from; next < to && !room.full(&g); next++ {
		if s.x.life[next] == live && s.x.dead(id(next), nowMS) {
			s.dropLocked(&g, room.slots, id(next), "", ReasonExpired)
		}
	}
	if n := len(g.deletes); n > 0 {
		s.move(room.slots, slab.Used, slab.Deleting)
		room.keep(&g)
		pos = s.commits.enqueue(g)
		s.metrics.expirations.Add(float64(n))
	}
	return next, pos, true
}
