// SPDX-License-Identifier: Apache-2.0

package ioengine

import (
	"container/list"
	"context"
	"errors"
	"fmt"
	"slices"
	"sync"
	"sync/atomic"
	"time"
)

// ErrArenaClosed answers a Get after Close; ErrStill a GetWhile for which nothing
// moved.
var (
	ErrArenaClosed = errors.New("arena is closed")
	ErrStill       = errors.New("nothing moved in the memory that others hold")
)

// Arena is a budget of memory for direct I/O: one mmap'ed region that requests
// share, oldest first.
//
// A request gets all of its bytes at once or waits. Handing them out piece by
// piece would let the halves of many large payloads fill the arena, and none
// could ever finish (H38). For the same reason nobody overtakes: while a large
// request waits, a small one behind it waits too, else a stream of small ones
// would starve it.
type Arena struct {
	cap   int64        // bytes, a multiple of ArenaAlign
	born  time.Time    // what moved counts from
	moved atomic.Int64 // when bytes moved last, in nanoseconds

	mu sync.Mutex
	// +checklocks:mu
	region []byte // nil after Close
	// +checklocks:mu
	free func() // unmaps region
	// +checklocks:mu
	buddy *buddy
	// +checklocks:mu
	inUse int64
	// +checklocks:mu
	waiters list.List // of *waiter, oldest first
	// +checklocks:mu
	closed bool
}

// waiter is one Get that has to wait. buf is set under Arena.mu before ready is
// closed.
type waiter struct {
	n     int64
	buf   *Buf
	ready chan struct{}
}

// NewArena reserves bytes of address space, rounded down to whole ArenaAlign;
// at least one. The kernel commits memory when it is first touched: 2 MiB at a time
// where it has large pages for the arena, so that a little more may be resident than
// was ever handed out, but never more than the region.
func NewArena(bytes int64) (*Arena, error) {
	limit := bytes &^ (ArenaAlign - 1)
	if limit <= 0 {
		return nil, fmt.Errorf("arena of %d bytes: smaller than one page of %d", bytes, ArenaAlign)
	}
	// The region is whole pieces, so that every request within the limit fits
	// an empty arena however its last piece is cut.
	pieces := (limit + PieceSize - 1) / PieceSize
	if pieces > 1<<(31-pieceOrder)-1 {
		return nil, fmt.Errorf("arena of %d bytes: more than %d pages", bytes, 1<<31)
	}
	region, free, err := largeAlloc(int(pieces * PieceSize))
	if err != nil {
		return nil, fmt.Errorf("arena: %w", err)
	}
	return &Arena{region: region, free: free, cap: limit, buddy: newBuddy(int(pieces)), born: time.Now()}, nil
}

// Get returns n bytes, waiting behind everybody who asked earlier. It fails
// with ErrNoRoom if n is more than the arena will ever have, with
// ErrArenaClosed after Close, and with ctx's error when ctx ends first; the
// next waiter is then looked at. n = 0 gives an empty Buf without waiting.
func (a *Arena) Get(ctx context.Context, n int64) (*Buf, error) { return a.GetWhile(ctx, n, 0) }

// GetWhile is Get for as long as the turn is coming: it fails with ErrStill when,
// while it waited, nothing was released and nothing stirred for the time still.
// 0 is as long as ctx.
func (a *Arena) GetWhile(ctx context.Context, n int64, still time.Duration) (*Buf, error) {
	if err := a.check(n); err != nil {
		return nil, err
	}
	if err := ctx.Err(); err != nil {
		return nil, fmt.Errorf("get %d bytes from the arena: %w", n, err)
	}
	a.mu.Lock()
	if a.closed {
		a.mu.Unlock()
		return nil, ErrArenaClosed
	}
	if buf := a.tryLocked(n); buf != nil {
		a.mu.Unlock()
		return buf, nil
	}
	w := &waiter{n: n, ready: make(chan struct{})}
	place := a.waiters.PushBack(w)
	a.mu.Unlock()

	err := a.await(ctx, w, still)
	if err == nil {
		return w.buf, nil
	}
	return a.leave(w, place, err)
}

// await returns nil when the waiter was served, else why it waits no more.
func (a *Arena) await(ctx context.Context, w *waiter, still time.Duration) error {
	var quiet <-chan time.Time
	var timer *time.Timer
	began := a.now()
	if still > 0 {
		timer = time.NewTimer(still)
		defer timer.Stop()
		quiet = timer.C
	}
	for {
		select {
		case <-w.ready:
			return nil
		case <-ctx.Done():
			return ctx.Err()
		case <-quiet:
			left := still - time.Duration(a.now()-max(began, a.moved.Load()))
			if left <= 0 {
				return ErrStill
			}
			timer.Reset(left)
		}
	}
}

func (a *Arena) now() int64 { return int64(time.Since(a.born)) }

// Stir tells those who wait that bytes move in memory that others hold, so that
// their turn will come. Any number of goroutines may call it, often.
func (a *Arena) Stir() { a.moved.Store(a.now()) }

// leave takes a waiter that waits no more out of the line, unless it was served at
// the same moment: then the Buf is returned after all.
func (a *Arena) leave(w *waiter, place *list.Element, why error) (*Buf, error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if w.buf != nil {
		return w.buf, nil
	}
	a.waiters.Remove(place)
	a.serveLocked() // it may have been the one that held the others up
	return nil, fmt.Errorf("get %d bytes from the arena: %w", w.n, why)
}

// TryGet is Get without waiting: false when somebody waits already, when there
// is no room now or ever, and after Close.
func (a *Arena) TryGet(n int64) (*Buf, bool) {
	if a.check(n) != nil {
		return nil, false
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.closed {
		return nil, false
	}
	buf := a.tryLocked(n)
	return buf, buf != nil
}

func (a *Arena) check(n int64) error {
	if n < 0 {
		return fmt.Errorf("get %d bytes from the arena: negative", n)
	}
	if n > a.cap {
		return fmt.Errorf("get %d bytes from an arena of %d: %w", n, a.cap, ErrNoRoom)
	}
	return nil
}

// tryLocked returns nil if n bytes cannot be had without overtaking or waiting.
//
// +checklocks:a.mu
func (a *Arena) tryLocked(n int64) *Buf {
	if n == 0 {
		return &Buf{arena: a}
	}
	if a.waiters.Len() > 0 {
		return nil
	}
	return a.allocLocked(n)
}

// allocLocked takes all chunks of n bytes, or returns nil and takes none.
//
// +checklocks:a.mu
func (a *Arena) allocLocked(n int64) *Buf {
	pieces, tail := int(n/PieceSize), int((n%PieceSize+ArenaAlign-1)/ArenaAlign)
	size := int64(pieces)*PieceSize + int64(tail)*ArenaAlign
	if a.inUse+size > a.cap || !a.buddy.fits(pieces, tail) {
		return nil
	}
	a.inUse += size
	buf := &Buf{arena: a, n: n, size: size}
	buf.chunks, buf.pages = make([][]byte, 0, pieces+1), make([]int32, 0, pieces+1)
	for range pieces {
		a.addLocked(buf, piecePages)
	}
	if tail > 0 {
		a.addLocked(buf, tail)
	}
	return buf
}

// +checklocks:a.mu
func (a *Arena) addLocked(buf *Buf, pages int) {
	page := a.buddy.alloc(pages)
	from, to := int64(page)*ArenaAlign, (int64(page)+int64(pages))*ArenaAlign
	buf.pages = append(buf.pages, page)
	buf.chunks = append(buf.chunks, a.region[from:to:to])
}

// serveLocked gives the oldest waiters what they wait for, as far as it goes.
//
// +checklocks:a.mu
func (a *Arena) serveLocked() {
	for e := a.waiters.Front(); e != nil; e = a.waiters.Front() {
		w := e.Value.(*waiter)
		buf := a.allocLocked(w.n)
		if buf == nil {
			return
		}
		w.buf = buf
		a.waiters.Remove(e)
		close(w.ready)
	}
}

// Cap returns how many bytes the arena may hand out in all.
func (a *Arena) Cap() int64 { return a.cap }

// Memory returns the region in parts of at most 1 GiB, as io_uring registers memory
// (UringOptions.Memory). Whoever had it registered closes that engine before the
// arena. After Close it returns nil.
func (a *Arena) Memory() [][]byte {
	const part = 1 << 30
	a.mu.Lock()
	defer a.mu.Unlock()
	return slices.Collect(slices.Chunk(a.region, part))
}

// InUse returns how many bytes are handed out, in whole ArenaAlign.
func (a *Arena) InUse() int64 {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.inUse
}

// Waiting returns how many Gets wait.
func (a *Arena) Waiting() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.waiters.Len()
}

// Close unmaps the region. If anything is still in use it does nothing but say
// so, and can be called again.
func (a *Arena) Close() error {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.inUse > 0 {
		return fmt.Errorf("close arena: %d bytes are still in use", a.inUse)
	}
	if !a.closed {
		a.closed, a.region = true, nil
		a.free()
	}
	return nil
}

// Buf is memory handed out by an Arena, until Release. One owner at a time.
type Buf struct {
	arena    *Arena
	n, size  int64 // as asked; as taken
	chunks   [][]byte
	pages    []int32 // first page of each chunk
	released atomic.Bool
}

// Len returns the number of bytes asked for.
func (b *Buf) Len() int64 { return b.n }

// Chunks returns the memory in order: each chunk PieceSize long but the last,
// which is the remainder rounded up to ArenaAlign, so that a tail can be read
// straight into it. The bytes are whatever the last owner left.
func (b *Buf) Chunks() [][]byte { return b.chunks }

// Release gives the memory back, exactly once: two owners of one range would
// hand wrong bytes to somebody, so a second call panics.
func (b *Buf) Release() {
	if b.released.Swap(true) {
		panic("ioengine: buffer released twice")
	}
	a := b.arena
	a.Stir()
	a.mu.Lock()
	defer a.mu.Unlock()
	for i, page := range b.pages {
		a.buddy.free(page, len(b.chunks[i])/ArenaAlign)
	}
	b.chunks, b.pages = nil, nil // a late user fails loudly
	a.inUse -= b.size
	a.serveLocked()
}
