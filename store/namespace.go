// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"sync/atomic"
)

// space is a namespace at run time. Name, number and salt are for life, the
// settings are replaced as a whole.
type space struct {
	name string
	num  uint16 // the namespace in the index; a later one may have it when this is gone
	salt digest // keeps equal keys of two namespaces apart
	set  atomic.Pointer[settings]

	// waits: an answer about this namespace waits for a sync, because a slab in
	// sync mode is or was one of its slabs, or has held an entry of it since Open.
	// It never goes back: entries stay where they are when the slabs are changed,
	// and so does what was answered about them.
	waits atomic.Bool

	// Guarded by the pin lock. Bytes of slots: used counts from reservation until
	// the slots are free again, pinned is what leases protect.
	used   int64
	pinned int64
	// Of live entries: how many there are, and the bytes of their slots beyond
	// those of their payloads.
	entries int64
	wasted  int64
	// Leases in force; nil for none.
	leases map[*lease]struct{}
	// gone: deleted; nothing may be charged to it any more.
	gone bool
}

// settings returns those in force.
func (sp *space) settings() *settings { return sp.set.Load() }

// use puts settings in force.
func (s *Store) use(sp *space, set *settings) {
	for _, v := range set.volumes {
		if !s.volumes[v].relaxed {
			sp.waits.Store(true)
		}
	}
	sp.set.Store(set)
}

// holds notes that the namespace has an entry on v.
func (sp *space) holds(v *volume) {
	if !v.relaxed && !sp.waits.Load() {
		sp.waits.Store(true)
	}
}

// hereLocked returns why nothing may be done in the namespace any more: it was
// deleted since the request found it. Called under the pin lock.
func (sp *space) hereLocked() error {
	if sp.gone {
		return fmt.Errorf("%w %q: it was deleted meanwhile", ErrNamespace, sp.name)
	}
	return nil
}

// named returns the namespace of a name, served or not, or nil.
func (s *Store) named(name string) *space { return (*s.names.Load())[name] }

// space finds a namespace that is served.
func (s *Store) space(name string) (*space, error) {
	sp := s.named(name)
	if sp == nil || !sp.settings().served {
		return nil, fmt.Errorf("%w %q", ErrNamespace, name)
	}
	return sp, nil
}

// Serves tells whether there is a namespace of this name that is served.
func (s *Store) Serves(name string) bool {
	_, err := s.space(name)
	return err == nil
}

// addSpaces registers namespaces. Only Open and whoever has the turn to change
// namespaces may call it.
func (s *Store) addSpaces(sets map[string]*settings) error {
	names := s.copyNames()
	fresh := make([]*space, 0, len(sets))
	for name, set := range sets {
		sp := s.newSpace(name, set)
		names[name] = sp
		fresh = append(fresh, sp)
	}
	if len(names) > math.MaxUint16 {
		return fmt.Errorf("%d namespaces are more than there can be (%d)", len(names), math.MaxUint16)
	}
	h := s.lock(lockSettings)
	for _, sp := range fresh {
		s.numberLocked(sp)
	}
	s.names.Store(&names)
	s.unlock(h)
	return nil
}

func (s *Store) newSpace(name string, set *settings) *space {
	sp := &space{name: name, salt: digest{rand.Uint64(), rand.Uint64()}}
	s.use(sp, set)
	return sp
}

// numberLocked gives a namespace its number, perhaps that of one that is gone:
// nothing is charged to that any more, so no entry has it.
// +checklocks:s.mu
func (s *Store) numberLocked(sp *space) {
	if n := len(s.vacant); n > 0 {
		sp.num = s.vacant[n-1]
		s.vacant = s.vacant[:n-1]
		s.spaces[sp.num] = sp
		return
	}
	sp.num = uint16(len(s.spaces))
	s.spaces = append(s.spaces, sp)
}

// copyNames returns the table of names, to be changed and stored.
func (s *Store) copyNames() map[string]*space { return maps.Clone(*s.names.Load()) }

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

// pinRoom is what a namespace's leases have of what they may have.
type pinRoom struct {
	pinned, limit int64 // bytes of slots
	leases        int
}

// refusePins explains the answers of hits that could not be pinned.
func refusePins(sp *space, results []KeyResult, room pinRoom) {
	var err error
	for i := range results {
		if results[i].Status != Busy {
			continue
		}
		if err == nil {
			err = fmt.Errorf("%w: leases of namespace %q protect %d bytes of slots, leases.max_pinned allows %d", ErrPinLimit, sp.name, room.pinned, room.limit)
			if room.leases >= mostLeases {
				err = fmt.Errorf("%w: namespace %q has %d leases, the most there may be: give back those that are no longer needed", ErrPinLimit, sp.name, room.leases)
			}
		}
		results[i].Err = err
	}
}

// pinLimit is how many bytes of slots the namespace's leases may protect: a share of
// its slabs, also of those that are away and will be back. Where nothing is known
// of these, its entries are on others.
func (s *Store) pinLimit(sp *space) int64 {
	set := sp.settings()
	total := int64(0)
	for _, v := range set.volumes {
		total += s.volumes[v].bytes()
	}
	if total == 0 {
		for _, v := range s.volumes {
			total += v.bytes()
		}
	}
	if set.quota > 0 && set.quota < total {
		total = set.quota
	}
	return int64(s.o.MaxPinned * float64(total))
}
