// SPDX-License-Identifier: Apache-2.0

package crashtest

import (
	"errors"
	"fmt"
	"io"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/rawblockd/rawblockd/ioengine"
	"github.com/rawblockd/rawblockd/slab"
)

// devicePath is the slot device's file in the crashable file system.
const devicePath = "/device"

var errUnaligned = errors.New("device: transfer is not aligned")

// device is the slot device: a file beside Pebble's, so that one crash cuts
// both. A write reaches the file at once and is durable after Flush.
type device struct {
	file vfs.File
	geo  ioengine.Geometry

	// t is nil where no crash can follow; then Flush does nothing, as nobody
	// will miss what it would keep.
	t *timeline

	writes atomic.Uint64
	// lowest and highest generation of the slot headers written
	onHeader func(generation uint64)
}

// newDevice opens the device's file in fs.
func newDevice(fs vfs.FS, s *setup, t *timeline, onHeader func(uint64)) (*device, error) {
	f, err := fs.OpenReadWrite(devicePath, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, fmt.Errorf("open device: %w", err)
	}
	return &device{
		file: f, t: t, onHeader: onHeader,
		geo: ioengine.Geometry{Size: s.deviceSize, Block: s.block, MemAlign: s.block, OptimalIO: s.optimalIO},
	}, nil
}

// Preadv implements ioengine.Device.
func (d *device) Preadv(vec [][]byte, off int64) (int, error) {
	if err := d.check(vec, off); err != nil {
		return 0, err
	}
	total := 0
	for _, b := range vec {
		n, err := d.file.ReadAt(b, off+int64(total))
		total += n
		if errors.Is(err, io.EOF) {
			return total, nil
		}
		if err != nil {
			return total, err
		}
	}
	return total, nil
}

// Pwritev implements ioengine.Device. The parts of a vector are separate write
// operations: a crash may fall between them.
func (d *device) Pwritev(vec [][]byte, off int64) (int, error) {
	if err := d.check(vec, off); err != nil {
		return 0, err
	}
	total := 0
	for _, b := range vec {
		d.watchHeader(b)
		at := off + int64(total)
		if at+int64(len(b)) > d.geo.Size {
			return total, nil
		}
		err := d.around("slot write", func() error {
			_, err := d.file.WriteAt(b, at)
			return err
		})
		if err != nil {
			return total, err
		}
		total += len(b)
	}
	d.writes.Add(1)
	return total, nil
}

// watchHeader looks for a slot header in what is written.
func (d *device) watchHeader(b []byte) {
	if h, err := slab.DecodeHeader(b); err == nil {
		d.onHeader(h.Gen)
	}
}

// Flush implements ioengine.Device. After the data is safe it stays for a while,
// so that other writes end while a flush that does not cover them still runs.
func (d *device) Flush() error {
	if d.t == nil {
		return nil
	}
	err := d.around("flush", d.file.Sync)
	if d.t.setup.actors > 1 {
		linger(d.t.setup.lingerFlush, d.writes.Load)
	}
	return err
}

func (d *device) around(what string, op func() error) error {
	if d.t == nil {
		return op()
	}
	return d.t.around(what, devicePath, op)
}

func (d *device) check(vec [][]byte, off int64) error {
	block := int64(d.geo.Block)
	if off%block != 0 {
		return fmt.Errorf("%w: offset %d", errUnaligned, off)
	}
	for _, b := range vec {
		if int64(len(b))%block != 0 {
			return fmt.Errorf("%w: length %d", errUnaligned, len(b))
		}
	}
	return nil
}

// Geometry implements ioengine.Device.
func (d *device) Geometry() ioengine.Geometry { return d.geo }

// Path implements ioengine.Device.
func (d *device) Path() string { return devicePath }

// Close implements ioengine.Device.
func (d *device) Close() error { return d.file.Close() }
