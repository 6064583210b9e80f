// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"time"

	"github.com/rawblockd/rawblockd/ioengine"
)

// Buffer returns memory of the stream budget for a payload of n bytes, which is to
// be added to the batch next. It waits while the batch's own payloads that are not
// written yet take its share, and then in the order of asking. With a positive
// still it fails with ErrNoMemory when nothing has moved for that long in what
// others hold. Whoever does not Add it releases it.
func (st *Storing) Buffer(ctx context.Context, n int64, still time.Duration) (*ioengine.Buf, error) {
	trace := traceOf(ctx)
	trace.At(StageQueue)
	defer trace.At(StageStart)
	if err := st.window.await(ctx, n); err != nil {
		return nil, err
	}
	return st.s.buffer(ctx, n, still)
}

// hold charges an item's memory to the batch until it is dropped.
func (st *Storing) hold(it *storeItem) {
	if it.Buf != nil {
		it.charge = it.Buf.Len()
		st.window.add(it.charge)
	}
}

// drop gives an item's memory back.
func (st *Storing) drop(it *storeItem) {
	if it.Buf == nil {
		return
	}
	it.Buf.Release()
	it.Buf = nil
	st.uncharge(it)
}

func (st *Storing) uncharge(it *storeItem) {
	if it.charge > 0 {
		st.window.give(it.charge)
		it.charge = 0
	}
}

// keep tells whether an item that only follows keeps its bytes for a takeover: only
// while memory is plenty, and as much of it as the batch may hold in writes. Those
// bytes wait for another batch, so writes do not wait for them.
func (st *Storing) keep(it *storeItem) bool {
	b := st.s.o.Buffers
	if it.Buf == nil || b.InUse() > b.Cap()/2 || it.charge > 0 && st.kept+it.charge > b.Cap()/windowShare {
		return false
	}
	st.kept += it.charge
	st.uncharge(it)
	return true
}
