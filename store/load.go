// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"context"
	"sync"
	"sync/atomic"
	"time"

	"github.com/rawblockd/rawblockd/ioengine"
	"github.com/rawblockd/rawblockd/slab"
)

// Loading is a batch of loads under way. Results come from Next in request
// order while later reads go on. One goroutine takes results; Close belongs to
// the same one.
//
// What is read was captured in one section of the pin lock: slots, generation,
// length and checksum of every key. A reference on each entry keeps its slots
// from being reused until its read has ended, whatever becomes of the key.
type Loading struct {
	s      *Store
	still  time.Duration // how long memory may stand still before the first key has any; 0: as long as ctx
	window *window
	given  int64 // bytes of the result that Next returned last; of the goroutine that calls it
	ctx    context.Context
	cancel context.CancelFunc
	trace  *Trace
	items  []*loadItem
	next   int
	stop   func() bool // ends the wake-up at the context's end

	mu sync.Mutex
	// +checklocks:mu
	closed bool
	// +checklocks:mu
	awaited *loadItem  // what Next waits for
	wake    *sync.Cond // an item has finished, or the context ended
}

// loadItem is one key of a Loading.
type loadItem struct {
	LoadItem
	head id
	vol  int
	pay  slab.Payload
	// Guarded by Loading.mu.
	ready   bool
	begun   bool // its read was submitted
	taken   bool // nobody will ask for the buffer any more
	charged bool // the window counts it
}

// LoadItem is the result of one key.
type LoadItem struct {
	Key    string
	Status Status
	Bytes  int64         // stored length
	Gen    uint64        // tells this entry from any other that the key ever had
	Buf    *ioengine.Buf // the verified bytes, nil unless Status is OK; whoever got it releases it
	Err    error         // why, where the status does not say it all
}

// Load begins to load keys. Memory for whole keys is taken in request order
// from the stream budget, up to the batch's share of it as results are taken: a
// result that Next returned counts until the next call. The caller must Close.
func (s *Store) Load(ctx context.Context, ns string, keys []string) (*Loading, error) {
	return s.LoadWithin(ctx, ns, keys, 0)
}

// LoadWithin is Load that does not begin where memory stands still: when nothing
// of what others hold has moved for the time still, and the batch has had no
// memory yet, all its keys are answered Busy with ErrNoMemory. Once the first key
// has its memory the later ones wait for theirs as long as ctx. 0 is as long as
// ctx for all.
func (s *Store) LoadWithin(ctx context.Context, ns string, keys []string, still time.Duration) (*Loading, error) {
	return s.loadWithin(ctx, ns, keys, still, s.o.Buffers.Cap()/windowShare)
}

func (s *Store) loadWithin(ctx context.Context, ns string, keys []string, still time.Duration, share int64) (*Loading, error) {
	sp, err := s.enter(ns)
	if err != nil {
		return nil, err
	}
	l := &Loading{s: s, still: still, window: s.newWindow(share), items: make([]*loadItem, len(keys))}
	l.wake = sync.NewCond(&l.mu)
	l.ctx, l.cancel = context.WithCancel(ctx)
	l.trace = traceOf(ctx)
	l.capture(sp, keys)
	l.stop = context.AfterFunc(l.ctx, l.wakeAll)
	s.work.Add(1) // for run; the one from begin is Close's
	go l.run()
	return l, nil
}

// capture looks all keys up in one lock section and takes a reference on each.
func (l *Loading) capture(sp *space, keys []string) {
	s := l.s
	ds, valid := s.digests(sp, keys)
	backing := make([]loadItem, len(keys))
	chain := make([]id, 0, 4*len(keys))
	from := make([]int, len(keys)+1)
	now := s.nowMS()
	h := s.lockIn(l.ctx, lockLoad)
	for i := range keys {
		it := &backing[i]
		l.items[i] = it
		r := s.hitLocked(ds[i], valid[i], now)
		it.Status, it.Bytes, it.Gen, it.Err, it.head = r.Status, r.Bytes, r.Gen, r.Err, none
		if r.Status == OK {
			head, _ := s.x.find(ds[i])
			if s.x.refs[head] == ^uint16(0) {
				it.Status = Busy
			} else {
				s.x.refs[head]++
				it.head = head
				it.pay = slab.Payload{Len: r.Bytes, Gen: r.Gen, Sum: s.x.sum[head]}
				chain = s.x.chain(chain, head)
			}
		}
		from[i+1] = len(chain)
	}
	s.unlock(h)
	s.countMisses(len(keys), func(i int) (Status, digest) { return backing[i].Status, ds[i] })
	for i, it := range l.items {
		it.Key = keys[i]
		if it.Status == InvalidKey {
			it.Err = CheckKey(keys[i])
		}
		if it.head == none {
			it.ready = true
			continue
		}
		it.vol = s.volumeOf(it.head)
		it.pay.Slots = s.volumes[it.vol].toSlots(chain[from[i]:from[i+1]:from[i+1]])
		it.pay.Seed = slab.KeySeed(sp.name, keys[i])
	}
}

// submit reads the items, one call per slab.
func (l *Loading) submit(items []*loadItem) {
	for v := range l.s.volumes {
		var mine []*loadItem
		for _, it := range items {
			if it.vol == v {
				mine = append(mine, it)
			}
		}
		if len(mine) > 0 {
			l.read(v, mine)
		}
	}
}

// begin notes that the reads of items are under way.
func (l *Loading) begin(items []*loadItem) {
	l.mu.Lock()
	defer l.mu.Unlock()
	for _, it := range items {
		it.begun = true
	}
	l.noteLocked()
}

// read submits items of one slab; the last one to finish gives all references
// back in one lock section.
func (l *Loading) read(v int, items []*loadItem) {
	reqs := make([]slab.ReadReq, len(items))
	heads := make([]id, len(items))
	for i, it := range items {
		reqs[i] = slab.ReadReq{Payload: it.pay, Dst: it.Buf.Chunks()}
		heads[i] = it.head
	}
	l.begin(items)
	var left atomic.Int64
	left.Store(int64(len(items)))
	l.s.work.Add(1)
	vol := l.s.volumes[v]
	ops := vol.opsOf(items)
	vol.busy(ops)
	vol.loads.begin()
	vol.slab.Read(reqs, func(i int, err error) {
		l.s.Stir()
		vol.share.put(ioengine.Read, items[i].pay.Len)
		vol.idle(vol.slab.OpsFor(items[i].pay.Len))
		status := l.s.judge(items[i], err, byLoad)
		last := left.Add(-1) == 0
		if last {
			vol.loads.end()
			l.s.release(heads)
		}
		l.finish(items[i], status, err)
		if last {
			l.s.work.Done()
		}
	})
}

// finish makes an item's result available, or drops it if nobody waits.
func (l *Loading) finish(it *loadItem, status Status, err error) {
	l.mu.Lock()
	it.Status, it.Err = status, err
	buf := it.Buf
	if status != OK || it.taken || l.closed {
		it.Buf = nil
	} else {
		buf = nil
	}
	it.ready = true
	if it.Buf == nil {
		l.unchargeLocked(it)
	}
	l.wake.Broadcast()
	l.mu.Unlock()
	if buf != nil {
		buf.Release()
	}
}

func (l *Loading) wakeAll() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.wake.Broadcast()
}

// Next returns the result of the next key and false after the last one. When
// the context ends, what is not finished is answered Deadline; when a slab hangs,
// what of it is not finished is answered Unavailable.
func (l *Loading) Next() (LoadItem, bool) {
	if l.next == len(l.items) {
		return LoadItem{}, false
	}
	it := l.items[l.next]
	l.next++
	if l.given > 0 {
		l.window.give(l.given)
		l.given = 0
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if !it.ready {
		l.awaited = it
		l.noteLocked()
		for !it.ready && l.ctx.Err() == nil && l.lost(it) == nil {
			// Anew each time: a slab may hang, come back and hang again.
			stop := context.AfterFunc(l.s.volumes[it.vol].health.stuck.on(), l.wakeAll)
			l.wake.Wait()
			stop()
		}
		l.awaited = nil
		l.trace.At(StageStart)
	}
	it.taken = true
	if it.ready && it.Buf != nil && it.charged {
		l.given, it.charged = it.Bytes, false
	}
	l.unchargeLocked(it)
	r := LoadItem{Key: it.Key, Status: Deadline, Err: l.ctx.Err()}
	switch why := l.lost(it); {
	case it.ready:
		r = it.LoadItem
	case r.Err == nil:
		r.Status, r.Err = Unavailable, cmp.Or(why, errOut)
	}
	if r.Status == Unavailable && it.head != none { // not counted yet: it was a hit when the batch began
		l.s.metrics.misses[ReasonUnavailable].Inc()
	}
	l.s.metrics.results.WithLabelValues("load", r.Status.String()).Inc()
	return r, true
}

// lost returns why the read of a key may never end: its slab hangs.
func (l *Loading) lost(it *loadItem) error {
	if it.head == none {
		return nil
	}
	if now := l.s.volumes[it.vol].health.now.Load(); now.stuck {
		return now.err
	}
	return nil
}

// noteLocked tells the trace what Next waits for.
// +checklocks:l.mu
func (l *Loading) noteLocked() {
	switch {
	case l.awaited == nil:
	case l.awaited.begun:
		l.trace.On(l.s.volumes[l.awaited.vol].slab.Name())
	default:
		l.trace.At(StageQueue)
	}
}

// Close ends the batch: results not taken are dropped, reads under way end by
// themselves and give their memory back.
func (l *Loading) Close() {
	l.mu.Lock()
	if l.closed {
		l.mu.Unlock()
		return
	}
	l.closed = true
	var drop []*ioengine.Buf
	for _, it := range l.items {
		if it.ready && !it.taken && it.Buf != nil {
			drop = append(drop, it.Buf)
			it.Buf = nil
		}
	}
	l.mu.Unlock()
	for _, b := range drop {
		b.Release()
	}
	l.stop()
	l.cancel()
	l.s.work.Done()
}

// release gives references back; slots of retired entries that nobody reads any
// more go to the free list.
func (s *Store) release(heads []id) {
	if len(heads) == 0 {
		return
	}
	free := s.newSlotLists(0)
	h := s.lock(lockRelease)
	for _, head := range heads {
		s.unrefLocked(head, free)
	}
	s.move(free, slab.Retired, slab.Free)
	s.unlock(h)
}
