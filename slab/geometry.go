// SPDX-License-Identifier: Apache-2.0

package slab

import (
	"fmt"
	"math"
	"strings"

	"github.com/rawblockd/rawblockd/ioengine"
)

// Geometry constants, in bytes. All of them are part of the format.
const (
	MinSlotSize     = 4 << 10
	MaxSlotSize     = 64 << 20
	DefaultSlotSize = 2 << 20

	block      = 4096    // label, header, padding unit of writes, largest device block
	dataOffset = 1 << 20 // slots start here
	endZone    = 1 << 20 // the last aligned MiB belongs to the last label copy
	minZone    = 4 << 10
	maxZone    = 64 << 10
	maxSlots   = math.MaxUint32 // so that no slot has the number MaxUint32
)

// roundUp and roundDown are for powers of two only.
func roundUp(n, to int64) int64   { return (n + to - 1) &^ (to - 1) }
func roundDown(n, to int64) int64 { return n &^ (to - 1) }

// endOffset returns where the last aligned MiB of a device begins.
func endOffset(size int64) int64 { return roundDown(size, endZone) - endZone }

// headerZone returns the room in front of each slot, such that payloads start on
// the device's optimal boundary where it has a sensible one.
func headerZone(optimalIO int) int64 {
	return min(max(roundUp(int64(optimalIO), block), minZone), maxZone)
}

// pieces returns how many checksummed pieces a payload has.
func pieces(length int64) int {
	return int((length + ioengine.PieceSize - 1) / ioengine.PieceSize)
}

// human prints a byte count exactly, in the largest unit that allows it.
func human(n int64) string {
	for shift, unit := range []string{"GiB", "MiB", "KiB"} {
		if each := int64(1) << (30 - 10*shift); n >= each && n%each == 0 {
			return fmt.Sprintf("%d %s", n/each, unit)
		}
	}
	return fmt.Sprintf("%d bytes", n)
}

// sizeFlag prints a byte count as flags and the configuration take it.
func sizeFlag(n int64) string {
	number, unit, _ := strings.Cut(human(n), " ")
	if unit == "bytes" {
		return number
	}
	return number + unit
}

// slotSizeFits reports whether the format can express a slot size.
func slotSizeFits(n int64) bool { return n >= MinSlotSize && n <= MaxSlotSize && n%block == 0 }

// smallest returns the size of the smallest device that holds one slot.
func smallest(slotSize int64, optimalIO int) int64 {
	return roundUp(dataOffset+headerZone(optimalIO)+slotSize, endZone) + endZone
}

// holdsAny reports whether a device is large enough for a slab of any slot size.
func holdsAny(g ioengine.Geometry) bool { return g.Size >= smallest(MinSlotSize, g.OptimalIO) }

// fittingSlot returns the largest slot size, a power of two of at most limit bytes,
// that a device has room for, or 0.
func fittingSlot(g ioengine.Geometry, limit int64) int64 {
	for n := int64(MaxSlotSize); n >= MinSlotSize; n /= 2 {
		if n <= limit && g.Size >= smallest(n, g.OptimalIO) {
			return n
		}
	}
	return 0
}

// tooSmall says what a device is too small for: for slots of this size, or for
// anything.
func tooSmall(g ioengine.Geometry, slotSize int64) string {
	if !holdsAny(g) {
		least := smallest(MinSlotSize, g.OptimalIO)
		return fmt.Sprintf("%s, and no slab of any slot size is smaller than %s (%d bytes)", human(g.Size), human(least), least)
	}
	least := smallest(slotSize, g.OptimalIO)
	return fmt.Sprintf("%s, the smallest for slots of %s is %s (%d bytes)", human(g.Size), human(slotSize), human(least), least)
}

// checkBlock refuses devices that cannot write a label or a header by itself.
func checkBlock(g ioengine.Geometry) error {
	if g.Block <= 0 || g.Block > block || block%g.Block != 0 {
		return fmt.Errorf("%w: blocks of %d bytes, possible are powers of two up to %d", ErrBlocks, g.Block, block)
	}
	return nil
}

// layOut fills in what follows from device geometry and a slot size that is possible.
func layOut(l *Label, g ioengine.Geometry) error {
	if err := checkBlock(g); err != nil {
		return err
	}
	l.HeaderZone = headerZone(g.OptimalIO)
	l.Stride = l.HeaderZone + l.SlotSize
	l.DataOffset = dataOffset
	l.PieceSize = ioengine.PieceSize
	l.DeviceSize = g.Size
	if g.Size < smallest(l.SlotSize, g.OptimalIO) {
		return fmt.Errorf("%w: %s", ErrTooSmall, tooSmall(g, l.SlotSize))
	}
	l.SlotCount = uint32(min((endOffset(g.Size)-dataOffset)/l.Stride, maxSlots))
	return nil
}

// check reports a label whose numbers contradict each other, or the device.
func (l *Label) check(g ioengine.Geometry) error {
	if err := checkBlock(g); err != nil {
		return err
	}
	switch {
	case !slotSizeFits(l.SlotSize):
		return fmt.Errorf("%w: the label says slots of %s, possible are 4 KiB to 64 MiB in multiples of 4 KiB", ErrGeometry, human(l.SlotSize))
	case l.PieceSize != ioengine.PieceSize:
		return fmt.Errorf("%w: the label says pieces of %d bytes, this release knows %d", ErrGeometry, l.PieceSize, ioengine.PieceSize)
	case l.HeaderZone < minZone || l.HeaderZone > maxZone || l.HeaderZone%block != 0:
		return fmt.Errorf("%w: the label says header zones of %d bytes", ErrGeometry, l.HeaderZone)
	case l.Stride != l.HeaderZone+l.SlotSize:
		return fmt.Errorf("%w: the label says stride %d, but zone and slot make %d", ErrGeometry, l.Stride, l.HeaderZone+l.SlotSize)
	case l.DataOffset < dataOffset || l.DataOffset%block != 0 || l.DataOffset > math.MaxInt64/4:
		return fmt.Errorf("%w: the label says slots start at %d", ErrGeometry, l.DataOffset)
	case l.SlotCount == 0 || l.SlotCount > maxSlots:
		return fmt.Errorf("%w: the label says %d slots", ErrGeometry, l.SlotCount)
	}
	if end := l.DataOffset + int64(l.SlotCount)*l.Stride; end > endOffset(g.Size) {
		return &TruncatedError{Incarnation: l.Incarnation, SlotSize: l.SlotSize, Slots: l.SlotCount, Need: roundUp(end, endZone) + endZone, Size: g.Size}
	}
	return nil
}

// payloadOffset is the one function that turns a slot number into bytes.
func (l *Label) payloadOffset(slot uint32) int64 {
	return l.DataOffset + int64(slot)*l.Stride + l.HeaderZone
}
