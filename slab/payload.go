// SPDX-License-Identifier: Apache-2.0

package slab

import (
	"fmt"
	"sync"
	"unsafe"

	"github.com/rawblockd/rawblockd/ioengine"
)

// Payload is where the bytes of an entry lie and what they must hash to, captured
// in the lock section that looked the entry up.
type Payload struct {
	Slots []uint32 // ⌈Len ÷ slot size⌉ of them, in order
	Len   int64    // at least 1
	Gen   uint64
	Sum   uint64
	Seed  uint64 // KeySeed of its key
}

// span is the part of a payload that one op moves.
type span struct {
	part int   // which of the payload's slots
	off  int64 // from the start of the payload
	n    int64
}

// spans calls fn for each op of a payload, in order. Cuts are at slot ends and at
// multiples of split, counted from the start of the payload, so that no op covers
// more pieces than it must and every cut but the last is a multiple of 4 KiB. head
// is a cut more, for the first op of a write; 0 for none.
func (s *Slab) spans(length, split, head int64, fn func(span)) {
	slot := s.geo.SlotSize
	for off := int64(0); off < length; {
		part := off / slot
		end := min(length, (part+1)*slot, (off/split+1)*split)
		if off == 0 && head > 0 {
			end = min(end, head)
		}
		fn(span{part: int(part), off: off, n: end - off})
		off = end
	}
}

// countSpans returns how many ops spans makes.
func (s *Slab) countSpans(length, split, head int64) int {
	n := 0
	s.spans(length, split, head, func(span) { n++ })
	return n
}

// payloadAt returns the device offset of a span.
func (s *Slab) payloadAt(slots []uint32, sp span) int64 {
	return s.geo.payloadOffset(slots[sp.part]) + sp.off - int64(sp.part)*s.geo.SlotSize
}

// checkShape compares slots and memory with the length.
func (s *Slab) checkShape(slots []uint32, length int64, mem [][]byte) error {
	if length < 1 {
		return fmt.Errorf("%w: payload of %d bytes", ErrShape, length)
	}
	if length > int64(s.geo.SlotCount)*s.geo.SlotSize {
		return fmt.Errorf("%w: %d bytes are more than all %d slots hold", ErrShape, length, s.geo.SlotCount)
	}
	if want := s.SlotsFor(length); len(slots) != want {
		return fmt.Errorf("%w: %d slots for %d bytes, want %d", ErrShape, len(slots), length, want)
	}
	for _, slot := range slots {
		if slot >= s.geo.SlotCount {
			return fmt.Errorf("%w: slot %d of %d: %w", ErrShape, slot, s.geo.SlotCount, ErrOutOfRange)
		}
	}
	if want := pieces(length); len(mem) != want {
		return fmt.Errorf("%w: %d parts of memory for %d bytes, want %d", ErrShape, len(mem), length, want)
	}
	last := len(mem) - 1
	for i, part := range mem[:last] {
		if len(part) != ioengine.PieceSize {
			return fmt.Errorf("%w: part %d of the memory has %d bytes", ErrShape, i, len(part))
		}
	}
	if tail := length - int64(last)*ioengine.PieceSize; int64(len(mem[last])) < tail {
		return fmt.Errorf("%w: the last part of the memory has %d bytes, want %d", ErrShape, len(mem[last]), tail)
	}
	return nil
}

// aligned reports whether the device can reach the memory directly. Parts of less
// than a block are never used directly; their address does not matter.
func (s *Slab) aligned(mem [][]byte) bool {
	for _, part := range mem {
		if int64(uintptr(unsafe.Pointer(unsafe.SliceData(part))))%s.align != 0 && int64(len(part)) >= s.blk {
			return false
		}
	}
	return true
}

// appendParts appends the parts of memory that hold n payload bytes from off.
func appendParts(dst [][]byte, mem [][]byte, off, n int64) [][]byte {
	for n > 0 {
		part := mem[off/ioengine.PieceSize][off%ioengine.PieceSize:]
		part = part[:min(int64(len(part)), n)]
		dst = append(dst, part)
		off, n = off+int64(len(part)), n-int64(len(part))
	}
	return dst
}

// failure keeps the first error of a request.
type failure struct {
	mu  sync.Mutex
	err error // +checklocks:mu
}

func (f *failure) set(err error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.err == nil {
		f.err = err
	}
}

func (f *failure) get() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.err
}
