// SPDX-License-Identifier: Apache-2.0

package slab

import (
	"errors"
	"fmt"
	"log/slog"

	"golang.org/x/sys/unix"

	"github.com/rawblockd/rawblockd/ioengine"
)

// AbsentOptions say what is known of a slab whose device cannot be opened.
type AbsentOptions struct {
	Name, Device string   // as configured
	Incarnation  [16]byte // zero if it is not known
	SlotSize     int64    // bytes; 0 if it is not known
	Slots        uint32   // 0 if that is not known: then it has none
	Mount        uint64   // number of the last mount; 0 if it is not known
	Why          error    // what the device said
}

// Absent returns a slab without its device. Its slots have states, so that what its
// rows use can be counted; it has none to give, and every transfer fails with
// ErrAbsent and why.
func Absent(o AbsentOptions) *Slab {
	if !slotSizeFits(o.SlotSize) {
		o.SlotSize, o.Slots = DefaultSlotSize, 0
	}
	why := o.Why.Error()
	s := &Slab{
		log: slog.New(slog.DiscardHandler), name: o.Name, device: o.Device, absent: o.Why,
		geo:    Label{Incarnation: o.Incarnation, Name: o.Name, SlotSize: o.SlotSize, SlotCount: o.Slots, Mount: o.Mount},
		ioSize: ioengine.PieceSize, states: newSlots(o.Slots), life: life{idle: make(chan struct{})},
	}
	s.flusher.init()
	s.label.init(s.geo, nil)
	s.readOnly.Store(&why)
	return s
}

// Absent returns why the slab has no device; nil if it has.
func (s *Slab) Absent() error { return s.absent }

// enter begins a call that uses the device; leave must follow a nil.
func (s *Slab) enter() error {
	switch {
	case s.absent != nil:
		return fmt.Errorf("%s: %w: %w", title(s.name), ErrAbsent, s.absent)
	case !s.life.enter():
		return fmt.Errorf("%s: %w", title(s.name), ErrClosed)
	}
	return nil
}

// Gone reports whether an error of OpenDevice or Open says that the device is away
// or dead. It then says nothing of what is on it; any other error is about the
// right device or the wrong one.
func Gone(err error) bool {
	for _, judged := range []error{ErrNoLabel, ErrLabel, ErrGeometry, ErrIncompat, ErrRefused, ioengine.ErrHeld} {
		if errors.Is(err, judged) {
			return false
		}
	}
	for _, gone := range []error{unix.ENOENT, unix.ENXIO, unix.ENODEV, unix.ENOMEDIUM, unix.EIO} {
		if errors.Is(err, gone) {
			return true
		}
	}
	return false
}

// Unfit reports whether an error of Open says that the device is there and can serve
// no slab as it is: there is no label on it that can be read, or it is smaller than
// its label says. Only the second, a TruncatedError, tells whose slab it was.
func Unfit(err error) bool {
	var short *TruncatedError
	return errors.Is(err, ErrNoLabel) || errors.Is(err, ErrUnread) || errors.As(err, &short)
}

// CheckLabel reads the label copies from the device, past the engine and its queue,
// and fails unless one of them is this slab's: a sign of life. It waits for as long
// as the device does.
func (s *Slab) CheckLabel() error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.life.leave()
	copies, err := readLabels(s.dev)
	if err != nil {
		return fmt.Errorf("%s: %w", title(s.name), err)
	}
	best, ok := bestLabel(copies)
	switch {
	case !ok:
		return fmt.Errorf("%s on %s: %w", title(s.name), s.Device(), noLabelReason(copies))
	case best.Label.Incarnation != s.geo.Incarnation:
		return fmt.Errorf("%s on %s: %w: the label is of incarnation %s now", title(s.name), s.Device(), ErrGeometry, UUID(best.Label.Incarnation))
	}
	return nil
}
