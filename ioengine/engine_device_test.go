// SPDX-License-Identifier: Apache-2.0

package ioengine_test

import (
	"bytes"
	"context"
	"errors"
	"os"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rawblockd/rawblockd/internal/testdev"
	"github.com/rawblockd/rawblockd/ioengine"
)

// The tests in this file get their faults from the kernel.

// onFile runs a test with each engine, 32 deep, on a file or device of its own.
func onFile(t *testing.T, path func(t *testing.T) string, test func(t *testing.T, path string, e ioengine.Engine)) {
	t.Helper()
	for name := range engines() {
		t.Run(name, func(t *testing.T) {
			if name == "uring" {
				needUring(t)
			}
			path := path(t)
			f, err := ioengine.Open(path, ioengine.OpenOptions{})
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = f.Close() }()
			var e ioengine.Engine
			if name == "uring" {
				e, err = ioengine.NewUring(f, ioengine.UringOptions{Depth: 32})
			} else {
				e = ioengine.NewPread(f, ioengine.PreadOptions{Workers: 32})
			}
			if err != nil {
				t.Fatal(err)
			}
			defer closeEngine(t, e)
			test(t, path, e)
		})
	}
}

// numbered returns ops of two blocks each in memory of their own, numbered if they are
// writes.
func numbered(t *testing.T, dir ioengine.Dir, count int) (mem []byte, ops []ioengine.Op) {
	t.Helper()
	const n = 2 * block
	mem, free, err := ioengine.AlignedAlloc(count * n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(free)
	if dir == ioengine.Write {
		number([][]byte{mem}, 1)
	}
	for off := 0; off < count*n; off += n {
		ops = append(ops, ioengine.Op{Dir: dir, Off: int64(off), Vec: [][]byte{mem[off : off+n]}})
	}
	return mem, ops
}

// C12 with the kernel beneath: of 1,000 ops at a depth of 32 one fails, because its
// memory cannot be reached (H31), and the next batch is whole.
func TestOneOfManyFailsOnADevice(t *testing.T) {
	const count, fails = 1000, 11
	loop := func(t *testing.T) string { return testdev.Loop(t, 8<<20, 512) }
	onFile(t, loop, func(t *testing.T, _ string, e ioengine.Engine) {
		written, writes := numbered(t, ioengine.Write, count)
		carry(t, e, writes)
		for _, dir := range []ioengine.Dir{ioengine.Write, ioengine.Read} {
			mem, ops := numbered(t, dir, count)
			gone := ops[fails].Vec[0]
			if err := unix.Mprotect(gone, unix.PROT_NONE); err != nil {
				t.Fatal(err)
			}
			for i, res := range ioengine.Do(context.Background(), e, ops) {
				want, n := error(nil), 2*block
				if i == fails {
					want, n = unix.EFAULT, 0
				}
				if !errors.Is(res.Err, want) || res.N != n {
					t.Errorf("%s %d: got %d bytes, %v, want %d, %v", dir, i, res.N, res.Err, n, want)
				}
			}
			if got := e.Stats(); got.InFlightOps != 0 || got.QueuedOps != 0 || got.Errors[dir] != 1 {
				t.Errorf("%ss: the idle engine counts %+v", dir, got)
			}
			if err := unix.Mprotect(gone, unix.PROT_READ|unix.PROT_WRITE); err != nil {
				t.Fatal(err)
			}
			carry(t, e, ops)
			if !bytes.Equal(mem, written) {
				t.Errorf("%ss: the bytes differ", dir)
			}
		}
	})
}

// A file that became shorter meanwhile: the transfer that reaches its new end brings what
// there is and says why no more, and the others are not concerned.
func TestFileThatBecameShorter(t *testing.T) {
	const count, short = 40, 7
	file := func(t *testing.T) string { return testdev.File(t, 4<<20) }
	onFile(t, file, func(t *testing.T, path string, e ioengine.Engine) {
		written, writes := numbered(t, ioengine.Write, count)
		carry(t, e, writes)
		if err := os.Truncate(path, short*2*block+block); err != nil {
			t.Fatal(err)
		}
		mem, ops := numbered(t, ioengine.Read, count)
		for i, res := range ioengine.Do(context.Background(), e, ops) {
			want, n := error(nil), 2*block
			switch {
			case i == short:
				want, n = ioengine.ErrEndOfDevice, block
			case i > short:
				want, n = ioengine.ErrEndOfDevice, 0
			}
			if !errors.Is(res.Err, want) || res.N != n {
				t.Errorf("read %d: got %d bytes, %v, want %d, %v", i, res.N, res.Err, n, want)
			}
		}
		if n := short*2*block + block; !bytes.Equal(mem[:n], written[:n]) {
			t.Error("what there is was not read")
		}
		carry(t, e, ops[:short])
	})
}

// An op may be larger than what the kernel moves by one call, which is 2 GiB less a
// page, and have more parts than it takes.
func TestLargerThanTheKernelMovesAtOnce(t *testing.T) {
	const part, parts = 2 << 20, 1100 // 2.1 GiB
	holes := func(t *testing.T) string {
		path := testdev.File(t, 4096)
		if err := os.Truncate(path, part*parts); err != nil {
			t.Fatal(err)
		}
		return path
	}
	onFile(t, holes, func(t *testing.T, _ string, e ioengine.Engine) {
		mem, free, err := ioengine.AlignedAlloc(part)
		if err != nil {
			t.Fatal(err)
		}
		defer free()
		op := ioengine.Op{Dir: ioengine.Read}
		for range parts {
			op.Vec = append(op.Vec, mem) // nobody looks at them
		}
		carry(t, e, []ioengine.Op{op})
	})
}
