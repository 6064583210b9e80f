// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"math"
	"math/rand/v2"
	"time"
)

// space is a namespace at run time.
type space struct {
	name       string
	num        uint16
	configured bool // false: known from rows only; not reachable until it is configured
	volumes    []int
	quota      int64
	ttl        time.Duration
	salt       digest // keeps equal keys of two namespaces apart

	// Bytes of slots, guarded by the pin lock: used counts from reservation
	// until the slots are free again, pinned what leases protect.
	used   int64
	pinned int64
	// Of live entries: how many there are, and the bytes of their slots beyond
	// those of their payloads.
	entries int64
	wasted  int64
}

// addSpace registers a namespace; only Open calls it, before anything runs.
func (s *Store) addSpace(n Namespace, configured bool) (*space, error) {
	if len(s.spaces) > math.MaxUint16 {
		return nil, fmt.Errorf("more than %d namespaces", math.MaxUint16)
	}
	if err := CheckKey(n.Name); err != nil {
		return nil, fmt.Errorf("namespace name %q: %w", n.Name, err)
	}
	if s.byName[n.Name] != nil {
		return nil, fmt.Errorf("namespace %q is named twice", n.Name)
	}
	sp := &space{
		name: n.Name, num: uint16(len(s.spaces)), configured: configured, quota: n.Quota, ttl: n.TTL,
		salt: digest{rand.Uint64(), rand.Uint64()},
	}
	for i, v := range s.volumes {
		if len(n.Slabs) == 0 {
			sp.volumes = append(sp.volumes, i)
			continue
		}
		for _, name := range n.Slabs {
			if name == v.slab.Name() {
				sp.volumes = append(sp.volumes, i)
			}
		}
	}
	if len(n.Slabs) > 0 && len(sp.volumes) != len(n.Slabs) {
		return nil, fmt.Errorf("namespace %q: of its slabs %q only %d are open", n.Name, n.Slabs, len(sp.volumes))
	}
	s.spaces = append(s.spaces, sp)
	s.byName[n.Name] = sp
	return sp, nil
}

// space finds a configured namespace.
func (s *Store) space(name string) (*space, error) {
	sp := s.byName[name]
	if sp == nil || !sp.configured {
		return nil, fmt.Errorf("%w %q", ErrNamespace, name)
	}
	return sp, nil
}

// enter begins a request in a namespace. Every success needs a work.Done.
func (s *Store) enter(name string) (*space, error) {
	sp, err := s.space(name)
	if err != nil {
		return nil, err
	}
	return sp, s.begin()
}

// digests hashes keys; a key that CheckKey refuses gets ok false.
func (s *Store) digests(sp *space, keys []string) ([]digest, []bool) {
	ds, ok := make([]digest, len(keys)), make([]bool, len(keys))
	for i, k := range keys {
		if CheckKey(k) == nil {
			ds[i], ok[i] = s.hash.of(sp.salt, k), true
		}
	}
	return ds, ok
}

// refuseKeys explains the answers of invalid keys.
func refuseKeys(results []KeyResult, keys []string) {
	for i := range results {
		if results[i].Status == InvalidKey {
			results[i].Err = CheckKey(keys[i])
		}
	}
}

// refusePins explains the answers of hits that could not be pinned.
func refusePins(sp *space, results []KeyResult, pinned, limit int64) {
	var err error
	for i := range results {
		if results[i].Status != Busy {
			continue
		}
		if err == nil {
			err = fmt.Errorf("%w: leases of namespace %q protect %d bytes of slots, leases.max_pinned allows %d", ErrPinLimit, sp.name, pinned, limit)
		}
		results[i].Err = err
	}
}

// pinLimit is how many bytes of slots the namespace's leases may protect.
func (s *Store) pinLimit(sp *space) int64 {
	total := int64(0)
	for _, v := range sp.volumes {
		sl := s.volumes[v].slab
		total += int64(sl.SlotCount()) * sl.SlotSize()
	}
	if sp.quota > 0 && sp.quota < total {
		total = sp.quota
	}
	return int64(s.o.MaxPinned * float64(total))
}

// place chooses the volumes that could take a payload, best first: the one that
// wastes least, and of equals the one with most free slots.
func (s *Store) place(sp *space, length int64) []int {
	if len(sp.volumes) == 1 {
		return sp.volumes
	}
	order := append([]int(nil), sp.volumes...)
	waste := func(i int) int64 { return s.volumes[i].slotBytes(length) - length }
	free := func(i int) uint32 { return s.volumes[i].slab.Counts().Free }
	for i := 1; i < len(order); i++ { // a handful: insertion sort keeps ties in order
		for j := i; j > 0; j-- {
			a, b := order[j-1], order[j]
			if waste(a) < waste(b) || waste(a) == waste(b) && free(a) >= free(b) {
				break
			}
			order[j-1], order[j] = b, a
		}
	}
	return order
}
