// SPDX-License-Identifier: Apache-2.0

package simdev

import (
	"fmt"
	"os"
	"sync"
	"syscall"
	"time"
	"unsafe"

	"github.com/rawblockd/rawblockd/ioengine"
)

// Options describes a device.
type Options struct {
	Size      int64  // bytes, a multiple of Block
	Block     int    // bytes; 0: 4096
	MemAlign  int    // bytes; 0: 512, as loop devices want it
	OptimalIO int    // bytes; 0: no opinion
	Name      string // Path; "": "simdev"

	// Service is how long a transfer takes at least once it has a place: its latency;
	// nil: no time.
	Service func(dir ioengine.Dir, bytes int) time.Duration
	// Bandwidth is how many bytes a second the transfers that have a place share
	// equally; 0: no limit. It is theirs from the start: a transfer ends when its
	// bytes have moved and its Service has passed.
	Bandwidth int64
	// FlushTime is how long a flush takes. It needs no place.
	FlushTime time.Duration
	// Parallel is how many transfers are served at once; 0: all of them.
	Parallel int

	// Volatile gives the device a write cache that Crash can lose.
	Volatile bool

	// Trace, if set, is called with each transfer when it reaches the device,
	// on the goroutine that brings it and before any fault. It may block.
	Trace func(dir ioengine.Dir, off int64, bytes int)
}

// Device is a simulated block device.
type Device struct {
	o      Options
	places chan struct{} // nil: no limit
	bus    *bus          // nil: no limit

	mu sync.Mutex
	// +checklocks:mu
	changed sync.Cond // broadcast when inFlight changes
	// +checklocks:mu
	image image // what a read sees
	// +checklocks:mu
	cache cache // what a power cut can lose
	// +checklocks:mu
	faults faults
	// +checklocks:mu
	hung map[*hanging]bool // what was not released yet, also if the fault was taken back
	// +checklocks:mu
	inFlight int
	// +checklocks:mu
	maxInFlight int
	// +checklocks:mu
	bytes int64
	// +checklocks:mu
	maxBytes int64
	// +checklocks:mu
	count Counts
	// +checklocks:mu
	closed bool
}

// Counts is how often the device was asked, failed requests included.
type Counts struct {
	Transfers [2]int // by ioengine.Dir
	Flushes   int
}

var _ ioengine.Device = (*Device)(nil)

// New makes a device full of zeros. It panics on impossible options.
func New(o Options) *Device {
	if o.Block == 0 {
		o.Block = 4096
	}
	if o.MemAlign == 0 {
		o.MemAlign = 512
	}
	if o.Name == "" {
		o.Name = "simdev"
	}
	if o.Size <= 0 || o.Block < 1 || o.Size%int64(o.Block) != 0 {
		panic(fmt.Sprintf("simdev: %d bytes in blocks of %d", o.Size, o.Block))
	}
	d := &Device{o: o, image: newImage(o.Size)}
	d.changed.L = &d.mu
	if o.Parallel > 0 {
		d.places = make(chan struct{}, o.Parallel)
	}
	if o.Bandwidth > 0 {
		d.bus = &bus{rate: float64(o.Bandwidth) / 1e9}
	}
	if o.Volatile {
		d.cache.durable = newImage(o.Size)
	}
	return d
}

// Geometry implements ioengine.Device.
func (d *Device) Geometry() ioengine.Geometry {
	return ioengine.Geometry{
		Size:      d.o.Size,
		Block:     d.o.Block,
		MemAlign:  d.o.MemAlign,
		OptimalIO: d.o.OptimalIO,
		Physical:  d.o.Block,
		Direct:    true,
	}
}

// Path implements ioengine.Device.
func (d *Device) Path() string { return d.o.Name }

// Preadv implements ioengine.Device.
func (d *Device) Preadv(vec [][]byte, off int64) (int, error) {
	return d.transfer(ioengine.Read, vec, off)
}

// Pwritev implements ioengine.Device.
func (d *Device) Pwritev(vec [][]byte, off int64) (int, error) {
	return d.transfer(ioengine.Write, vec, off)
}

func (d *Device) transfer(dir ioengine.Dir, vec [][]byte, off int64) (int, error) {
	if err := d.aligned(vec, off); err != nil {
		return 0, err
	}
	size := 0
	for _, part := range vec {
		size += len(part)
	}
	if d.o.Trace != nil {
		d.o.Trace(dir, off, size)
	}
	t := &op{dir: dir, vec: vec, off: off, n: size}
	d.enter(t, int64(size))
	defer d.exit(t, int64(size))
	if d.places != nil {
		d.places <- struct{}{}
		defer func() { <-d.places }()
	}
	if hang := d.hang(t); hang != nil {
		<-hang
	}
	if err := d.accept(t); err != nil || t.n == 0 {
		return 0, err
	}
	d.serve(t)
	return d.carryOut(t)
}

// serve takes the time of a transfer that has a place.
func (d *Device) serve(t *op) {
	start := time.Now()
	if d.bus != nil {
		d.bus.carry(t.n)
	}
	if d.o.Service != nil {
		time.Sleep(d.o.Service(t.dir, t.n) - time.Since(start))
	}
}

// op is one transfer inside the device.
type op struct {
	dir ioengine.Dir
	vec [][]byte
	off int64
	n   int // bytes that will move
}

func (t *op) overlaps(r span) bool {
	return t.off < r.off+r.len && r.off < t.off+int64(t.n)
}

// aligned refuses what the kernel's direct I/O refuses.
func (d *Device) aligned(vec [][]byte, off int64) error {
	bad := off < 0 || off%int64(d.o.Block) != 0
	for _, part := range vec {
		bad = bad || len(part)%d.o.Block != 0
		bad = bad || len(part) > 0 && uintptr(unsafe.Pointer(unsafe.SliceData(part)))%uintptr(d.o.MemAlign) != 0
	}
	if bad {
		return syscall.EINVAL
	}
	return nil
}

func (d *Device) enter(t *op, bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.count.Transfers[t.dir]++
	d.inFlight++
	d.bytes += bytes
	d.maxInFlight = max(d.maxInFlight, d.inFlight)
	d.maxBytes = max(d.maxBytes, d.bytes)
	if t.dir == ioengine.Write {
		d.cache.begin(t)
	}
	d.changed.Broadcast()
}

func (d *Device) exit(t *op, bytes int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.inFlight--
	d.bytes -= bytes
	d.cache.end(t)
	d.changed.Broadcast()
}

// accept decides at the start of service what will become of a transfer, and
// cuts it where the device or a fault ends it.
func (d *Device) accept(t *op) error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.unusableLocked(t.dir); err != nil {
		return err
	}
	if err := d.faults.refusing(t); err != nil {
		return err
	}
	if left := d.o.Size - t.off; int64(t.n) > left {
		t.n = int(max(left, 0))
		if t.n == 0 && t.dir == ioengine.Write {
			return syscall.ENOSPC
		}
	}
	d.faults.cut(t)
	return nil
}

// carryOut moves the bytes at the end of service.
func (d *Device) carryOut(t *op) (int, error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.unusableLocked(t.dir); err != nil {
		return 0, err
	}
	if err := d.faults.failing(t); err != nil {
		return 0, err
	}
	if t.dir == ioengine.Read {
		d.image.read(clip(t.vec, t.n), t.off)
		return t.n, nil
	}
	d.writeLocked(t)
	return t.n, nil
}

// +checklocks:d.mu
func (d *Device) writeLocked(t *op) {
	parts := clip(t.vec, t.n)
	if !d.o.Volatile && len(d.faults.drop)+len(d.faults.misdirect) == 0 {
		off := t.off
		for _, part := range parts { // the usual, without a copy
			d.image.write(extent{off: off, data: part})
			off += int64(len(part))
		}
		return
	}
	data := make([]byte, 0, t.n)
	for _, part := range parts {
		data = append(data, part...)
	}
	for _, w := range d.faults.redirect(extent{off: t.off, data: data}, d.o.Size) {
		d.image.write(w)
		if d.o.Volatile {
			d.cache.add(w)
		}
	}
}

// +checklocks:d.mu
func (d *Device) unusableLocked(dir ioengine.Dir) error {
	switch {
	case d.closed:
		return os.ErrClosed
	case d.faults.vanished:
		return syscall.ENODEV
	case d.faults.readOnly && dir == ioengine.Write:
		return syscall.EROFS
	}
	return nil
}

// Flush implements ioengine.Device.
func (d *Device) Flush() error {
	d.mu.Lock()
	d.count.Flushes++
	covered := d.cache.last()
	d.mu.Unlock()
	if d.o.FlushTime > 0 {
		time.Sleep(d.o.FlushTime)
	}
	if hang := d.hangFlush(); hang != nil {
		<-hang
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	if err := d.unusableLocked(ioengine.Read); err != nil {
		return err
	}
	if err := d.faults.flush; err != nil {
		d.faults.flush = nil
		d.cache.lose(covered)
		return err
	}
	d.cache.flush(covered)
	return nil
}

// Close implements ioengine.Device.
func (d *Device) Close() error {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.closed {
		return os.ErrClosed
	}
	d.closed = true
	return nil
}
