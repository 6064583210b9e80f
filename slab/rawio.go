// SPDX-License-Identifier: Apache-2.0

package slab

import (
	"bytes"
	"errors"
	"fmt"
	"io"

	"golang.org/x/sys/unix"

	"github.com/rawblockd/rawblockd/ioengine"
)

// Transfers outside the engine: labels and the zones init checks and clears. They
// happen before an engine exists, or once a mount.

// retries bounds transfers that are interrupted or make no progress.
const retries = 16

// readFull fills buf, whose address, length and offset suit direct I/O.
func readFull(dev ioengine.Device, buf []byte, off int64) error {
	return transfer(buf, off, dev.Geometry().Block, dev.Preadv, io.ErrUnexpectedEOF)
}

// writeFull writes buf, whose address, length and offset suit direct I/O.
func writeFull(dev ioengine.Device, buf []byte, off int64) error {
	return transfer(buf, off, dev.Geometry().Block, dev.Pwritev, io.ErrShortWrite)
}

// transfer continues short transfers at the last whole block.
func transfer(buf []byte, off int64, blk int, op func([][]byte, int64) (int, error), short error) error {
	for idle := 0; len(buf) > 0; {
		n, err := op([][]byte{buf}, off)
		n = max(n, 0)
		if n >= len(buf) {
			return nil
		}
		if err != nil && !errors.Is(err, unix.EINTR) && !errors.Is(err, unix.EAGAIN) {
			return err
		}
		n -= n % max(blk, 1)
		if n == 0 {
			if idle++; idle > retries {
				return short
			}
			continue
		}
		buf, off, idle = buf[n:], off+int64(n), 0
	}
	return nil
}

// isZero reports whether b holds nothing but zeros.
func isZero(b []byte) bool { return len(bytes.TrimLeft(b, "\x00")) == 0 }

// zone is a byte range that init checks and clears.
type zone struct {
	name     string
	off, end int64
}

// zones returns the two ranges that hold labels, and in which everything that
// claims a device keeps its signature. The last one reaches to the end of the
// device, where GPT and md put theirs.
func zones(g ioengine.Geometry) []zone {
	end := roundDown(g.Size, int64(g.Block))
	if g.Size < dataOffset+endZone {
		return []zone{{"the device", 0, end}}
	}
	return []zone{
		{"the first MiB", 0, dataOffset},
		{"the last MiB", endOffset(g.Size), end},
	}
}

// eachChunk calls fn for ranges of at most len(buf) that make up z.
func (z zone) eachChunk(buf []byte, fn func(chunk []byte, off int64) error) error {
	for off := z.off; off < z.end; {
		n := min(int64(len(buf)), z.end-off)
		if err := fn(buf[:n], off); err != nil {
			return err
		}
		off += n
	}
	return nil
}

// firstNonZero finds the first byte that is not zero in the zones.
func firstNonZero(dev ioengine.Device) (where zone, at int64, value byte, found bool, err error) {
	buf, release, err := ioengine.AlignedAlloc(endZone)
	if err != nil {
		return zone{}, 0, 0, false, fmt.Errorf("memory to look at %s: %w", dev.Path(), err)
	}
	defer release()
	for _, z := range zones(dev.Geometry()) {
		err = z.eachChunk(buf, func(chunk []byte, off int64) error {
			if err := readFull(dev, chunk, off); err != nil {
				return fmt.Errorf("read %s of %s: %w", z.name, dev.Path(), err)
			}
			if rest := bytes.TrimLeft(chunk, "\x00"); len(rest) > 0 && !found {
				where, found = z, true
				at, value = off+int64(len(chunk)-len(rest)), rest[0]
			}
			return nil
		})
		if err != nil || found {
			return where, at, value, found, err
		}
	}
	return zone{}, 0, 0, false, nil
}

// clearZones zeroes every place a label or a signature can be in, and flushes, so
// that nothing old can come back once the new label is written.
func clearZones(dev ioengine.Device) error {
	buf, release, err := ioengine.AlignedAlloc(endZone)
	if err != nil {
		return fmt.Errorf("memory to clear %s: %w", dev.Path(), err)
	}
	defer release()
	for _, z := range zones(dev.Geometry()) {
		err := z.eachChunk(buf, func(chunk []byte, off int64) error { return writeFull(dev, chunk, off) })
		if err != nil {
			return fmt.Errorf("clear %s of %s: %w", z.name, dev.Path(), explainWrite(dev, err))
		}
		if err := dev.Flush(); err != nil {
			return fmt.Errorf("flush %s: %w", dev.Path(), err)
		}
	}
	return nil
}
