// SPDX-License-Identifier: Apache-2.0

package store

import (
	"container/heap"
	"context"
	"fmt"
	"time"
)

// LeaseByID returns a lease in force. ErrNoLease if there is none of that id:
// it was given back, has ended, or never was.
func (s *Store) LeaseByID(leaseID string) (Lease, error) {
	now := s.o.Now()
	h := s.lock(lockReport)
	defer s.unlock(h)
	l, err := s.leaseLocked(leaseID, now)
	if err != nil {
		return Lease{}, err
	}
	return *l.view(), nil
}

// Renew makes a lease end ttl from now, be that later or sooner than it would
// have. 0 is the time that the lease was given last; above Options.MaxTTL it is
// MaxTTL. ErrNoLease for a lease that has ended, also if nobody has swept it
// yet: what it protected may be gone by the time of the answer. A context that
// has ended changes nothing.
func (s *Store) Renew(ctx context.Context, leaseID string, ttl time.Duration) (Lease, error) {
	if err := s.begin(); err != nil {
		return Lease{}, err
	}
	defer s.work.Done()
	if err := ctx.Err(); err != nil {
		return Lease{}, err
	}
	now := s.o.Now()
	h := s.lock(lockRenew)
	l, err := s.leaseLocked(leaseID, now)
	if err != nil {
		s.unlock(h)
		return Lease{}, err
	}
	if ttl > 0 {
		l.ttl = min(ttl, s.o.MaxTTL)
	}
	l.expires = now.Add(l.ttl)
	heap.Fix(&s.leases.due, l.place)
	view := *l.view()
	s.unlock(h)
	s.nudge() // it may end sooner than the sweeper thinks
	return view, nil
}

// Release gives back all pins of a lease, in whatever namespace, and ends it.
// Stale counts pins whose entry had been removed by force. ErrNoLease if there
// is no such lease, so for the second of two releases.
func (s *Store) Release(leaseID string) (released, stale int, err error) {
	if err := s.begin(); err != nil {
		return 0, 0, err
	}
	defer s.work.Done()
	now := s.o.Now()
	h := s.lock(lockUnpin)
	defer s.unlock(h)
	l, err := s.leaseLocked(leaseID, now)
	if err != nil {
		return 0, 0, err
	}
	released, stale = s.endLeaseLocked(l)
	s.metrics.stalePins.Add(float64(stale))
	return released, stale, nil
}

// leaseLocked finds a lease that has not ended at the given time.
// +checklocks:s.mu
func (s *Store) leaseLocked(leaseID string, now time.Time) (*lease, error) {
	l := s.leases.byID[leaseID]
	if l == nil || !l.expires.After(now) {
		return nil, fmt.Errorf("%w %q", ErrNoLease, leaseID)
	}
	return l, nil
}
