// SPDX-License-Identifier: Apache-2.0

package ioengine

import (
	"errors"
	"time"
)

// PieceSize is 1 MiB: the unit of payload checksums (a format constant), the
// largest chunk an Arena hands out, and what every I/O split is a multiple of.
const PieceSize = 1 << 20

// Dir says which way an Op moves bytes.
type Dir uint8

// The two directions. Reads are loads and writes are stores to the scheduler:
// while both wait, loads get seven bytes for each byte of stores.
const (
	Read Dir = iota
	Write
)

// String returns "read" or "write", the metric label of a direction.
func (d Dir) String() string {
	if d == Write {
		return "write"
	}
	return "read"
}

// Op is one contiguous device transfer.
type Op struct {
	Dir Dir
	Off int64    // bytes from the start of the device, a multiple of Geometry.Block
	Vec [][]byte // mmap'ed memory, each part aligned to Geometry.MemAlign and a multiple of Geometry.Block long
	Tag uint64   // the caller's own; never read here
}

// Len returns the number of bytes an op moves.
func (o *Op) Len() int64 {
	var n int64
	for _, v := range o.Vec {
		n += int64(len(v))
	}
	return n
}

// Done reports one op: i is its place in the submitted slice, n the bytes moved
// (fewer than asked only together with an error), err that op's own error.
// It runs on an engine goroutine; it may hash the op's bytes but must not wait
// for other I/O.
type Done func(i, n int, err error)

// Engine executes ops on one device.
//
// A short transfer is continued until it is whole or fails; the end of the
// device is that op's error alone (ErrEndOfDevice); one op's error never hides
// another's result; the next batch works.
type Engine interface {
	// Submit queues ops and returns without waiting for any I/O. The engine
	// keeps a reference to ops and every Vec until done has been called for
	// each op, exactly once per op, in completion order. After Close every op
	// is answered with ErrClosed.
	Submit(ops []Op, done Done)
	// Flush makes every write whose done ran before Flush was called durable
	// (fdatasync). It does not number or share flushes; slab does.
	Flush() error
	// Close stops new work and waits until every submitted op was answered.
	// It does not close the device.
	Close() error
	// Stats returns a snapshot of the engine's counters.
	Stats() Stats
}

// Stats is a snapshot of an engine.
type Stats struct {
	Name          string // "pread" or "uring"
	InFlightOps   int    // on the device now
	InFlightBytes int64
	QueuedOps     int       // accepted, not yet started
	MaxInFlight   int       // highest InFlightOps since start
	Ops           [2]uint64 // by Dir, completed
	Bytes         [2]uint64
	Errors        [2]uint64
	Flushes       uint64

	// Depth is how many ops the engine has on the device at once, at most.
	Depth int
	// OldestOp and OldestFlush are for how long the transfer, and the flush, that
	// went to the device first of those there now has been there; 0 without one.
	// Time in the queue does not count: it tells of load, not of a device that hangs.
	OldestOp, OldestFlush time.Duration
}

// Geometry is what the device says about itself. All values are bytes.
type Geometry struct {
	Size      int64
	Block     int  // alignment of offset and length for direct I/O (logical block size or STATX_DIOALIGN)
	MemAlign  int  // alignment of memory for direct I/O
	OptimalIO int  // BLKIOOPT, or 0 where the device has no opinion
	Physical  int  // physical block size: a smaller write costs the device a read-modify-write; at least Block
	Regular   bool // a regular file, not a block device
	Direct    bool // O_DIRECT is in effect
}

// Device is the seam under the engines: a block device, a regular file or a
// simulated device. Its methods block and may be called concurrently.
type Device interface {
	// Preadv and Pwritev move one vector at off, as the system calls do:
	// they may move less than asked.
	Preadv(vec [][]byte, off int64) (int, error)
	Pwritev(vec [][]byte, off int64) (int, error)
	// Flush is fdatasync.
	Flush() error
	Geometry() Geometry
	// Path is what errors and status name the device by.
	Path() string
	Close() error
}

// Errors of this package. Use errors.Is.
var (
	ErrClosed      = errors.New("engine is closed")
	ErrEndOfDevice = errors.New("beyond the end of the device")
	ErrUnaligned   = errors.New("not aligned for direct I/O")
	ErrHeld        = errors.New("device is held by another process")
	ErrReadOnly    = errors.New("device is read-only")
	ErrNoRoom      = errors.New("larger than the whole arena")
)
