// SPDX-License-Identifier: Apache-2.0

package enginetest

import (
	"context"
	"errors"
	"strconv"
	"strings"
	"sync"
	"unsafe"

	"github.com/rawblockd/rawblockd/ioengine"
)

const kib = 1 << 10

func testRoundTrip(r *rig) {
	var writes, reads []ioengine.Op
	off := int64(0)
	for i := range int64(12) {
		n := (i%4*16 + 1) * 4 * kib
		writes = append(writes, r.write(off, n, 1))
		reads = append(reads, r.read(off, n))
		off += n
	}
	r.whole(writes, r.do(writes...))
	r.whole(reads, r.do(reads...))
	for _, op := range reads {
		r.got(op, 1)
	}
}

func testManyParts(r *rig) {
	const parts = 1500 // more than the 1024 of one system call
	n := parts * r.block
	whole := r.pattern(0, n, 3)
	write, read := ioengine.Op{Dir: ioengine.Write}, ioengine.Op{Dir: ioengine.Read}
	into := r.mem(n)
	for i := range int64(parts) {
		write.Vec = append(write.Vec, whole[i*r.block:(i+1)*r.block])
		read.Vec = append(read.Vec, into[i*r.block:(i+1)*r.block])
	}
	r.whole([]ioengine.Op{write}, r.do(write))
	r.whole([]ioengine.Op{read}, r.do(read))
	r.got(read, 3)
}

func testMixed(r *rig) {
	const n = 16 * kib
	r.fill(8*n, 1)
	var ops []ioengine.Op
	for i := range int64(8) {
		ops = append(ops, r.read(i*n, n), r.write((i+8)*n, n, 2))
	}
	r.whole(ops, r.do(ops...))
	for i := range int64(8) {
		r.got(ops[2*i], 1)
		r.holds((i+8)*n, n, 2)
	}
}

func testDeepBatch(r *rig) {
	const depth = 640
	r.fill(depth/8*r.block, 1)
	ops := make([]ioengine.Op, depth)
	for i := range ops {
		ops[i] = r.read(int64(i/8)*r.block, r.block)
	}
	r.whole(ops, r.do(ops...))
	for _, op := range ops {
		r.got(op, 1)
	}
}

// unaligned returns ops that direct I/O cannot carry out.
func unaligned(r *rig) []ioengine.Op {
	shortened := r.read(0, 2*r.block)
	shortened.Vec[0] = shortened.Vec[0][:r.block+1]
	second := r.write(0, r.block, 1)
	second.Vec = append(second.Vec, r.mem(r.block)[:r.block-8])
	moved := r.read(0, r.block)
	moved.Off = 8
	negative := r.write(0, r.block, 1)
	negative.Off = -8
	ops := []ioengine.Op{shortened, second, moved, negative}
	if r.geo.MemAlign > 1 {
		memory := r.read(0, r.block)
		memory.Vec[0] = r.mem(2 * r.block)[1 : r.block+1]
		if uintptr(unsafe.Pointer(&memory.Vec[0][0]))%uintptr(r.geo.MemAlign) == 0 {
			r.Fatal("the test's memory is aligned after all")
		}
		ops = append(ops, memory)
	}
	return ops
}

func testUnaligned(r *rig) {
	r.fill(4*r.block, 1)
	bad := unaligned(r)
	good := r.read(r.block, 2*r.block)
	results := r.do(append(bad, good)...)
	for i, res := range results[:len(bad)] {
		if !errors.Is(res.Err, ioengine.ErrUnaligned) || res.N != 0 {
			r.Errorf("unaligned op %d: got %d bytes, %v, want 0 bytes, %v", i, res.N, res.Err, ioengine.ErrUnaligned)
		}
	}
	r.whole([]ioengine.Op{good}, results[len(bad):])
	r.got(good, 1)
	r.holds(0, r.block, 1)
}

// C8: what is skewed by 512 bytes works where the device has such sectors; elsewhere the
// op's error names the alignment that was missed. The others are not concerned.
func testSkewed(r *rig) {
	const skew = 512
	r.fill(8*r.block, 1)
	offset, length, memory := r.read(0, r.block), r.read(0, 2*r.block), r.read(0, r.block)
	offset.Off = skew
	length.Vec[0] = length.Vec[0][:r.block+skew]
	memory.Vec[0] = r.mem(2 * r.block)[skew : skew+r.block]
	skewed := []struct {
		what string
		op   ioengine.Op
		need int
	}{{"offset", offset, r.geo.Block}, {"length", length, r.geo.Block}, {"memory", memory, r.geo.MemAlign}}
	var ops, good []ioengine.Op
	for i, s := range skewed {
		good = append(good, r.read(int64(i)*r.block, 2*r.block))
		ops = append(ops, s.op, good[i])
	}
	results := r.do(ops...)
	for i, s := range skewed {
		r.carried(good[i:i+1], results[2*i+1:2*i+2], 1)
		res := results[2*i]
		switch {
		case skew%s.need == 0:
			r.carried([]ioengine.Op{s.op}, []ioengine.Result{res}, 1)
		case res.N != 0 || !errors.Is(res.Err, ioengine.ErrUnaligned) || !strings.Contains(res.Err.Error(), strconv.Itoa(s.need)):
			r.Errorf("%s skewed by %d: got %d bytes, %v, want %v that names %d", s.what, skew, res.N, res.Err, ioengine.ErrUnaligned, s.need)
		}
	}
}

func testEndOfDevice(r *rig) {
	size := r.geo.Size
	last := r.write(size-2*r.block, 2*r.block, 1)
	across := r.write(size-r.block, 2*r.block, 2)
	beyond := r.read(size, r.block)
	far := r.read(size+1<<40, r.block)
	before := r.read(-r.block, r.block)
	r.whole([]ioengine.Op{last}, r.do(last))
	good := r.read(size-2*r.block, 2*r.block)
	results := r.do(across, beyond, far, before, good)
	for i, res := range results[:4] {
		if !errors.Is(res.Err, ioengine.ErrEndOfDevice) {
			r.Errorf("op %d beyond the end: got %v, want %v", i, res.Err, ioengine.ErrEndOfDevice)
		}
	}
	r.whole([]ioengine.Op{good}, results[4:])
	r.got(good, 1)
}

func testEmpty(r *rig) {
	r.engine.Submit(nil, func(i, _ int, _ error) { r.Errorf("op %d of an empty batch was answered", i) })
	ops := []ioengine.Op{{Dir: ioengine.Read}, {Dir: ioengine.Write, Vec: [][]byte{{}, nil}}}
	r.whole(ops, r.do(ops...))
}

func testConcurrent(r *rig) {
	const callers, rounds, n = 8, 10, 32 * kib
	var wg sync.WaitGroup
	for c := range int64(callers) {
		wg.Go(func() {
			for round := range byte(rounds) {
				first, second := r.write(c*2*n, n, round), r.write((c*2+1)*n, n, round)
				writes := []ioengine.Op{first, second}
				r.whole(writes, r.do(writes...))
				reads := []ioengine.Op{r.read(c*2*n, n), r.read((c*2+1)*n, n)}
				r.whole(reads, r.do(reads...))
				r.got(reads[0], round)
				r.got(reads[1], round)
			}
		})
	}
	wg.Wait()
}

func testSubmitFromDone(r *rig) {
	r.fill(2*r.block, 1)
	second := make(chan *answers, 1)
	next := []ioengine.Op{r.read(r.block, r.block)}
	r.engine.Submit([]ioengine.Op{r.read(0, r.block)}, func(int, int, error) { second <- r.submit(next) })
	r.whole(next, (<-second).wait())
	r.got(next[0], 1)
}

func testStats(r *rig) {
	ops := []ioengine.Op{
		r.write(0, 4*kib, 1), r.write(4*kib, 8*kib, 1), r.read(64*kib, 16*kib),
		r.read(r.geo.Size, r.block),
	}
	r.do(ops...)
	if err := r.engine.Flush(); err != nil {
		r.Fatal(err)
	}
	got := r.engine.Stats()
	if got.Name == "" {
		r.Error("the engine has no name")
	}
	if got.MaxInFlight < 1 || got.MaxInFlight > 3 {
		r.Errorf("most ops in flight: got %d, want 1 to 3", got.MaxInFlight)
	}
	if got.Depth < 4 {
		r.Errorf("depth: got %d, want at least the four ops that Open promises", got.Depth)
	}
	got.Name, got.MaxInFlight, got.Depth = "", 0, 0
	want := ioengine.Stats{
		Ops: [2]uint64{2, 2}, Bytes: [2]uint64{16 * kib, 12 * kib}, Errors: [2]uint64{1, 0}, Flushes: 1,
	}
	if got != want {
		r.Errorf("counters:\n got %+v\nwant %+v", got, want)
	}
}

func testDoEnded(r *rig) {
	r.fill(r.block, 1)
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	op := r.write(0, r.block, 2)
	res := ioengine.Do(ctx, r.engine, []ioengine.Op{op})[0]
	if !errors.Is(res.Err, context.Canceled) || res.Detached || res.N != 0 {
		r.Errorf("got %+v, want nothing done, not detached, %v", res, context.Canceled)
	}
	r.holds(0, r.block, 1)
}

func testAfterClose(r *rig) {
	r.fill(2*r.block, 1)
	for range 2 {
		if err := r.engine.Close(); err != nil {
			r.Fatal(err)
		}
	}
	for i, res := range r.do(r.write(0, r.block, 2), r.read(r.block, r.block)) {
		if !errors.Is(res.Err, ioengine.ErrClosed) || res.N != 0 {
			r.Errorf("op %d after close: got %d bytes, %v, want %v", i, res.N, res.Err, ioengine.ErrClosed)
		}
	}
	if err := r.engine.Flush(); !errors.Is(err, ioengine.ErrClosed) {
		r.Errorf("flush after close: got %v, want %v", err, ioengine.ErrClosed)
	}
	r.holds(0, 2*r.block, 1)
}
