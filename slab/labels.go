// SPDX-License-Identifier: Apache-2.0

package slab

import (
	"errors"
	"fmt"
	"slices"

	"golang.org/x/sys/unix"

	"github.com/rawblockd/rawblockd/ioengine"
)

// Copy is one place a label is kept in, as found.
type Copy struct {
	Off   int64
	Label Label
	Err   error // ErrNoLabel, ErrLabel, ErrIncompat, or why it could not be read

	raw []byte
}

// labelOffsets returns where copies are kept on a device of that size. They are
// far apart, and the end is a place of its own, because the usual accidents
// (partitioning, mkfs, dd) hit one end.
func labelOffsets(size int64) []int64 {
	return []int64{0, dataOffset / 2, endOffset(size)}
}

// readLabels reads every copy. It fails only if it could not even try.
func readLabels(dev ioengine.Device) ([]Copy, error) {
	g := dev.Geometry()
	if err := checkBlock(g); err != nil {
		return nil, fmt.Errorf("%s: %w", dev.Path(), err)
	}
	if g.Size < dataOffset+endZone {
		return nil, fmt.Errorf("%s: %w: %w: %s", dev.Path(), ErrNoLabel, ErrTooSmall, tooSmall(g, MinSlotSize))
	}
	buf, release, err := ioengine.AlignedAlloc(LabelSize)
	if err != nil {
		return nil, fmt.Errorf("memory for the label of %s: %w", dev.Path(), err)
	}
	defer release()
	var copies []Copy
	for _, off := range labelOffsets(g.Size) {
		c := Copy{Off: off}
		if err := readFull(dev, buf, off); err != nil {
			c.Err = fmt.Errorf("read label at %d of %s: %w", off, dev.Path(), err)
		} else {
			c.raw = slices.Clone(buf)
			c.Label, c.Err = DecodeLabel(buf)
		}
		copies = append(copies, c)
	}
	return copies, nil
}

// bestLabel returns the copy with the highest epoch. A copy of a newer release
// takes part, so that an older one is never used in its place. Of equal epochs the
// first counts: init and mount write the front copies last, and a retried write
// never uses an epoch twice.
func bestLabel(copies []Copy) (Copy, bool) {
	var best Copy
	found := false
	for _, c := range copies {
		if c.Err != nil && !errors.Is(c.Err, ErrIncompat) {
			continue
		}
		if !found || c.Label.Epoch > best.Label.Epoch {
			best, found = c, true
		}
	}
	return best, found
}

// loadLabel returns the label that counts and its block as found, for rewriting.
func loadLabel(dev ioengine.Device) (Label, []byte, []Copy, error) {
	copies, err := readLabels(dev)
	if err != nil {
		return Label{}, nil, nil, err
	}
	best, ok := bestLabel(copies)
	if !ok {
		err := noLabelReason(copies)
		if g := dev.Geometry(); !holdsAny(g) {
			err = fmt.Errorf("%w: %w: %s", err, ErrTooSmall, tooSmall(g, MinSlotSize))
		}
		return Label{}, nil, copies, fmt.Errorf("%s: %w", dev.Path(), err)
	}
	if best.Err != nil {
		return best.Label, nil, copies, fmt.Errorf("label at %d of %s: %w; use the release that wrote it, or a later one", best.Off, dev.Path(), best.Err)
	}
	if err := best.Label.check(dev.Geometry()); err != nil {
		return best.Label, nil, copies, fmt.Errorf("label at %d of %s: %w", best.Off, dev.Path(), err)
	}
	return best.Label, best.raw, copies, nil
}

// noLabelReason prefers what is worth knowing: damage or a read error over
// plain absence. A device of which nothing could be read may well have a label.
func noLabelReason(copies []Copy) error {
	unread := func(c Copy) bool { return c.raw == nil }
	if len(copies) > 0 && !slices.ContainsFunc(copies, func(c Copy) bool { return !unread(c) }) {
		return fmt.Errorf("%w: %w", ErrUnread, copies[0].Err)
	}
	for _, c := range copies {
		if c.Err != nil && !errors.Is(c.Err, ErrNoLabel) {
			return fmt.Errorf("%w: copy at %d: %w", ErrNoLabel, c.Off, c.Err)
		}
	}
	return ErrNoLabel
}

// writeLabels writes one block to all copies, last to first, with a flush after
// each: at every moment one whole copy, old or new, is on the medium.
func writeLabels(dev ioengine.Device, raw []byte) error {
	buf, release, err := ioengine.AlignedAlloc(LabelSize)
	if err != nil {
		return fmt.Errorf("memory for the label of %s: %w", dev.Path(), err)
	}
	defer release()
	copy(buf, raw)
	offs := labelOffsets(dev.Geometry().Size)
	slices.Reverse(offs)
	for _, off := range offs {
		if err := writeFull(dev, buf, off); err != nil {
			return fmt.Errorf("write label at %d of %s: %w", off, dev.Path(), explainWrite(dev, err))
		}
		if err := dev.Flush(); err != nil {
			return fmt.Errorf("flush label at %d of %s: %w", off, dev.Path(), err)
		}
	}
	return nil
}

// explainWrite says what it means that a device refuses writes: it was made read-only
// after it had been opened.
func explainWrite(dev ioengine.Device, err error) error {
	if dev.Geometry().Regular || !errors.Is(err, unix.EPERM) && !errors.Is(err, unix.EROFS) {
		return err
	}
	return fmt.Errorf("%w: %w; %s", ioengine.ErrReadOnly, err, ioengine.ReadOnlyRemedy(dev.Path()))
}

// flocker is a device on which udev must not look while labels are written
// (systemd's block device locking protocol).
type flocker interface {
	WithFlock(fn func() error) error
}

// withFlock runs fn under the lock of a real device.
func withFlock(dev ioengine.Device, fn func() error) error {
	if f, ok := dev.(flocker); ok {
		return f.WithFlock(fn)
	}
	return fn()
}
