// SPDX-License-Identifier: Apache-2.0

package enginetest

import (
	"bytes"
	"context"
	"errors"
	"syscall"

	"github.com/rawblockd/rawblockd/internal/simdev"
	"github.com/rawblockd/rawblockd/ioengine"
)

func testOrderFree(r *rig) {
	r.fill(8*r.block, 1)
	release := r.sim().Hang(0, r.block)
	defer release()
	ops := make([]ioengine.Op, 8)
	for i := range ops {
		ops[i] = r.read(int64(i)*r.block, r.block)
	}
	a := r.submit(ops)
	a.await(7) // all but the first, which was submitted first
	release()
	r.whole(ops, a.wait())
	for _, op := range ops {
		r.got(op, 1)
	}
}

func testUnalignedUntouched(r *rig) {
	bad := unaligned(r)
	r.do(bad...)
	if got := r.sim().Counts(); got != (simdev.Counts{}) {
		r.Errorf("unaligned ops reached the device: %+v", got)
	}
	if got := r.engine.Stats().MaxInFlight; got != 0 {
		r.Errorf("unaligned ops counted as in flight: %d", got)
	}
}

func testShort(r *rig) {
	n := 40 * r.block
	for version, short := range []int64{r.block, 3 * r.block, 2*r.block + r.block/2 + 1} {
		v := byte(version + 1)
		r.sim().Short(int(short))
		write := r.write(0, n, v)
		write.Vec = [][]byte{write.Vec[0][:7*r.block], nil, write.Vec[0][7*r.block : 8*r.block], write.Vec[0][8*r.block:]}
		read := r.read(0, n)
		read.Vec = [][]byte{read.Vec[0][:r.block], read.Vec[0][r.block : 20*r.block], read.Vec[0][20*r.block:]}
		r.whole([]ioengine.Op{write}, r.do(write))
		r.whole([]ioengine.Op{read}, r.do(read))
		r.got(read, v)
		r.sim().Short(0)
		r.holds(0, n, v)
	}
}

func testAgain(r *rig) {
	r.fill(4*r.block, 1)
	r.sim().Again(5)
	op := r.read(0, 4*r.block)
	r.whole([]ioengine.Op{op}, r.do(op))
	r.got(op, 1)
}

func testAgainForever(r *rig) {
	r.sim().Again(1 << 30)
	res := r.do(r.read(0, r.block))[0]
	if !errors.Is(res.Err, syscall.EAGAIN) {
		r.Errorf("got %v, want %v", res.Err, syscall.EAGAIN)
	}
}

func testOneFails(r *rig) {
	const n = 16 * kib
	for _, dir := range []ioengine.Dir{ioengine.Read, ioengine.Write} {
		r.sim().Heal()
		r.fill(16*n, 1)
		r.sim().FailRange(dir, 5*n, r.block, syscall.EIO)
		ops := make([]ioengine.Op, 16)
		for i := range ops {
			ops[i] = r.read(int64(i)*n, n)
			if dir == ioengine.Write {
				ops[i] = r.write(int64(i)*n, n, 1)
			}
		}
		results := r.do(ops...)
		if res := results[5]; !errors.Is(res.Err, syscall.EIO) || res.N >= n {
			r.Errorf("failing %s: got %d bytes, %v, want fewer than %d and %v", dir, res.N, res.Err, n, syscall.EIO)
		}
		r.whole(append(ops[:5:5], ops[6:]...), append(results[:5:5], results[6:]...))
		if got := r.engine.Stats().Errors[dir]; got != 1 {
			r.Errorf("%s errors counted: got %d, want 1", dir, got)
		}
	}
}

func testCleanAfterError(r *rig) {
	r.fill(4*r.block, 1)
	r.sim().FailRange(ioengine.Read, 0, r.geo.Size, syscall.EIO)
	ops := []ioengine.Op{r.read(0, r.block), r.read(r.block, r.block), r.read(2*r.block, r.block)}
	for i, res := range r.do(ops...) {
		if !errors.Is(res.Err, syscall.EIO) {
			r.Errorf("op %d: got %v, want %v", i, res.Err, syscall.EIO)
		}
	}
	r.sim().Heal()
	r.whole(ops, r.do(ops...))
	for _, op := range ops {
		r.got(op, 1)
	}
}

func testVanished(r *rig) {
	r.sim().Vanish()
	for i, res := range r.do(r.read(0, r.block), r.write(0, r.block, 1)) {
		if !errors.Is(res.Err, syscall.ENODEV) {
			r.Errorf("op %d: got %v, want %v", i, res.Err, syscall.ENODEV)
		}
	}
	if err := r.engine.Flush(); !errors.Is(err, syscall.ENODEV) {
		r.Errorf("flush: got %v, want %v", err, syscall.ENODEV)
	}
}

func testFlush(r *rig) {
	if err := r.engine.Flush(); err != nil {
		r.Error(err)
	}
	if got := r.sim().Counts().Flushes; got != 1 {
		r.Errorf("flushes on the device: got %d, want 1", got)
	}
}

// What was answered before a flush survives a power cut right after it, and the flush
// waits for nothing that hangs.
func testFlushCovers(r *rig) {
	const count = 32
	ops := r.batch(ioengine.Write, count, r.block, 1)
	r.whole(ops, r.do(ops...))
	release := r.sim().Hang(count*r.block, r.block)
	defer release()
	stuck := r.submit([]ioengine.Op{r.write(count*r.block, r.block, 1)})
	r.sim().AwaitInFlight(1)
	if err := r.engine.Flush(); err != nil {
		r.Error(err)
	}
	after := r.sim().Crash(func(int64, int) int { return 0 })
	for i, op := range ops {
		if got := after.Peek(op.Off, int(r.block)); !bytes.Equal(got, op.Vec[0]) {
			r.Errorf("write %d was answered, flushed and lost", i)
		}
	}
	release()
	stuck.wait()
}

func testFlushFails(r *rig) {
	r.sim().FailFlush(syscall.EIO)
	if err := r.engine.Flush(); !errors.Is(err, syscall.EIO) {
		r.Errorf("got %v, want %v", err, syscall.EIO)
	}
	if got := r.sim().Counts().Flushes; got != 1 {
		r.Errorf("a failed flush was tried %d times, want once", got)
	}
}

func testHang(r *rig) {
	r.fill(4*r.block, 1)
	release := r.sim().Hang(0, r.block)
	defer release()
	stuck := []ioengine.Op{r.read(0, r.block)}
	a := r.submit(stuck)
	r.sim().AwaitInFlight(1)
	for range 3 { // others pass
		op := r.read(2*r.block, 2*r.block)
		r.whole([]ioengine.Op{op}, r.do(op))
		r.got(op, 1)
	}
	if got := a.answered(); got != 0 {
		r.Errorf("the hanging op was answered")
	}
	if got := r.engine.Stats(); got.InFlightOps != 1 || got.InFlightBytes != r.block {
		r.Errorf("in flight: got %d ops, %d bytes, want 1, %d", got.InFlightOps, got.InFlightBytes, r.block)
	}
	release()
	r.whole(stuck, a.wait())
	r.got(stuck[0], 1)
}

// Only what is on the device ages: not what waits for a place there, and nothing
// once it was answered.
func testAges(r *rig) {
	release := r.sim().Hang(0, r.block)
	defer release()
	if got := r.engine.Stats(); got.OldestOp != 0 || got.OldestFlush != 0 {
		r.Errorf("idle: op %v, flush %v old", got.OldestOp, got.OldestFlush)
	}
	a := r.submit([]ioengine.Op{r.read(0, r.block)})
	r.sim().AwaitInFlight(1)
	first := r.engine.Stats().OldestOp
	r.do(r.read(r.block, r.block)) // a younger one comes and goes
	r.until("the op that hangs ages", func() bool { return r.engine.Stats().OldestOp > first })
	releaseFlush := r.sim().HangFlush()
	defer releaseFlush()
	flushed := make(chan error, 1)
	go func() { flushed <- r.engine.Flush() }()
	r.until("the flush that hangs has an age", func() bool { return r.engine.Stats().OldestFlush > 0 })
	release()
	a.wait()
	if got := r.engine.Stats().OldestOp; got != 0 {
		r.Errorf("every op was answered, one is %v old", got)
	}
	releaseFlush()
	if err := <-flushed; err != nil {
		r.Error(err)
	}
	if got := r.engine.Stats().OldestFlush; got != 0 {
		r.Errorf("the flush has ended and is %v old", got)
	}
}

func testDoLeaves(r *rig) {
	r.fill(4*r.block, 1)
	release := r.sim().Hang(0, r.block)
	defer release()
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	late := make(chan int, 2)
	ops := []ioengine.Op{r.read(0, r.block), r.read(r.block, r.block)}
	counted := counting{r.engine, make(chan int, 2)}
	go func() {
		<-counted.answered // the second op
		cancel()
	}()
	results := ioengine.DoLate(ctx, counted, ops, func(i int, res ioengine.Result) {
		if res.Err != nil || int64(res.N) != r.block {
			r.Errorf("late result: got %+v", res)
		}
		late <- i
	})
	if res := results[0]; !res.Detached || !errors.Is(res.Err, context.Canceled) {
		r.Errorf("hanging op: got %+v, want detached, %v", res, context.Canceled)
	}
	r.whole(ops[1:], results[1:])
	ops[0].Off = -1 // the slice is the caller's again
	release()
	if i := <-late; i != 0 {
		r.Errorf("late answer for op %d, want 0", i)
	}
	if results[0].N != 0 {
		r.Error("a result changed after Do had returned")
	}
}

// counting tells about each answer after it was given.
type counting struct {
	ioengine.Engine
	answered chan int
}

func (c counting) Submit(ops []ioengine.Op, done ioengine.Done) {
	c.Engine.Submit(ops, func(i, n int, err error) {
		done(i, n, err)
		c.answered <- i
	})
}

func testCloseInFlight(r *rig) {
	r.fill(32*r.block, 1)
	release := r.sim().Hang(0, r.geo.Size)
	defer release()
	ops := make([]ioengine.Op, 32)
	for i := range ops {
		ops[i] = r.read(int64(i)*r.block, r.block)
	}
	a := r.submit(ops)
	r.sim().AwaitInFlight(1)
	answered := make(chan int, 1)
	go func() {
		if err := r.engine.Close(); err != nil {
			r.Errorf("close: %v", err)
		}
		answered <- a.answered()
	}()
	r.until("close has begun", func() bool { return errors.Is(r.engine.Flush(), ioengine.ErrClosed) })
	select {
	case <-answered:
		r.Fatal("close returned while everything hangs")
	default:
	}
	release()
	if got := <-answered; got != len(ops) {
		r.Errorf("close returned with %d of %d ops answered", got, len(ops))
	}
	r.whole(ops, a.wait()) // accepted before Close: carried out
	if got := r.sim().InFlight(); got != 0 {
		r.Errorf("%d transfers are still on the device", got)
	}
}
