// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
)

// LookupOptions say what a lookup does beside looking.
type LookupOptions struct {
	Lease  *LeaseRequest // pin the hits in the same lock section
	Prefix bool          // stop at the first miss: later keys are answered missing unseen, with an error that says so, and are neither pinned nor counted
}

// LookupResult answers a lookup, one result per key in request order.
type LookupResult struct {
	Results    []KeyResult
	Hits       int
	PrefixHits int    // length of the leading run of hits: all that a prefix cache can use
	Lease      *Lease // nil if none was asked for or nothing was pinned
}

// errUnseen goes with what a prefix lookup answers behind its end.
var errUnseen = errors.New("not looked at: an earlier key is missing")

// Lookup tells which keys are stored. It may see entries that are not yet
// durable and promises nothing across a crash. A key whose slab is offline or
// missing is Unavailable, and no hit. With a lease, a hit beyond the
// namespace's share of pinned bytes is answered Busy and is not pinned.
func (s *Store) Lookup(ctx context.Context, ns string, keys []string, o LookupOptions) (LookupResult, error) {
	sp, err := s.enter(ns)
	if err != nil {
		return LookupResult{}, err
	}
	defer s.work.Done()
	ds, valid := s.digests(sp, keys)
	r := LookupResult{Results: make([]KeyResult, len(keys))}
	var ls *lease
	if o.Lease != nil {
		ls = s.newLease(sp, *o.Lease, len(keys))
	}
	now := s.nowMS()
	run, looked := true, len(keys)
	h := s.lockIn(ctx, lockLookup)
	limit := s.pinLimit(sp)
	for i := range keys {
		res := &r.Results[i]
		*res = s.hitLocked(ds[i], valid[i], now)
		if res.Status == OK && ls != nil && !s.pinLocked(ls, ds[i], limit) {
			res.Status = Busy
		}
		if res.Status != OK {
			run = false
			if o.Prefix {
				looked = i + 1
				break
			}
			continue
		}
		r.Hits++
		if run {
			r.PrefixHits++
		}
	}
	r.Lease = s.addLeaseLocked(ls)
	room := pinRoom{sp.pinned, limit, len(sp.leases)}
	s.unlock(h)
	for i := looked; i < len(keys); i++ {
		r.Results[i] = KeyResult{Status: Missing, Err: errUnseen}
	}
	refuseKeys(r.Results, keys)
	refusePins(sp, r.Results, room)
	s.noteExpiry(r.Lease)
	s.metrics.countResults("lookup", r.Results[:looked])
	s.countMisses(looked, func(i int) (Status, digest) { return r.Results[i].Status, ds[i] })
	return r, ctx.Err()
}

// hitLocked looks one digest up.
// +checklocks:s.mu
func (s *Store) hitLocked(d digest, valid bool, now int64) KeyResult {
	if !valid {
		return KeyResult{Status: InvalidKey}
	}
	h, ok := s.x.find(d)
	switch {
	case !ok:
		return KeyResult{Status: Missing}
	case s.x.dead(h, now):
		return KeyResult{Status: Expired}
	}
	if ok, why := s.volumes[s.volumeOf(h)].serves(); !ok {
		return KeyResult{Status: Unavailable, Err: why}
	}
	return KeyResult{Status: OK, Bytes: int64(s.x.length[h]), Gen: s.x.gen[h]}
}

// servesLocked tells whether the slab of the entry at h can be read. An entry on
// another is as good as none to those who load, and may be stored anew.
// +checklocks:s.mu
func (s *Store) servesLocked(h id) bool {
	ok, _ := s.volumes[s.volumeOf(h)].serves()
	return ok
}

// Stored tells whether key is stored, and asserts it: Exists is answered only
// once the entry is durable, as a store of the key would answer. Expired and
// missing keys, and those whose slab cannot be read, are Missing.
func (s *Store) Stored(ctx context.Context, ns, key string) (Status, error) {
	sp, err := s.enter(ns)
	if err != nil {
		return Missing, err
	}
	defer s.work.Done()
	ds, valid := s.digests(sp, []string{key})
	h := s.lock(lockLookup)
	r := s.hitLocked(ds[0], valid[0], s.nowMS())
	pos := s.commits.position()
	s.unlock(h)
	switch {
	case r.Status == InvalidKey:
		return InvalidKey, nil
	case r.Status != OK:
		return Missing, nil
	case s.anySync(sp):
		if err := s.commits.wait(ctx, pos); err != nil {
			return turned(err), nil
		}
	}
	return Exists, nil
}
