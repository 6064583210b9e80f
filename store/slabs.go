// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
	"strings"

	"github.com/rawblockd/rawblockd/slab"
)

// MapPinned is the bit of a SlabMap that says that a lease protects the slot's
// entry; the others are its slab.State.
const MapPinned = 0x80

// slabNamed returns the volume of a slab, or ErrSlab.
func (s *Store) slabNamed(name string) (*volume, error) {
	for _, v := range s.volumes {
		if v.slab.Name() == name {
			return v, nil
		}
	}
	return nil, fmt.Errorf("%w %q: configured are %s", ErrSlab, name, strings.Join(s.slabNames(), ", "))
}

// Drain keeps new stores away from a slab, which goes on serving what it has.
// Stores that have slots of it already end as they would. It holds until Resume,
// or until the next start: what must hold longer belongs in the configuration.
// ErrSlab for an unknown name; *SlabError for a slab without a device, which takes no
// stores and cannot be drained of any.
func (s *Store) Drain(ctx context.Context, name string) error { return s.setDrain(ctx, name, true) }

// Resume ends a Drain. That there was none is no error.
func (s *Store) Resume(ctx context.Context, name string) error { return s.setDrain(ctx, name, false) }

func (s *Store) setDrain(ctx context.Context, name string, draining bool) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	v, err := s.slabNamed(name)
	if err != nil {
		return err
	}
	if v.slab.Absent() != nil {
		return v.refuses()
	}
	v.say(func(c *condition) { c.draining = draining })
	return nil
}

// SlabMap returns a byte for each of the n slots of a slab from one on, or of as many
// as there are: its slab.State, and MapPinned. States of slots far apart are from
// moments that differ a little. ErrSlab for an unknown name.
func (s *Store) SlabMap(name string, from, n uint32) ([]byte, error) {
	v, err := s.slabNamed(name)
	if err != nil {
		return nil, err
	}
	total := v.slab.SlotCount()
	from = min(from, total)
	states := make([]slab.State, min(n, total-from))
	out := make([]byte, v.slab.States(from, states))
	for i := range out {
		out[i] = byte(states[i])
	}
	to := from + uint32(len(out))
	for h := v.base; h < v.end() && from < to; h += chunk {
		if !s.markPinned(v, h, min(h+chunk, v.end()), from, out) {
			break
		}
	}
	return out, nil
}

// markPinned marks the slots of pinned entries with heads in [head, end), as far as
// they are in out, which begins with slot from; false if nothing at all is pinned.
func (s *Store) markPinned(v *volume, head, end id, from uint32, out []byte) bool {
	h := s.lock(lockReport)
	defer s.unlock(h)
	if s.pins == 0 {
		return false
	}
	for ; head < end; head++ {
		if s.x.pins[head] == 0 || s.x.life[head] != live {
			continue
		}
		for c := head; c != none; c = s.x.next[c] {
			if at := int64(c) - int64(v.base) - int64(from); at >= 0 && at < int64(len(out)) {
				out[at] |= MapPinned
			}
		}
	}
	return true
}
