// SPDX-License-Identifier: Apache-2.0

package store

import (
	"container/heap"
	"context"
	"crypto/rand"
	"encoding/hex"
	"fmt"
	"maps"
	"slices"
	"sort"
	"time"
)

// LeaseRequest asks for a lease. The owner is a label for people, no authority.
type LeaseRequest struct {
	TTL   time.Duration // 0: the default; above the maximum: the maximum
	Owner string
}

// Lease describes a lease in force. Whoever knows its ID may use it.
type Lease struct {
	ID        string // 128 random bits in hex: never reused, never guessed
	Namespace string
	Owner     string
	TTL       time.Duration
	ExpiresAt time.Time
	Entries   int
}

// pin is one entry that a lease protects. The generation tells it from a later
// entry in the same slot.
type pin struct {
	head id
	gen  uint64
}

type lease struct {
	id      string
	space   *space
	owner   string
	ttl     time.Duration
	expires time.Time
	pins    []pin
	place   int // in the heap; -1: not in it
}

func (l *lease) view() *Lease {
	return &Lease{ID: l.id, Namespace: l.space.name, Owner: l.owner, TTL: l.ttl, ExpiresAt: l.expires, Entries: len(l.pins)}
}

// leaseTable finds leases by id and by expiry.
type leaseTable struct {
	byID map[string]*lease
	due  leaseHeap
}

func newLeaseTable() leaseTable { return leaseTable{byID: map[string]*lease{}} }

// leaseHeap has the lease that ends first on top.
type leaseHeap []*lease

func (h leaseHeap) Len() int           { return len(h) }
func (h leaseHeap) Less(i, j int) bool { return h[i].expires.Before(h[j].expires) }
func (h leaseHeap) Swap(i, j int) {
	h[i], h[j] = h[j], h[i]
	h[i].place, h[j].place = i, j
}

// Push is for container/heap.
func (h *leaseHeap) Push(x any) {
	l := x.(*lease)
	l.place = len(*h)
	*h = append(*h, l)
}

// Pop is for container/heap.
func (h *leaseHeap) Pop() any {
	old := *h
	l := old[len(old)-1]
	old[len(old)-1] = nil
	*h = old[:len(old)-1]
	l.place = -1
	return l
}

// mostLeases is how many leases a namespace may have at once: some 50 MB. One that
// gives none back gets no more pins, and costs the others nothing.
const mostLeases = 65_536

// newLease prepares a lease outside the lock.
func (s *Store) newLease(sp *space, r LeaseRequest, keys int) *lease {
	ttl := r.TTL
	if ttl <= 0 {
		ttl = s.o.DefaultTTL
	}
	ttl = min(ttl, s.o.MaxTTL)
	var raw [16]byte
	rand.Read(raw[:]) // crypto/rand never fails: it ends the process instead
	return &lease{id: hex.EncodeToString(raw[:]), space: sp, owner: r.Owner, ttl: ttl, pins: make([]pin, 0, keys), place: -1}
}

// roomyLease is how many times the memory of its pins a lease may take. It bounds what
// is copied under the lock: a fourth of the most keys of a batch.
const roomyLease = 4

// addLeaseLocked puts a lease in force unless it pins nothing.
// +checklocks:s.mu
func (s *Store) addLeaseLocked(l *lease) *Lease {
	if l == nil || len(l.pins) == 0 {
		return nil
	}
	// There is room in it for all keys that were asked for. A lease on few of many must
	// not keep that for minutes: asked for again and again it would take all memory.
	if len(l.pins) < cap(l.pins)/roomyLease {
		l.pins = slices.Clone(l.pins)
	}
	l.expires = s.o.Now().Add(l.ttl)
	s.leases.byID[l.id] = l
	if l.space.leases == nil {
		l.space.leases = map[*lease]struct{}{}
	}
	l.space.leases[l] = struct{}{}
	heap.Push(&s.leases.due, l)
	return l.view()
}

// noteExpiry tells the sweeper that a lease was made.
func (s *Store) noteExpiry(l *Lease) {
	if l != nil {
		s.nudge()
	}
}

// nudge makes the sweeper look at the clock again.
func (s *Store) nudge() {
	select {
	case s.expire <- struct{}{}:
	default:
	}
}

// pinLocked protects the entry of d; false if the namespace may pin no more, or have
// no more leases.
// +checklocks:s.mu
func (s *Store) pinLocked(l *lease, d digest, limit int64) bool {
	h, ok := s.x.find(d)
	if !ok || s.x.pins[h] == ^uint16(0) || len(l.space.leases) >= mostLeases {
		return false
	}
	if s.x.pins[h] == 0 {
		size := s.sizeLocked(h)
		if l.space.pinned+size > limit {
			return false
		}
		l.space.pinned += size
	}
	s.x.pins[h]++
	s.pins++
	l.pins = append(l.pins, pin{h, s.x.gen[h]})
	return true
}

// unpinLocked takes one pin back; false if it is stale: the entry it protected
// was removed by force, and whatever is in the slot now is none of its business.
// +checklocks:s.mu
func (s *Store) unpinLocked(p pin) bool {
	if s.x.gen[p.head] != p.gen || s.x.life[p.head] != live {
		return false
	}
	if s.x.pins[p.head] == 0 {
		panic("store: a pin was given back twice")
	}
	s.x.pins[p.head]--
	s.pins--
	if s.x.pins[p.head] == 0 {
		s.spaces[s.x.ns[p.head]].pinned -= s.sizeLocked(p.head)
	}
	return true
}

// endLeaseLocked gives back all pins of a lease and forgets it.
// +checklocks:s.mu
func (s *Store) endLeaseLocked(l *lease) (released, stale int) {
	for _, p := range l.pins {
		if s.unpinLocked(p) {
			released++
		} else {
			stale++
		}
	}
	l.pins = nil
	delete(s.leases.byID, l.id)
	delete(l.space.leases, l)
	if l.place >= 0 {
		heap.Remove(&s.leases.due, l.place)
	}
	return released, stale
}

// PinResult answers a pin, one result per key in request order.
type PinResult struct {
	Results []KeyResult
	Lease   *Lease // nil if nothing was pinned
}

// Pin takes a lease on the keys that are stored.
func (s *Store) Pin(ctx context.Context, ns string, keys []string, r LeaseRequest) (PinResult, error) {
	sp, err := s.enter(ns)
	if err != nil {
		return PinResult{}, err
	}
	defer s.work.Done()
	ds, valid := s.digests(sp, keys)
	ls := s.newLease(sp, r, len(keys))
	res := PinResult{Results: make([]KeyResult, len(keys))}
	now := s.nowMS()
	h := s.lockIn(ctx, lockPin)
	limit := s.pinLimit(sp)
	for i := range keys {
		res.Results[i] = s.hitLocked(ds[i], valid[i], now)
		if res.Results[i].Status == OK && !s.pinLocked(ls, ds[i], limit) {
			res.Results[i].Status = Busy
		}
	}
	res.Lease = s.addLeaseLocked(ls)
	room := pinRoom{sp.pinned, limit, len(sp.leases)}
	s.unlock(h)
	refuseKeys(res.Results, keys)
	refusePins(sp, res.Results, room)
	s.noteExpiry(res.Lease)
	s.metrics.countResults("pin", res.Results)
	return res, ctx.Err()
}

// Unpin gives back all pins of a lease, or those on keys; a key that the lease
// does not pin counts for nothing. A pin whose entry was removed by force is
// stale: counted and dropped, and nothing else happens. ErrNoLease if
// the namespace has no such lease.
func (s *Store) Unpin(_ context.Context, ns, leaseID string, keys []string) (released, stale int, err error) {
	sp, err := s.enter(ns)
	if err != nil {
		return 0, 0, err
	}
	defer s.work.Done()
	ds, valid := s.digests(sp, keys)
	wanted := make(map[digest]bool, len(keys))
	for i := range keys {
		wanted[ds[i]] = valid[i]
	}
	h := s.lock(lockUnpin)
	defer s.unlock(h)
	l := s.leases.byID[leaseID]
	if l == nil || l.space != sp {
		return 0, 0, fmt.Errorf("%w %q in namespace %q", ErrNoLease, leaseID, ns)
	}
	if keys == nil {
		released, stale = s.endLeaseLocked(l)
	} else {
		released, stale = s.unpinSomeLocked(l, wanted)
	}
	s.metrics.stalePins.Add(float64(stale))
	return released, stale, nil
}

// unpinSomeLocked gives back the pins of a lease on the keys wanted, and drops
// those that are stale.
// +checklocks:s.mu
func (s *Store) unpinSomeLocked(l *lease, wanted map[digest]bool) (released, stale int) {
	kept := l.pins[:0]
	for _, p := range l.pins {
		switch {
		case s.x.gen[p.head] != p.gen:
			stale++
		case wanted[s.x.digest[p.head]]:
			s.unpinLocked(p)
			released++
		default:
			kept = append(kept, p)
		}
	}
	l.pins = kept
	if len(kept) == 0 {
		s.endLeaseLocked(l)
	}
	return released, stale
}

// leasesOf returns the leases of a namespace, or of all for "".
func (s *Store) leasesOf(ns string) (found []*lease) {
	sp := s.named(ns)
	h := s.lock(lockReport)
	defer s.unlock(h)
	switch {
	case ns == "":
		return slices.AppendSeq(make([]*lease, 0, len(s.leases.byID)), maps.Values(s.leases.byID))
	case sp == nil:
		return nil
	}
	return slices.AppendSeq(make([]*lease, 0, len(sp.leases)), maps.Keys(sp.leases))
}

// Leases lists the leases of a namespace, or of all for "", soonest end first.
func (s *Store) Leases(ns string) []Lease {
	found := s.leasesOf(ns)
	all := make([]Lease, 0, len(found))
	for part := range slices.Chunk(found, hold) {
		h := s.lock(lockReport)
		for _, l := range part {
			if l.pins != nil { // not ended since
				all = append(all, *l.view())
			}
		}
		s.unlock(h)
	}
	sort.Slice(all, func(i, j int) bool {
		a, b := all[i], all[j]
		return a.ExpiresAt.Before(b.ExpiresAt) || a.ExpiresAt.Equal(b.ExpiresAt) && a.ID < b.ID
	})
	return all
}
