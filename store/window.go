// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rawblockd/rawblockd/ioengine"
)

// windowShare is the part of the stream budget, one over it, that one batch may
// hold in payloads which wait for its client or for the device: a client that stops
// taking its batch keeps a quarter from others, not all.
//
// A quarter of the default budget is five payloads of 24 MiB: one on its way to
// the client and four being read, three times what the engine's workers take at
// once. A single batch is then as fast as with the whole budget
// (TestWindowCostsASingleBatchNothing; BenchmarkBatchWindow on a real device).
const windowShare = 4

// window bounds the stream memory that one batch holds. One goroutine takes, any
// may give.
type window struct {
	all   int64         // bytes of the stream budget
	share int64         // bytes that any number of payloads may take together
	freed chan struct{} // capacity 1: something was given back

	mu sync.Mutex
	// +checklocks:mu
	held int64 // bytes
	// +checklocks:mu
	keys int
}

func (s *Store) newWindow(share int64) *window {
	return &window{all: s.o.Buffers.Cap(), share: share, freed: make(chan struct{}, 1)}
}

// fitsLocked tells whether n more bytes are within the share. Any payload is, when
// the batch holds nothing, and up to three within half of the budget: one for the
// client, one ready for it, and one on the device. With less they take turns.
// +checklocks:w.mu
func (w *window) fitsLocked(n int64) bool {
	sum := w.held + n
	return w.keys == 0 || sum <= w.share || w.keys < 3 && sum <= w.all/2
}

// tryTake takes n bytes of the share if it has them.
func (w *window) tryTake(n int64) bool {
	w.mu.Lock()
	defer w.mu.Unlock()
	if !w.fitsLocked(n) {
		return false
	}
	w.held += n
	w.keys++
	return true
}

// take is tryTake that waits. Where payloads are small it waits until several fit,
// so that they are submitted together.
func (w *window) take(ctx context.Context, n int64) error {
	if err := w.await(ctx, max(n, w.share/8)); err != nil {
		return err
	}
	w.add(n)
	return nil
}

// await waits until n bytes fit. Nobody else takes meanwhile.
func (w *window) await(ctx context.Context, n int64) error {
	for {
		w.mu.Lock()
		fits := w.fitsLocked(n)
		w.mu.Unlock()
		if fits {
			return nil
		}
		select {
		case <-w.freed:
		case <-ctx.Done():
			return ctx.Err()
		}
	}
}

// add takes n bytes, whether they fit or not.
func (w *window) add(n int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.held += n
	w.keys++
}

// give returns the n bytes of one payload.
func (w *window) give(n int64) {
	w.mu.Lock()
	w.held -= n
	w.keys--
	w.mu.Unlock()
	select {
	case w.freed <- struct{}{}:
	default:
	}
}

// buffer gets n bytes of the stream budget. With a positive still it fails with
// ErrNoMemory when nothing has moved for that long in what others hold.
func (s *Store) buffer(ctx context.Context, n int64, still time.Duration) (*ioengine.Buf, error) {
	buf, err := s.o.Buffers.GetWhile(ctx, n, still)
	if errors.Is(err, ioengine.ErrStill) {
		return nil, fmt.Errorf("%w, and nothing of it moved for %v", ErrNoMemory, still)
	}
	return buf, err
}

// Stir tells requests that wait for memory that bytes move in what others hold.
// Whoever paces a buffer's bytes calls it as they come and go.
func (s *Store) Stir() { s.o.Buffers.Stir() }

// MemoryWanted tells how many wait for memory of the stream budget.
func (s *Store) MemoryWanted() int { return s.o.Buffers.Waiting() }
