// SPDX-License-Identifier: Apache-2.0

package ioengine

import (
	"errors"
	"fmt"
	"io"
	"syscall"
	"unsafe"
)

// maxStalls is how many times in a row a device may answer EAGAIN or move less
// than one block before the transfer is given up.
const maxStalls = 16

// ReadFull reads the whole vector at off, continuing short transfers. It fails
// with ErrEndOfDevice where the device ends early. For the few reads that need
// no engine: labels, headers, probes.
func ReadFull(dev Device, vec [][]byte, off int64) (int, error) {
	return transfer(dev, Read, vec, off, vecLen(vec))
}

// WriteFull is ReadFull for writing.
func WriteFull(dev Device, vec [][]byte, off int64) (int, error) {
	return transfer(dev, Write, vec, off, vecLen(vec))
}

// transfer moves vec in steps of at most step bytes (a multiple of the block)
// until it is whole or fails, and returns the bytes moved.
func transfer(dev Device, dir Dir, vec [][]byte, off, step int64) (int, error) {
	move := dev.Preadv
	if dir == Write {
		move = dev.Pwritev
	}
	p := progress{total: vecLen(vec), block: int64(dev.Geometry().Block)}
	if p.total == 0 {
		return 0, nil
	}
	for {
		part := vec
		if p.done > 0 || step < p.total {
			part = window(vec, p.done, min(step, p.total-p.done))
		}
		n, err := move(part, off+p.done)
		if over, why := p.step(int64(n), err); over {
			if why != nil {
				why = failure(dev, dir, p.total, off, why)
			}
			return int(p.done), why
		}
	}
}

// progress is how far a transfer has come that the device may carry out in parts.
type progress struct {
	total, block int64
	done         int64 // whole blocks only, until all is done: the next part has to be aligned again
	stalls       int   // parts in a row that brought nothing
}

// step books what one call moved, and its error. over says that the transfer has
// ended, and why if it has failed; else the rest is to be asked for.
func (p *progress) step(n int64, err error) (over bool, why error) {
	moved := n
	if p.done+n < p.total {
		moved -= n % p.block
	}
	p.done += moved
	again := errors.Is(err, syscall.EAGAIN) || errors.Is(err, syscall.EINTR)
	switch {
	case err != nil && !again:
		return true, err
	case p.done == p.total:
		return true, nil
	case err == nil && n == 0:
		return true, ErrEndOfDevice
	case moved > 0:
		p.stalls = 0
		return false, nil
	}
	if p.stalls++; p.stalls > maxStalls {
		return true, errors.Join(io.ErrNoProgress, err)
	}
	return false, nil
}

// failure names the transfer that an error met.
func failure(dev Device, dir Dir, total, off int64, why error) error {
	return fmt.Errorf("%s %d bytes at %d of %q: %w", dir, total, off, dev.Path(), why)
}

// check refuses what must not reach the device.
func check(g *Geometry, op *Op, size int64) error {
	block := int64(g.Block)
	if op.Off%block != 0 {
		return fmt.Errorf("%s at offset %d, blocks of %d: %w", op.Dir, op.Off, block, ErrUnaligned)
	}
	for i, part := range op.Vec {
		if int64(len(part))%block != 0 {
			return fmt.Errorf("%s at %d: part %d is %d bytes long, blocks of %d: %w", op.Dir, op.Off, i, len(part), block, ErrUnaligned)
		}
		if len(part) > 0 && uintptr(unsafe.Pointer(unsafe.SliceData(part)))%uintptr(g.MemAlign) != 0 {
			return fmt.Errorf("%s at %d: memory of part %d, alignment %d: %w", op.Dir, op.Off, i, g.MemAlign, ErrUnaligned)
		}
	}
	if op.Off < 0 || op.Off > g.Size-size {
		return fmt.Errorf("%s %d bytes at %d, size %d: %w", op.Dir, size, op.Off, g.Size, ErrEndOfDevice)
	}
	return nil
}

func vecLen(vec [][]byte) int64 {
	var n int64
	for _, part := range vec {
		n += int64(len(part))
	}
	return n
}

// window returns the n bytes of vec that follow the first skip, in a vector of
// its own.
func window(vec [][]byte, skip, n int64) [][]byte {
	part := make([][]byte, 0, len(vec))
	for _, v := range vec {
		if skip >= int64(len(v)) {
			skip -= int64(len(v))
			continue
		}
		v = v[skip:]
		skip = 0
		v = v[:min(n, int64(len(v)))]
		n -= int64(len(v))
		part = append(part, v)
		if n == 0 {
			break
		}
	}
	return part
}
