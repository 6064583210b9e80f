// SPDX-License-Identifier: Apache-2.0

package slab

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"sync"
	"sync/atomic"

	"github.com/rawblockd/rawblockd/ioengine"
)

// Options of Open. Nothing is guessed: the device's label decides the geometry.
type Options struct {
	Name        string // as configured; empty: the label's
	SlotSize    int64  // 0: the label's; else it must be the label's
	VerifyOff   bool   // loads are not hashed; stores still are
	IOSize      int64  // the I/O split, a multiple of 1 MiB; 0: 1 MiB
	BounceBytes int64  // memory for headers, partial blocks and misaligned callers; 0: 64 MiB, at least 8 MiB
	Log         *slog.Logger
}

const (
	defaultBounce = 64 << 20
	minBounce     = 8 << 20
)

// Slab is one open device. It owns neither the device nor the engine.
type Slab struct {
	dev  ioengine.Device
	eng  ioengine.Engine
	log  *slog.Logger
	name string
	geo  Label // geometry and identity; its mount fields are those of Open

	device string // its path
	absent error  // why there is none: then dev, eng and the arenas are nil

	align     int64 // of the device's memory transfers
	blk       int64 // of the device
	ioSize    int64
	verifyOff bool

	bounce *ioengine.Arena // see "Concurrency": who may wait for which
	heads  *ioengine.Arena

	states   *slots
	flusher  flusher
	life     life
	readOnly atomic.Pointer[string] // why; set once
	label    labelState
}

// Open reads the label of dev and returns its slab. Every slot starts Unknown: the
// caller restores what its rows know, quarantines, and calls Ready.
func Open(dev ioengine.Device, eng ioengine.Engine, o Options) (*Slab, error) {
	l, raw, copies, err := loadLabel(dev)
	if errors.Is(err, ErrNoLabel) && holdsAny(dev.Geometry()) {
		return nil, fmt.Errorf("open %s: %w; if this is the right device, run: %s", title(o.Name), err, initCommand(dev, o.SlotSize))
	}
	if err != nil {
		return nil, fmt.Errorf("open %s: %w", title(o.Name), err)
	}
	if err := o.complete(&l, dev.Path()); err != nil {
		return nil, err
	}
	s := &Slab{
		dev: dev, eng: eng, log: o.Log, name: o.Name, geo: l, device: dev.Path(),
		align: max(int64(dev.Geometry().MemAlign), 1), blk: int64(dev.Geometry().Block),
		ioSize: o.IOSize, verifyOff: o.VerifyOff,
		states: newSlots(l.SlotCount), life: life{idle: make(chan struct{})},
	}
	s.flusher.init()
	s.label.init(l, raw)
	if s.heads, err = ioengine.NewArena(o.BounceBytes / 4); err != nil {
		return nil, fmt.Errorf("open %s: bounce memory: %w", title(s.name), err)
	}
	if s.bounce, err = ioengine.NewArena(o.BounceBytes - o.BounceBytes/4); err != nil {
		return nil, errors.Join(fmt.Errorf("open %s: bounce memory: %w", title(s.name), err), s.heads.Close())
	}
	s.reportCopies(copies)
	if unknown := l.ROCompat &^ knownROCompat; unknown != 0 {
		s.setReadOnly(fmt.Sprintf("label has unknown ro_compat feature %s", bitNames(unknown)))
	}
	return s, nil
}

// complete checks the options against the label and fills in defaults.
func (o *Options) complete(l *Label, device string) error {
	if o.Name == "" {
		o.Name = l.Name
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	if o.SlotSize != 0 && o.SlotSize != l.SlotSize {
		return fmt.Errorf("open %s: %w: slot_size is %s in the configuration, but %s on the label of %s; nothing was written. Set slot_size: %s, or lose all its data with: rawblockd init %s --slot-size %s --wipe",
			title(o.Name), ErrGeometry, human(o.SlotSize), human(l.SlotSize), device, sizeFlag(l.SlotSize), quote(device), sizeFlag(o.SlotSize))
	}
	if o.IOSize == 0 {
		o.IOSize = ioengine.PieceSize
	}
	if o.IOSize < 0 || o.IOSize%ioengine.PieceSize != 0 {
		return fmt.Errorf("open %s: I/O size %s is no multiple of 1 MiB", title(o.Name), human(o.IOSize))
	}
	if o.BounceBytes == 0 {
		o.BounceBytes = defaultBounce
	}
	if o.BounceBytes < minBounce {
		return fmt.Errorf("open %s: bounce memory of %s, at least %s is needed", title(o.Name), human(o.BounceBytes), human(minBounce))
	}
	return nil
}

// reportCopies says which label copies were bad; the next mount rewrites them.
func (s *Slab) reportCopies(copies []Copy) {
	for _, c := range copies {
		switch {
		case c.Err != nil:
			s.log.Warn("label copy is bad, the next mount rewrites it", "slab", s.name, "device", s.dev.Path(), "offset", c.Off, "error", c.Err)
		case c.Label.Incarnation != s.geo.Incarnation:
			s.log.Warn("label copy of another incarnation ignored, the next mount rewrites it", "slab", s.name, "device", s.dev.Path(),
				"offset", c.Off, "incarnation", UUID(c.Label.Incarnation), "epoch", c.Label.Epoch)
		}
	}
}

// Label returns the label as last written or read.
func (s *Slab) Label() Label { return s.label.get() }

// Name returns the configured name.
func (s *Slab) Name() string { return s.name }

// Device returns the path of the device.
func (s *Slab) Device() string { return s.device }

// Geometry returns what the device says about itself.
func (s *Slab) Geometry() ioengine.Geometry {
	if s.absent != nil {
		return ioengine.Geometry{}
	}
	return s.dev.Geometry()
}

// EngineStats returns a snapshot of the engine's counters.
func (s *Slab) EngineStats() ioengine.Stats {
	if s.absent != nil {
		return ioengine.Stats{}
	}
	return s.eng.Stats()
}

// SlotSize returns the payload bytes of one slot.
func (s *Slab) SlotSize() int64 { return s.geo.SlotSize }

// SlotCount returns the number of slots in any state.
func (s *Slab) SlotCount() uint32 { return s.geo.SlotCount }

// SlotsFor returns how many slots a payload of length bytes occupies.
func (s *Slab) SlotsFor(length int64) int {
	if length <= 0 {
		return 0
	}
	return int((length-1)/s.geo.SlotSize) + 1
}

// OpsFor returns how many transfers a payload of length bytes is read by. A write
// has at most one more.
func (s *Slab) OpsFor(length int64) int { return s.countSpans(length, s.ioSize, 0) }

// VerifyOff reports whether loads go unverified.
func (s *Slab) VerifyOff() bool { return s.verifyOff }

// ReadOnly reports whether, and why, the slab takes no more writes.
func (s *Slab) ReadOnly() (reason string, ro bool) {
	if r := s.readOnly.Load(); r != nil {
		return *r, true
	}
	return "", false
}

// setReadOnly is for good; the first reason stays.
func (s *Slab) setReadOnly(reason string) {
	if s.readOnly.CompareAndSwap(nil, &reason) {
		s.log.Error("slab is read-only", "slab", s.name, "device", s.dev.Path(), "reason", reason)
	}
}

// ServeOnly makes the slab read-only for good: its owner has found that it cannot be
// written.
func (s *Slab) ServeOnly(reason string) { s.setReadOnly(reason) }

// readOnlyErr returns ErrReadOnly with its reason, or nil.
func (s *Slab) readOnlyErr() error {
	if reason, ro := s.ReadOnly(); ro {
		return fmt.Errorf("%s: %w: %s", title(s.name), ErrReadOnly, reason)
	}
	return nil
}

// Restore marks slots as Used while the caller scans its rows. It is all or
// nothing: ErrOutOfRange or ErrTaken (two rows share a slot) name the first slot
// that does not fit.
func (s *Slab) Restore(used []uint32) error {
	if err := s.states.restore(used); err != nil {
		return fmt.Errorf("%s: restore: %w", title(s.name), err)
	}
	return nil
}

// Ready ends the restore: what nobody claimed is free.
func (s *Slab) Ready() { s.states.ready() }

// Reserve takes n free slots, neighbours where it can, all or none. A read-only
// slab has none to give.
func (s *Slab) Reserve(n int) ([]uint32, bool) {
	if _, ro := s.ReadOnly(); ro {
		return nil, false
	}
	return s.states.reserve(n)
}

// Move books slots over, in one lock section. It panics on what the diagram at
// State forbids.
func (s *Slab) Move(slots []uint32, from, to State) { s.states.move(slots, from, to) }

// Quarantine takes slots out of use, whatever their state.
func (s *Slab) Quarantine(slots []uint32) { s.states.quarantine(slots) }

// State returns the state of one slot.
func (s *Slab) State(slot uint32) State { return s.states.get(slot) }

// States copies the states of the slots from the given one on into dst and returns
// how many there were.
func (s *Slab) States(from uint32, dst []State) int { return s.states.copy(from, dst) }

// Counts returns the number of slots in each state.
func (s *Slab) Counts() Counts { return s.states.snapshot() }

// ReadHeader reads the header of one slot. A slot never written since init has
// ErrNoHeader, or ErrForeign together with the header of an earlier incarnation.
func (s *Slab) ReadHeader(slot uint32) (Header, error) {
	if err := s.enter(); err != nil {
		return Header{}, err
	}
	defer s.life.leave()
	if slot >= s.geo.SlotCount {
		return Header{}, fmt.Errorf("%s: slot %d of %d: %w", title(s.name), slot, s.geo.SlotCount, ErrOutOfRange)
	}
	buf, err := s.bounce.Get(context.Background(), HeaderSize)
	if err != nil {
		return Header{}, fmt.Errorf("%s: memory for a header: %w", title(s.name), err)
	}
	defer buf.Release()
	op := ioengine.Op{Off: s.geo.payloadOffset(slot) - HeaderSize, Vec: buf.Chunks()}
	if r := ioengine.Do(context.Background(), s.eng, []ioengine.Op{op})[0]; r.Err != nil {
		return Header{}, s.ioError(&op, slot, r.Err)
	}
	h, err := DecodeHeader(buf.Chunks()[0])
	if err != nil {
		return h, fmt.Errorf("%s: slot %d: %w", title(s.name), slot, err)
	}
	if h.Slot != slot || h.Incarnation != s.geo.Incarnation {
		return h, fmt.Errorf("%s: slot %d: %w: slot %d of %s", title(s.name), slot, ErrForeign, h.Slot, UUID(h.Incarnation))
	}
	return h, nil
}

// ioError names a failed op.
func (s *Slab) ioError(op *ioengine.Op, slot uint32, err error) error {
	return &IOError{Dir: op.Dir, Device: s.dev.Path(), Slot: slot, Off: op.Off, Len: op.Len(), Err: err}
}

// Close refuses new I/O and waits for what is under way. The engine and the device
// stay open; they are the caller's.
func (s *Slab) Close() error {
	if !s.life.close() {
		return fmt.Errorf("%s: %w", title(s.name), ErrClosed)
	}
	if s.absent != nil {
		return nil
	}
	if err := errors.Join(s.bounce.Close(), s.heads.Close()); err != nil {
		return fmt.Errorf("close %s: %w", title(s.name), err)
	}
	return nil
}

// life counts the calls that use the engine or an arena.
type life struct {
	mu     sync.Mutex
	closed bool // +checklocks:mu
	calls  int  // +checklocks:mu

	idle chan struct{} // closed when closed and no call is left
}

// enter reports false after close; else leave must follow.
func (l *life) enter() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.calls++
	return true
}

func (l *life) leave() {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.calls--; l.calls < 0 {
		panic("slab: more calls ended than began")
	}
	if l.closed && l.calls == 0 {
		close(l.idle)
	}
}

// close waits until the last call left; only the first one reports true.
func (l *life) close() bool {
	if !l.shut() {
		return false
	}
	<-l.idle
	return true
}

func (l *life) shut() bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.closed {
		return false
	}
	l.closed = true
	if l.calls == 0 {
		close(l.idle)
	}
	return true
}
