// SPDX-License-Identifier: Apache-2.0

package ioengine_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rawblockd/rawblockd/internal/simdev"
	"github.com/rawblockd/rawblockd/internal/testdev"
	"github.com/rawblockd/rawblockd/ioengine"
	"github.com/rawblockd/rawblockd/ioengine/enginetest"
)

// uringOn opens a device exclusively and an engine on it; end closes both.
func uringOn(t *testing.T, path string, o ioengine.UringOptions) (e *ioengine.Uring, end func()) {
	t.Helper()
	f, err := ioengine.Open(path, ioengine.OpenOptions{Exclusive: true})
	if err != nil {
		t.Fatal(err)
	}
	if e, err = ioengine.NewUring(f, o); err != nil {
		t.Fatal(err)
	}
	return e, func() {
		t.Helper()
		closeEngine(t, e)
		if err := f.Close(); err != nil {
			t.Error(err)
		}
	}
}

func carry(t *testing.T, e ioengine.Engine, ops []ioengine.Op) {
	t.Helper()
	for i, res := range ioengine.Do(context.Background(), e, ops) {
		if res.Err != nil || int64(res.N) != ops[i].Len() {
			t.Errorf("%s %d: got %d bytes, %v", ops[i].Dir, i, res.N, res.Err)
		}
	}
}

// A batch that fits goes to the kernel in one system call, and what is left over of a
// larger one in one more.
func TestBatchIsOneEnter(t *testing.T) {
	const rounds = 50
	wantEnters := func(t *testing.T, e *ioengine.Uring) {
		for _, c := range []struct{ ops, enters uint64 }{{1, 1}, {31, 1}, {32, 1}, {33, 2}} {
			for _, dir := range []ioengine.Dir{ioengine.Write, ioengine.Read} {
				ops, before := opsOf(t, dir, int(c.ops), block), e.Enters()
				for range rounds {
					carry(t, e, ops)
				}
				if got, want := e.Enters()-before, rounds*c.enters; got != want {
					t.Errorf("%d batches of %d %ss: %d system calls, want %d", rounds, c.ops, dir, got, want)
				}
			}
		}
	}
	t.Run("device", func(t *testing.T) {
		needUring(t)
		e, end := uringOn(t, testdev.Loop(t, 4<<20, 512), ioengine.UringOptions{Depth: 32})
		defer end()
		wantEnters(t, e)
	})
	t.Run("simulated", func(t *testing.T) {
		dev := simdev.New(simdev.Options{Size: 64 << 20})
		ring := enginetest.NewRing(dev)
		e := ioengine.NewUringOn(dev, ring, ioengine.UringOptions{Depth: 32})
		defer closeEngine(t, e)
		wantEnters(t, e)
		if got := ring.Counts(); uint64(got.Submits) != e.Enters() || got.Most != 32 || got.Underway != 32 {
			t.Errorf("the ring was asked for %+v, the engine counts %d", got, e.Enters())
		}
	})
}

// A device is free as soon as its engine and its file are closed, whatever the kernel
// still has to clear away: it can be opened exclusively at once.
func TestUringLetsGoOfTheDevice(t *testing.T) {
	needUring(t)
	path := testdev.Loop(t, 4<<20, 512)
	mem, free, err := ioengine.AlignedAlloc(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer free()
	for _, o := range []ioengine.UringOptions{{Depth: 32}, {Depth: 32, Memory: [][]byte{mem}}} {
		for range 10 {
			e, end := uringOn(t, path, o)
			ops := make([]ioengine.Op, 64)
			for i := range ops {
				at := i * block
				ops[i] = ioengine.Op{Dir: ioengine.Dir(i % 2), Off: int64(at), Vec: [][]byte{mem[at : at+block]}}
			}
			e.Submit(ops, func(i, _ int, err error) {
				if err != nil {
					t.Errorf("op %d: %v", i, err)
				}
			})
			end()                                                                 // with these under way
			fd, err := unix.Open(path, unix.O_RDWR|unix.O_EXCL|unix.O_CLOEXEC, 0) // Open would try again
			if err != nil {
				t.Fatalf("the engine has kept the device: %v", err)
			}
			_ = unix.Close(fd)
		}
	}
}

// kind is memory of one kind, in parts.
type kind struct {
	name string
	vec  [][]byte
}

// kinds returns n bytes of memory each: registered, not registered, and mixed.
func kinds(t *testing.T, n int) (memory [][]byte, all []kind) {
	t.Helper()
	alloc := func() []byte {
		mem, free, err := ioengine.AlignedAlloc(2 * n)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(free)
		return mem
	}
	first, second, plain := alloc(), alloc(), alloc()
	return [][]byte{first, second}, []kind{
		{"not registered", [][]byte{plain[:n]}},
		{"not registered, in parts", [][]byte{plain[n : n+block], plain[n+block : 2*n]}},
		{"registered", [][]byte{first[block : block+n]}},
		{"registered, in parts", [][]byte{second[:block], second[n : 2*n-block]}},
		{"registered in two regions", [][]byte{first[n+block:], second[2*n-block:]}},
		{"registered in part", [][]byte{first[:block], plain[block:n]}},
		{"all of a region", [][]byte{second[:n], second[n:]}},
	}
}

// Memory that is registered moves the same bytes as memory that is not, both ways.
func TestRegisteredMemoryMovesTheSameBytes(t *testing.T) {
	needUring(t)
	const n = 16 * block
	memory, all := kinds(t, n)
	e, end := uringOn(t, testdev.Loop(t, 4<<20, 512), ioengine.UringOptions{Depth: 4, Memory: memory})
	defer end()
	if err := e.Registered(); err != nil {
		t.Skipf("no memory can be registered here: %v", err)
	}
	for i, from := range all {
		for j, to := range all {
			t.Run(fmt.Sprintf("%s to %s", from.name, to.name), func(t *testing.T) {
				write := ioengine.Op{Dir: ioengine.Write, Off: int64(i) * 2 * n, Vec: from.vec}
				number(from.vec, uint64(i*len(all)+j))
				want := bytes.Join(from.vec, nil)
				carry(t, e, []ioengine.Op{write})
				size := min(len(want), len(bytes.Join(to.vec, nil)))
				for _, part := range to.vec {
					clear(part)
				}
				carry(t, e, []ioengine.Op{{Dir: ioengine.Read, Off: write.Off, Vec: to.vec}})
				if got := bytes.Join(to.vec, nil); !bytes.Equal(got[:size], want[:size]) {
					t.Error("read something else than was written")
				}
			})
		}
	}
}

// number fills memory with numbers that go on over its parts.
func number(vec [][]byte, seed uint64) {
	at := seed << 32
	for _, part := range vec {
		for i := 0; i < len(part); i += 8 {
			binary.LittleEndian.PutUint64(part[i:], at)
			at++
		}
	}
}
