// SPDX-License-Identifier: Apache-2.0

package enginetest

import (
	"context"
	"errors"
	"math/rand/v2"
	"sync"
	"syscall"

	"github.com/rawblockd/rawblockd/ioengine"
)

// chaos is ops of all kinds, each on a place of its own, and what has to become of
// them.
type chaos struct {
	*rig
	rnd   *rand.Rand
	ops   []ioengine.Op
	fails []bool // EIO
	bad   []bool // not aligned
}

// testRandom has many callers bring batches of all kinds while the device does
// everything at once that one op can meet.
func testRandom(r *rig) {
	const rounds, count = 3, 200
	for seed := range uint64(rounds) {
		c := &chaos{rig: r, rnd: rand.New(rand.NewPCG(seed, uint64(r.block)))}
		r.sim().Heal()
		r.fill(count*5*r.block, 1)
		before := r.engine.Stats()
		c.make(count)
		results := c.run()
		r.sim().Heal()
		c.judge(results)
		after := r.engine.Stats()
		ops := after.Ops[0] + after.Ops[1] - before.Ops[0] - before.Ops[1]
		if ops != uint64(len(c.ops)) || after.InFlightOps != 0 || after.InFlightBytes != 0 || after.QueuedOps != 0 {
			r.Errorf("seed %d: %d ops were counted of %d, and idle the engine counts %+v", seed, ops, len(c.ops), after)
		}
	}
}

// make invents ops and the faults that they meet.
func (c *chaos) make(count int) {
	const blocks = 5
	n := blocks * c.block
	c.fails, c.bad = make([]bool, count), make([]bool, count)
	reads, writes := c.batch(ioengine.Read, count, n, 1), c.batch(ioengine.Write, count, n, 2)
	c.sim().AgainEach(c.rnd.IntN(8))
	for i := range count {
		op := reads[i]
		if c.rnd.IntN(2) == 0 {
			op = writes[i]
		}
		c.divide(&op, splits()[c.rnd.IntN(len(splits()))])
		for range c.rnd.IntN(4) {
			c.sim().ShortAt(op.Off + 1 + c.rnd.Int64N(n-1))
		}
		switch c.rnd.IntN(12) {
		case 0:
			c.fails[i] = true
			c.sim().FailRange(op.Dir, op.Off+c.rnd.Int64N(blocks)*c.block, c.block, syscall.EIO)
		case 1:
			c.bad[i] = true
			op.Vec[0] = op.Vec[0][:len(op.Vec[0])-8]
		}
		c.ops = append(c.ops, op)
	}
}

// run brings the ops in batches, several at once, while some of them hang for a while.
func (c *chaos) run() []ioengine.Result {
	results := make([]ioengine.Result, len(c.ops))
	var releases []func()
	for range 3 { // fewer than the four places that every engine has
		releases = append(releases, c.sim().Hang(c.ops[c.rnd.IntN(len(c.ops))].Off, c.block))
	}
	var wg sync.WaitGroup
	for from := 0; from < len(c.ops); {
		to := min(from+1+c.rnd.IntN(60), len(c.ops))
		first := from
		wg.Go(func() { copy(results[first:to], ioengine.Do(context.Background(), c.engine, c.ops[first:to])) })
		from = to
	}
	c.sim().AwaitInFlight(1)
	for _, release := range releases {
		release()
	}
	wg.Wait()
	return results
}

func (c *chaos) judge(results []ioengine.Result) {
	c.Helper()
	for i, res := range results {
		switch op := c.ops[i : i+1]; {
		case c.bad[i]:
			if !errors.Is(res.Err, ioengine.ErrUnaligned) || res.N != 0 {
				c.Errorf("op %d: got %d bytes, %v, want %v", i, res.N, res.Err, ioengine.ErrUnaligned)
			}
			c.holds(op[0].Off, c.block, 1)
		case c.fails[i]:
			if !errors.Is(res.Err, syscall.EIO) || int64(res.N) >= op[0].Len() {
				c.Errorf("op %d: got %d bytes, %v, want %v", i, res.N, res.Err, syscall.EIO)
			}
		case op[0].Dir == ioengine.Read:
			c.carried(op, results[i:i+1], 1)
		default:
			c.carried(op, results[i:i+1], 2)
		}
	}
}
