// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rawblockd/rawblockd/ioengine"
	"github.com/rawblockd/rawblockd/slab"
)

// shareWait is how long a store waits for its part of a slab's share of the stream
// memory. It holds its own bytes meanwhile, so it must not wait for long.
const shareWait = 5 * time.Second

// flight is the writes of one batch to one slab. It owns the items' memory, and
// their slots until it has answered, also when the batch has left without it.
type flight struct {
	st    *Storing
	v     *volume
	items []*storeItem
	bufs  []*ioengine.Buf

	done chan struct{} // closed when all items were answered, or the slab hangs
	stop func() bool   // ends the wait for that

	// Guarded by Storing.mu.
	left     int    // items without an answer
	answered []bool // by item, before the batch went on
	why      error  // why the batch goes on without what is not answered by now; nil: it does not
}

// write submits the writes of items on one volume.
func (st *Storing) write(v int, items []*storeItem) {
	f := &flight{
		st: st, v: st.s.volumes[v], items: items, bufs: make([]*ioengine.Buf, len(items)),
		done: make(chan struct{}), left: len(items), answered: make([]bool, len(items)),
	}
	reqs := make([]slab.WriteReq, len(items))
	for i, it := range items {
		reqs[i] = slab.WriteReq{
			Slots: it.slots, Len: it.Len, Gen: it.gen, Seed: slab.KeySeed(st.ns.name, it.Key),
			Namespace: st.ns.name, Key: it.Key, StoredAt: st.now, ExpiresAt: st.expiry, Src: it.Buf.Chunks(),
		}
		f.bufs[i], it.Buf = it.Buf, nil
		f.v.busy(f.v.slab.OpsFor(it.Len))
	}
	st.flights = append(st.flights, f)
	f.stop = context.AfterFunc(f.v.health.stuck.on(), f.abandon)
	// The slab may wait for bounce memory, and so for the device: that must not
	// keep the caller, who has a deadline.
	go f.run(reqs)
}

// run submits as many writes at once as the slab's share has room for.
func (f *flight) run(reqs []slab.WriteReq) {
	from := 0
	for i := range reqs {
		if f.v.share.try(ioengine.Write, reqs[i].Len) {
			continue
		}
		f.submit(reqs, from, i)
		from = i
		if err := f.share(reqs[i].Len); err != nil {
			f.answer(i, 0, err)
			from++
		}
	}
	f.submit(reqs, from, len(reqs))
}

// share waits for room for n bytes.
func (f *flight) share(n int64) error {
	ctx, cancel := context.WithTimeout(f.st.ctx, shareWait)
	defer cancel()
	err := f.v.share.get(ctx, f.v.health.down.on(), ioengine.Write, n)
	if errors.Is(err, context.DeadlineExceeded) && f.st.ctx.Err() == nil {
		return fmt.Errorf("%w: stores to slab %q, for %v: it is slow, or hangs", ErrNoMemory, f.v.slab.Name(), shareWait)
	}
	return err
}

// submit writes the items [from, to).
func (f *flight) submit(reqs []slab.WriteReq, from, to int) {
	if from == to {
		return
	}
	f.v.slab.Write(reqs[from:to], func(i int, sum uint64, err error) {
		f.v.share.put(ioengine.Write, reqs[from+i].Len)
		if err == nil {
			f.v.worked(ioengine.Write)
		} else {
			f.v.unwritten(err)
		}
		f.answer(from+i, sum, err)
	})
}

// answer ends the write of one item.
func (f *flight) answer(i int, sum uint64, err error) {
	f.bufs[i].Release()
	f.v.idle(f.v.slab.OpsFor(f.items[i].Len))
	if back := f.note(i, sum, err); len(back) > 0 {
		f.st.takeBack(back)
	}
}

// note hands the answer to the batch. If that has gone on without it, and this was
// the last such answer, it returns the items of all of them: their slots go back.
func (f *flight) note(i int, sum uint64, err error) (back []*storeItem) {
	f.st.mu.Lock()
	defer f.st.mu.Unlock()
	if f.why != nil {
		f.st.back = append(f.st.back, f.items[i])
		if f.st.late--; f.st.late == 0 {
			back, f.st.back = f.st.back, nil
		}
		return back
	}
	f.items[i].sum, f.items[i].writeErr = sum, err
	f.answered[i] = true
	f.st.uncharge(f.items[i])
	if f.left--; f.left == 0 {
		f.stop()
		close(f.done)
	}
	return nil
}

// abandon lets the batch go on without the items that were not answered: a device
// that hangs must not hang a batch that has keys on others too. Slots and memory
// stay the flight's until it does answer.
func (f *flight) abandon() {
	f.st.mu.Lock()
	defer f.st.mu.Unlock()
	if f.left == 0 {
		return
	}
	if _, f.why = f.v.serves(); f.why == nil {
		f.why = errOut // it is back already
	}
	for i, it := range f.items {
		if !f.answered[i] {
			f.st.uncharge(it)
		}
	}
	if f.st.late == 0 {
		f.st.s.work.Add(1) // until takeBack; the batch itself counts still
	}
	f.st.late += f.left
	close(f.done)
}

// wait returns when all items were answered or are settled.
func (f *flight) wait() {
	<-f.done
	f.st.mu.Lock()
	defer f.st.mu.Unlock()
	for i, it := range f.items {
		if f.why != nil && !f.answered[i] {
			it.end(Unavailable, f.why)
			it.ids = nil // the slots are the flight's
		}
	}
}

// takeBack frees the slots and the quota of items that the batch has gone on
// without.
func (st *Storing) takeBack(items []*storeItem) {
	s := st.s
	defer s.work.Done()
	back := s.newSlotLists(len(items))
	h := s.lock(lockPublish)
	defer s.unlock(h)
	for _, it := range items {
		back[it.vol] = append(back[it.vol], it.slots...)
		st.ns.used -= it.slotBytes
	}
	s.move(back, slab.Reserved, slab.Free)
}
