// SPDX-License-Identifier: Apache-2.0

package store

import (
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
			default:
				l.endAll(l.items[i:], Deadline, l.ctx.Err())
				return
			}
		}
		l.still = 0
		batch = append(batch, it)
	}
	l.submit(batch)
}

// tryMemory gives a key its memory if that takes no waiting.
func (l *Loading) tryMemory(it *loadItem) bool {
	if !l.window.tryTake(it.Bytes) {
		return false
	}
	buf, ok := l.s.o.Buffers.TryGet(it.Bytes)
	if !ok {
		l.window.give(it.Bytes)
		return false
	}
	it.Buf = buf
	return true
}

// memory waits for a key's memory: first until the batch holds less than its share,
// then until others give some back.
func (l *Loading) memory(it *loadItem) error {
	if err := l.window.take(l.ctx, it.Bytes); err != nil {
		return err
	}
	buf, err := l.s.buffer(l.ctx, it.Bytes, l.still)
	if err != nil {
		l.window.give(it.Bytes)
		return err
	}
	it.Buf = buf
	return nil
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
