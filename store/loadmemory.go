// SPDX-License-Identifier: Apache-2.0

package store

import (
	"cmp"
	"errors"
	"fmt"

	"github.com/rawblockd/rawblockd/ioengine"
)

// run gives every captured key its memory, in request order, and submits as
// many keys at once as there is memory for.
func (l *Loading) run() {
	defer l.s.work.Done()
	var batch []*loadItem
	for i, it := range l.items {
		if it.head == none {
			continue
		}
		if !l.tryMemory(it) {
			l.submit(batch)
			batch = nil
			switch err := l.memory(it); {
			case err == nil:
			case errors.Is(err, ioengine.ErrNoRoom):
				err = fmt.Errorf("%d bytes were stored under larger limits; limits.stream_bytes is %d now", it.Bytes, l.s.o.Buffers.Cap())
				l.endAll(l.items[i:i+1], TooLarge, err)
				continue
			case errors.Is(err, ErrNoMemory):
				l.endAll(l.items[i:], Busy, err)
				return
			case errors.Is(err, errOut):
				_, why := l.s.volumes[it.vol].serves()
				l.endAll(l.items[i:i+1], Unavailable, cmp.Or(why, err))
				continue
			default:
				l.endAll(l.items[i:], Deadline, l.ctx.Err())
				return
			}
		}
		l.still = 0
		l.charge(it)
		batch = append(batch, it)
	}
	l.submit(batch)
}

// tryMemory gives a key its memory if that takes no waiting.
func (l *Loading) tryMemory(it *loadItem) bool {
	v := l.s.volumes[it.vol]
	if ok, _ := v.serves(); !ok || !l.window.tryTake(it.Bytes) {
		return false
	}
	if !v.share.try(ioengine.Read, it.Bytes) {
		l.window.give(it.Bytes)
		return false
	}
	buf, ok := l.s.o.Buffers.TryGet(it.Bytes)
	if !ok {
		v.share.put(ioengine.Read, it.Bytes)
		l.window.give(it.Bytes)
		return false
	}
	it.Buf = buf
	return true
}

// memory waits for a key's memory: first until the batch holds less than its share,
// then until the key's slab does, and then until others give some back. It fails
// with errOut when the slab goes out of service before that.
func (l *Loading) memory(it *loadItem) (err error) {
	if err := l.window.take(l.ctx, it.Bytes); err != nil {
		return err
	}
	defer func() {
		if err != nil {
			l.window.give(it.Bytes)
		}
	}()
	v := l.s.volumes[it.vol]
	if err := v.share.get(l.ctx, v.health.down.on(), ioengine.Read, it.Bytes); err != nil {
		return err
	}
	if it.Buf, err = l.s.buffer(l.ctx, it.Bytes, l.still); err != nil {
		v.share.put(ioengine.Read, it.Bytes)
	}
	return err
}

// endAll answers keys whose read never started and never will.
func (l *Loading) endAll(items []*loadItem, status Status, err error) {
	var heads []id
	for _, it := range items {
		if it.head == none {
			continue
		}
		heads = append(heads, it.head)
		l.finish(it, status, err)
	}
	l.s.release(heads)
}

// charge notes that the window counts a key that has its memory.
func (l *Loading) charge(it *loadItem) {
	l.mu.Lock()
	defer l.mu.Unlock()
	it.charged = true
	if it.taken { // Next gave it up: its slab hangs
		l.unchargeLocked(it)
	}
}

// unchargeLocked lets the window count a key no more: of one that Next gave up the
// device may keep the memory for hours, and the share of its slab bounds that.
// +checklocks:l.mu
func (l *Loading) unchargeLocked(it *loadItem) {
	if it.charged {
		it.charged = false
		l.window.give(it.Bytes)
	}
}
