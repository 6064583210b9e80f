// SPDX-License-Identifier: Apache-2.0

package enginetest

import (
	"bytes"
	"context"
	"errors"
	"slices"

	"github.com/rawblockd/rawblockd/ioengine"
)

// Memory of an op whose caller has gone is the engine's until done, and from then on
// its next owner's alone: what he puts there stays, and does not come to the device
// (H19).
func testDetached(dir ioengine.Dir) func(r *rig) {
	return func(r *rig) {
		const count, n, version = 4, 16 * kib, 3
		r.fill(count*n, version)
		ops := r.batch(dir, count, n, version)
		brought := make([][]byte, count)
		recycled := make(chan int, 2*count)
		release := r.sim().Hang(0, count*n)
		defer release()
		ctx, cancel := context.WithCancel(context.Background())
		go func() {
			r.sim().AwaitInFlight(1)
			cancel()
		}()
		results := ioengine.DoLate(ctx, r.engine, ops, func(i int, res ioengine.Result) {
			r.whole(ops[i:i+1], []ioengine.Result{res})
			brought[i] = bytes.Clone(ops[i].Vec[0])
			fill(ops[i].Vec[0], 0x55) // the next owner
			recycled <- i
		})
		for i, res := range results {
			if !res.Detached || !errors.Is(res.Err, context.Canceled) {
				r.Errorf("%s %d: got %+v, want detached, %v", dir, i, res, context.Canceled)
			}
		}
		if got := len(recycled); got != 0 {
			r.Errorf("the memory of %d %ss was given back while they hang", got, dir)
		}
		release()
		for range count {
			<-recycled
		}
		r.wantLetGo(ops, brought, version)
		if got := len(recycled); got != 0 {
			r.Errorf("%d %ss were given back twice", got, dir)
		}
	}
}

// wantLetGo ends the engine and checks what the ops did, and that nothing was done
// after their memory had been overwritten.
func (r *rig) wantLetGo(ops []ioengine.Op, brought [][]byte, version byte) {
	r.Helper()
	other := []ioengine.Op{r.read(ops[0].Off, ops[0].Len())} // the engine serves on
	r.carried(other, r.do(other...), version)
	if err := r.engine.Close(); err != nil {
		r.Error(err)
	}
	for i, op := range ops {
		r.holds(op.Off, op.Len(), version)
		r.got(ioengine.Op{Off: op.Off, Vec: [][]byte{brought[i]}}, version)
		if at := slices.IndexFunc(op.Vec[0], func(b byte) bool { return b != 0x55 }); at >= 0 {
			r.Errorf("%s %d: byte %d of its memory was touched after done", op.Dir, i, at)
		}
	}
}

func fill(mem []byte, value byte) {
	for i := range mem {
		mem[i] = value
	}
}
