// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"time"

	"github.com/rawblockd/rawblockd/meta"
	"github.com/rawblockd/rawblockd/slab"
)

// attach makes volumes of the configured slabs and numbers their slots.
// +checklocksignore: nothing runs yet.
func (s *Store) attach() error {
	records, err := s.o.Meta.Slabs()
	switch {
	case errors.Is(err, meta.ErrIncompat):
		return fmt.Errorf("%w: start the release that wrote it", err)
	case err != nil && !errors.Is(err, meta.ErrRow):
		return err
	case err != nil: // the next mount of the slab makes it anew
		s.o.Log.Error("records of slabs cannot be used; without its device nothing is known of such a slab", "error", err)
	}
	s.records = records
	total := uint64(0)
	for _, c := range s.o.Slabs {
		v := s.newVolume(c)
		v.base = id(total)
		for _, w := range s.volumes {
			if w.inc == v.inc && v.inc != (meta.Incarnation{}) {
				return fmt.Errorf("%w: slabs %q and %q have one incarnation %s: one is a copy of the other; detach one", ErrMount, w.slab.Name(), v.slab.Name(), v.inc)
			}
		}
		s.volumes = append(s.volumes, v)
		s.metrics.begin(v.slab.Name())
		total += uint64(v.slab.SlotCount())
	}
	s.bound()
	s.opaque = newOpaque(s.volumes)
	x, err := newIndex(total)
	if err != nil {
		return err
	}
	s.x = x
	return nil
}

// newVolume makes the volume of one configured slab.
func (s *Store) newVolume(c SlabConfig) *volume {
	v := &volume{slab: c.Slab, relaxed: c.Relaxed, dirty: make(chan struct{}, 1), log: s.o.Log, watch: s.watch}
	if c.Slab == nil {
		v.slab = s.missing(c)
	}
	s.metrics.scrubBad.WithLabelValues(v.slab.Name()) // so that the first bad entry shows as an increase
	v.inc = meta.Incarnation(v.slab.Label().Incarnation)
	v.depth = int64(v.slab.EngineStats().Depth)
	v.say(func(now *condition) {
		now.samples = []sample{{at: time.Now()}}
		if c.Slab == nil {
			now.missing, now.advice = c.Missing.Error(), c.Advice
		}
	})
	return v
}

// missing makes a slab of what the metadata says of one whose device could not be
// opened: the last one that was mounted by that name.
func (s *Store) missing(c SlabConfig) *slab.Slab {
	o := slab.AbsentOptions{Name: c.Name, Device: c.Device, Why: c.Missing}
	for _, r := range s.records {
		if r.Name == c.Name && !s.hasDevice(r.Inc) {
			o.Incarnation, o.SlotSize, o.Slots = r.Inc, r.SlotSize, r.Slots
		}
	}
	n, known, err := s.o.Meta.Mount(o.Incarnation)
	if err != nil {
		s.o.Log.Warn("how often a missing slab was mounted cannot be read", "slab", c.Name, "error", err)
	}
	if known {
		o.Mount = n
	}
	sl := slab.Absent(o)
	if sl.SlotCount() == 0 {
		s.o.Log.Error("slab is missing, and the metadata knows none of that name; the others are served",
			"slab", c.Name, "device", c.Device, "reason", c.Missing, "advice", "if the path is wrong, correct slabs.device and restart the daemon")
		return sl
	}
	s.o.Log.Error("slab is missing: its keys are unavailable until the daemon is restarted with it; the others are served",
		"slab", c.Name, "device", c.Device, "incarnation", slab.UUID(o.Incarnation), "reason", c.Missing, "advice", c.Advice)
	return sl
}

// hasDevice tells whether a slab of this incarnation was opened, by whatever name.
func (s *Store) hasDevice(inc meta.Incarnation) bool {
	for _, c := range s.o.Slabs {
		if c.Slab != nil && meta.Incarnation(c.Slab.Label().Incarnation) == inc {
			return true
		}
	}
	return false
}

// bound gives each slab its share of the stream memory, where there are several.
func (s *Store) bound() {
	devices := 0
	for _, v := range s.volumes {
		if v.slab.Absent() == nil {
			devices++
		}
	}
	for _, v := range s.volumes {
		if devices > 1 {
			v.share.bound(s.o.Buffers.Cap(), s.o.MaxPayload)
		}
	}
}

var errNoSlab = errors.New("no slab could be opened")

// checkSlabs tells whether the configured slabs can be opened at all.
func checkSlabs(slabs []SlabConfig) error {
	var missing []error
	for _, c := range slabs {
		switch {
		case c.Slab != nil:
		case c.Missing == nil || c.Name == "":
			return errors.New("store options: a slab without a device needs a name and why")
		default:
			missing = append(missing, fmt.Errorf("slab %q: %w", c.Name, c.Missing))
		}
	}
	switch {
	case len(slabs) == 0:
		return errors.New("store options: no slabs")
	case len(missing) == len(slabs):
		return fmt.Errorf("%w: %w", errNoSlab, severalError(missing))
	}
	return nil
}
