// SPDX-License-Identifier: Apache-2.0

package slab

import (
	"fmt"
	"sync"

	"github.com/rawblockd/rawblockd/freelist"
)

// State is where a slot stands in its life.
//
//	Unknown ──Restore──▶ Used          Unknown ──Ready──▶ Free
//
//	Free ──▶ Reserved ──▶ Used ──▶ Deleting ──▶ Retired ──▶ Free
//	            │                      │
//	            └──────▶ Free          └──────▶ Free
//
//	any ──▶ Quarantined
type State uint8

// The states. Unknown exists only between Open and Ready.
const (
	Unknown State = iota
	Free
	Reserved // a store owns it; nobody else knows it
	Used     // an entry owns it
	Deleting // taken out of the index, the delete is not durable yet
	Retired  // durably removed, still referenced by I/O
	Quarantined

	states
)

// String returns the lower-case word used in metrics and messages.
func (s State) String() string {
	names := [states]string{"unknown", "free", "reserved", "used", "deleting", "retired", "quarantined"}
	if s >= states {
		return fmt.Sprintf("state(%d)", uint8(s))
	}
	return names[s]
}

// allowed is the diagram above but for Unknown, which only Restore and Ready leave.
func allowed(from, to State) bool {
	switch from {
	case Unknown:
		return to == Quarantined
	case Free:
		return to == Reserved || to == Quarantined
	case Reserved:
		return to == Used || to == Free || to == Quarantined
	case Used:
		return to == Deleting || to == Quarantined
	case Deleting:
		return to == Retired || to == Free || to == Quarantined
	case Retired:
		return to == Free || to == Quarantined
	case Quarantined:
		return to == Quarantined
	}
	return false
}

// Counts says how many slots are in each state. The fields add up to Total.
type Counts struct {
	Unknown, Free, Reserved, Used, Deleting, Retired, Quarantined uint32

	Total uint32
}

// slots holds the state of every slot and the free list derived from it.
type slots struct {
	mu     sync.Mutex
	state  []State        // +checklocks:mu
	counts [states]uint32 // +checklocks:mu
	free   *freelist.List // +checklocks:mu
}

func newSlots(total uint32) *slots {
	s := &slots{state: make([]State, total), free: freelist.New(total)}
	s.counts[Unknown] = total
	return s
}

// setLocked books one slot over; the caller has checked that it may.
//
// +checklocks:s.mu
func (s *slots) setLocked(slot uint32, to State) {
	s.counts[s.state[slot]]--
	s.counts[to]++
	s.state[slot] = to
}

// mustLocked panics unless slot is in from and may go to to.
//
// +checklocks:s.mu
func (s *slots) mustLocked(slot uint32, from, to State) {
	if int64(slot) >= int64(len(s.state)) {
		panic(fmt.Sprintf("slab: slot %d of %d moves from %s to %s", slot, len(s.state), from, to))
	}
	if have := s.state[slot]; have != from || !allowed(from, to) {
		panic(fmt.Sprintf("slab: slot %d is %s, asked to move from %s to %s", slot, have, from, to))
	}
}

// restore marks slots Used, all or none.
func (s *slots) restore(used []uint32) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i, slot := range used {
		err := s.restoreLocked(slot)
		if err == nil {
			continue
		}
		for _, undo := range used[:i] {
			s.setLocked(undo, Unknown)
		}
		return err
	}
	return nil
}

// +checklocks:s.mu
func (s *slots) restoreLocked(slot uint32) error {
	if int64(slot) >= int64(len(s.state)) {
		return fmt.Errorf("slot %d of %d: %w", slot, len(s.state), ErrOutOfRange)
	}
	if have := s.state[slot]; have != Unknown {
		return fmt.Errorf("slot %d (%s): %w", slot, have, ErrTaken)
	}
	s.setLocked(slot, Used)
	return nil
}

// ready frees what is still Unknown.
func (s *slots) ready() {
	s.mu.Lock()
	defer s.mu.Unlock()
	free := make([]uint32, 0, s.counts[Unknown])
	for i, st := range s.state {
		if st == Unknown {
			free = append(free, uint32(i))
			s.setLocked(uint32(i), Free)
		}
	}
	s.free.Free(free)
}

func (s *slots) reserve(n int) ([]uint32, bool) {
	if n <= 0 {
		return nil, n == 0
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	if n > s.free.Len() {
		return nil, false
	}
	got, ok := s.free.Alloc(n, make([]uint32, 0, n))
	if !ok {
		return nil, false
	}
	for _, slot := range got {
		s.mustLocked(slot, Free, Reserved)
		s.setLocked(slot, Reserved)
	}
	return got, true
}

func (s *slots) move(list []uint32, from, to State) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, slot := range list {
		s.mustLocked(slot, from, to)
		if from == Free {
			s.takeLocked(slot)
		}
		s.setLocked(slot, to)
	}
	if to == Free {
		s.free.Free(list)
	}
}

func (s *slots) quarantine(list []uint32) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, slot := range list {
		if int64(slot) >= int64(len(s.state)) {
			panic(fmt.Sprintf("slab: slot %d of %d goes into quarantine", slot, len(s.state)))
		}
		if s.state[slot] == Free {
			s.takeLocked(slot)
		}
		s.setLocked(slot, Quarantined)
	}
}

// takeLocked keeps list and states in step when a free slot leaves by number.
//
// +checklocks:s.mu
func (s *slots) takeLocked(slot uint32) {
	if !s.free.Take(slot) {
		panic(fmt.Sprintf("slab: slot %d is free, but not on the free list", slot))
	}
}

// mustWritable panics if a write would touch a slot that no store owns: at that
// point somebody's bytes are about to be lost. Quarantined slots may be written by
// the test that decides whether they come back.
func (s *slots) mustWritable(reqs []WriteReq) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for i := range reqs {
		for _, slot := range reqs[i].Slots {
			if int64(slot) >= int64(len(s.state)) {
				continue // answered with ErrShape
			}
			if st := s.state[slot]; st != Reserved && st != Quarantined {
				panic(fmt.Sprintf("slab: write to slot %d, which is %s", slot, st))
			}
		}
	}
}

func (s *slots) get(slot uint32) State {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.state[slot]
}

func (s *slots) copy(from uint32, dst []State) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	if uint64(from) >= uint64(len(s.state)) {
		return 0
	}
	return copy(dst, s.state[from:])
}

func (s *slots) snapshot() Counts {
	s.mu.Lock()
	defer s.mu.Unlock()
	c := &s.counts
	return Counts{
		Unknown: c[Unknown], Free: c[Free], Reserved: c[Reserved], Used: c[Used],
		Deleting: c[Deleting], Retired: c[Retired], Quarantined: c[Quarantined],
		Total: uint32(len(s.state)),
	}
}
