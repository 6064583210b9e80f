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
	total := vecLen(vec)
	block := int64(dev.Geometry().Block)
	var done int64 // whole blocks only: the next step has to be aligned again
	for stalls := 0; done < total; {
		part := vec
		if done > 0 || step < total {
			part = window(vec, done, min(step, total-done))
		}
		n, err := move(part, off+done)
		moved := int64(n)
		if done+moved < total {
			moved -= moved % block
		}
		done += moved
		switch {
		case err != nil && !errors.Is(err, syscall.EAGAIN):
			return int(done), fmt.Errorf("%s %d bytes at %d of %q: %w", dir, total, off, dev.Path(), err)
		case err == nil && n == 0:
			return int(done), fmt.Errorf("%s %d bytes at %d of %q: %w", dir, total, off, dev.Path(), ErrEndOfDevice)
		case moved > 0:
			stalls = 0
		default:
			if stalls++; stalls > maxStalls {
				return int(done), fmt.Errorf("%s %d bytes at %d of %q: %w", dir, total, off, dev.Path(), errors.Join(io.ErrNoProgress, err))
			}
		}
	}
	return int(done), nil
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
