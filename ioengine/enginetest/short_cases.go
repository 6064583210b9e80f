// SPDX-License-Identifier: Apache-2.0

package enginetest

import (
	"errors"
	"fmt"
	"slices"
	"syscall"

	"github.com/rawblockd/rawblockd/ioengine"
)

// batch returns ops of n bytes each, one beside the other from the start of the
// device. Writes bring a pattern.
func (r *rig) batch(dir ioengine.Dir, count int, n int64, version byte) []ioengine.Op {
	r.Helper()
	all := int64(count) * n
	mem := r.mem(all)
	if dir == ioengine.Write {
		mem = r.pattern(0, all, version)
	}
	ops := make([]ioengine.Op, count)
	for i := range ops {
		off := int64(i) * n
		ops[i] = ioengine.Op{Dir: dir, Off: off, Vec: [][]byte{mem[off : off+n : off+n]}}
	}
	return ops
}

// carried checks that ops succeeded in full and moved the right bytes.
func (r *rig) carried(ops []ioengine.Op, results []ioengine.Result, version byte) {
	r.Helper()
	r.whole(ops, results)
	for _, op := range ops {
		if op.Dir == ioengine.Read {
			r.got(op, version)
		} else {
			r.holds(op.Off, op.Len(), version)
		}
	}
}

// splits is where a vector of five blocks may be divided, in blocks.
func splits() [][]int64 { return [][]int64{{}, {1}, {2, 4}, {1, 2, 3, 4}} }

// divide gives an op of one part the parts that end at some blocks.
func (r *rig) divide(op *ioengine.Op, at []int64) {
	whole, from := op.Vec[0], int64(0)
	op.Vec = nil
	for _, end := range at {
		op.Vec = append(op.Vec, whole[from:end*r.block])
		from = end * r.block
	}
	op.Vec = append(op.Vec, whole[from:])
}

// ends is where a transfer of so many blocks may end early: at the first and the last
// byte, on every boundary of blocks and right beside it, and amid a block.
func (r *rig) ends(blocks int64) []int64 {
	ends := []int64{1, 7, r.block/2 + 1}
	for b := int64(1); b < blocks; b++ {
		ends = append(ends, b*r.block-1, b*r.block, b*r.block+1, b*r.block+r.block/2)
	}
	return append(ends, blocks*r.block-1)
}

// A transfer that ends early, at whichever byte, is continued there: nothing is left
// out and nothing is moved twice to the wrong place.
func testShortAnywhere(r *rig) {
	const blocks = 5
	n := blocks * r.block
	for v, split := range splits() {
		version := byte(v + 1)
		for _, dir := range []ioengine.Dir{ioengine.Write, ioengine.Read} {
			for _, end := range r.ends(blocks) {
				op := r.batch(dir, 1, n, version)
				r.divide(&op[0], split)
				r.sim().ShortAt(end)
				before := r.sim().Counts().Transfers[dir]
				r.carried(op, r.do(op...), version)
				if got := r.sim().Counts().Transfers[dir] - before; got < 2 {
					r.Errorf("%s that ends at byte %d: %d transfers, want more", dir, end, got)
				}
			}
		}
	}
}

// The same of many ops at once, several times in some of them.
func testShortManyAtOnce(r *rig) {
	const blocks = 5
	n, ends := blocks*r.block, r.ends(blocks)
	for version, dir := range []ioengine.Dir{ioengine.Write, ioengine.Read, ioengine.Write} {
		ops := r.batch(dir, 2*len(ends), n, byte(version|1))
		for i := range ops {
			r.divide(&ops[i], splits()[i%len(splits())])
			cuts := []int64{ops[i].Off + ends[i%len(ends)]}
			if i >= len(ends) {
				cuts = append(cuts, ops[i].Off+ends[(i+5)%len(ends)], ops[i].Off+ends[(i+11)%len(ends)])
			}
			r.sim().ShortAt(cuts...)
		}
		r.carried(ops, r.do(ops...), byte(version|1))
		r.sim().Heal()
	}
}

// Many ops meet EAGAIN over and over, between parts of one transfer too.
func testStorm(r *rig) {
	const count = 64
	n := 4 * r.block
	for version, dir := range []ioengine.Dir{ioengine.Write, ioengine.Read} {
		r.sim().AgainEach(10)
		r.sim().Short(int(r.block) + 1)
		ops := r.batch(dir, count, n, 1)
		results := r.do(ops...)
		if got, least := r.sim().Counts().Transfers[dir], count*4*11; got < least {
			r.Errorf("%d transfers in storm %d, want at least %d", got, version, least)
		}
		r.sim().Heal()
		r.carried(ops, results, 1)
	}
}

// One of many transfers fails, whichever it is: one op says so.
func testNthFails(r *rig) {
	const count = 32
	for _, k := range []int{1, 9, 32} {
		for _, dir := range []ioengine.Dir{ioengine.Write, ioengine.Read} {
			ops := r.batch(dir, count, r.block, byte(k))
			r.sim().FailNth(k, syscall.EIO)
			results := r.do(ops...)
			failed := slices.IndexFunc(results, func(res ioengine.Result) bool { return res.Err != nil })
			if failed < 0 {
				r.Fatalf("transfer %d failed and no op says so", k)
			}
			if res := results[failed]; !errors.Is(res.Err, syscall.EIO) || res.N != 0 {
				r.Errorf("%s %d: got %d bytes, %v, want 0 bytes, %v", dir, failed, res.N, res.Err, syscall.EIO)
			}
			again := ops[failed]
			r.carried([]ioengine.Op{again}, r.do(again), byte(k))
			r.carried(slices.Delete(ops, failed, failed+1), slices.Delete(results, failed, failed+1), byte(k))
		}
	}
}

// C12: batches deeper than the engine of which one op is short and one fails, and then
// a clean batch.
func testDeepWithFaults(r *rig) {
	const short, fails = 7, 11
	n := 2 * r.block
	for _, count := range []int{40, 1000} {
		for _, dir := range []ioengine.Dir{ioengine.Write, ioengine.Read} {
			name := fmt.Sprintf("%d %ss", count, dir)
			ops := r.batch(dir, count, n, byte(count))
			r.sim().ShortAt(short*n + r.block/2)
			r.sim().FailRange(dir, fails*n, n, syscall.EIO)
			results := r.do(ops...)
			r.sim().Heal()
			if res := results[fails]; !errors.Is(res.Err, syscall.EIO) || int64(res.N) >= n {
				r.Errorf("%s: op %d: got %d bytes, %v, want fewer than %d and %v", name, fails, res.N, res.Err, n, syscall.EIO)
			}
			r.carried(ops[:fails], results[:fails], byte(count))
			r.carried(ops[fails+1:], results[fails+1:], byte(count))
			if got := r.engine.Stats(); got.InFlightOps != 0 || got.InFlightBytes != 0 || got.QueuedOps != 0 {
				r.Errorf("%s: the idle engine counts %+v", name, got)
			}
			r.carried(ops, r.do(ops...), byte(count))
		}
	}
}
