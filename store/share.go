// SPDX-License-Identifier: Apache-2.0

package store

import (
	"container/list"
	"context"
	"sync"

	"github.com/rawblockd/rawblockd/ioengine"
)

// share bounds the stream memory that the I/O of one slab holds, where there are
// several: a slab that hangs keeps what it has until it answers, and the others
// need room meanwhile. It counts memory from before it is taken from the arena
// (loads) or from before its write is submitted (stores) until the transfer has
// ended. Whoever waits here for its turn to load holds no memory yet.
//
// Each direction has its part. That of loads leaves stores something: a store holds
// memory when it comes here, and a load that has its room waits for memory still, so
// that without it the two could wait for each other.
//
// Nobody overtakes in the line of one direction, and between the two the older
// goes first; but one that waits only because its direction has its part lets those
// of the other pass.
type share struct {
	most  int64    // bytes for both together; 0: no bound
	parts [2]int64 // bytes for each, by ioengine.Dir

	mu sync.Mutex
	// +checklocks:mu
	held [2]int64 // by ioengine.Dir
	// +checklocks:mu
	lines [2]list.List // of *sharer, oldest first
	// +checklocks:mu
	came uint64 // how many have waited so far
}

// sharer is one that waits.
type sharer struct {
	n       int64
	number  uint64        // in the order of coming
	granted chan struct{} // closed under share.mu
	ok      bool          // guarded by share.mu
}

// bound sets the share of one of several slabs: at least the longest payload, and
// at least as much is left to the others.
func (sh *share) bound(memory, payload int64) {
	sh.most = min(memory/4*3, memory-payload)
	left := min(max(sh.most/4, payload), sh.most/2)
	sh.parts = [2]int64{ioengine.Read: sh.most - left, ioengine.Write: max(sh.most/2, min(payload, sh.most))}
}

// fitsLocked tells whether there is room for n bytes more. Alone anything has room:
// what is longer than the share could never be moved otherwise.
// +checklocks:sh.mu
func (sh *share) fitsLocked(n int64) bool {
	all := sh.held[ioengine.Read] + sh.held[ioengine.Write]
	return sh.most == 0 || all == 0 || all+n <= sh.most
}

// partLocked tells whether a direction may have n bytes more, if there is room. One
// alone may have more than its part.
// +checklocks:sh.mu
func (sh *share) partLocked(dir ioengine.Dir, n int64) bool {
	held := sh.held[dir]
	return sh.most == 0 || held == 0 || held+n <= sh.parts[dir]
}

// try takes n bytes if nobody waits and there is room.
func (sh *share) try(dir ioengine.Dir, n int64) bool {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.lines[0].Len()+sh.lines[1].Len() > 0 {
		return false
	}
	fits := sh.partLocked(dir, n) && sh.fitsLocked(n)
	if fits {
		sh.held[dir] += n
	}
	return fits
}

// get takes n bytes, waiting behind those who came earlier. It fails with ctx's
// error when that ends first, and with errOut when out does.
func (sh *share) get(ctx, out context.Context, dir ioengine.Dir, n int64) error {
	if out.Err() != nil {
		return errOut
	}
	sh.mu.Lock()
	w, place := sh.queueLocked(dir, n)
	sh.mu.Unlock()
	var err error
	select {
	case <-w.granted:
		return nil
	case <-ctx.Done():
		err = ctx.Err()
	case <-out.Done():
		err = errOut
	}
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if w.ok {
		return nil
	}
	sh.lines[dir].Remove(place)
	sh.serveLocked() // it may have been in the way
	return err
}

// queueLocked puts one into its line, and lets it go on if it may.
// +checklocks:sh.mu
func (sh *share) queueLocked(dir ioengine.Dir, n int64) (*sharer, *list.Element) {
	w := &sharer{n: n, number: sh.came, granted: make(chan struct{})}
	sh.came++
	place := sh.lines[dir].PushBack(w)
	sh.serveLocked()
	return w, place
}

// put gives n bytes back.
func (sh *share) put(dir ioengine.Dir, n int64) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	if sh.held[dir] -= n; sh.held[dir] < 0 {
		panic("store: more of a slab's share was given back than taken")
	}
	sh.serveLocked()
}

// serveLocked lets the oldest go on, as far as there is room.
// +checklocks:sh.mu
func (sh *share) serveLocked() {
	for {
		dir, ok := sh.nextLocked()
		if !ok {
			return
		}
		front := sh.lines[dir].Front()
		w := front.Value.(*sharer)
		sh.lines[dir].Remove(front)
		sh.held[dir] += w.n
		w.ok = true
		close(w.granted)
	}
}

// nextLocked returns the line whose head may go on.
// +checklocks:sh.mu
func (sh *share) nextLocked() (ioengine.Dir, bool) {
	load, store := sh.lines[ioengine.Read].Front(), sh.lines[ioengine.Write].Front()
	order := []ioengine.Dir{ioengine.Read, ioengine.Write}
	if load == nil || store != nil && store.Value.(*sharer).number < load.Value.(*sharer).number {
		order[0], order[1] = order[1], order[0]
	}
	for _, dir := range order {
		front := sh.lines[dir].Front()
		if front == nil {
			continue
		}
		if n := front.Value.(*sharer).n; sh.partLocked(dir, n) {
			return dir, sh.fitsLocked(n) // nobody overtakes one that needs only room
		}
	}
	return 0, false
}

// inUse returns the bytes held, by direction.
func (sh *share) inUse() (loads, stores int64) {
	sh.mu.Lock()
	defer sh.mu.Unlock()
	return sh.held[ioengine.Read], sh.held[ioengine.Write]
}
