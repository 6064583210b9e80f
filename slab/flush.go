// SPDX-License-Identifier: Apache-2.0

package slab

import (
	"errors"
	"fmt"
	"sync"

	"github.com/rawblockd/rawblockd/internal/mutant"
	"github.com/rawblockd/rawblockd/ioengine"
)

// flusher shares device flushes among callers by numbers: a caller needs the first
// flush that starts after it came. At most one runs; of those who wait for the
// next, one leads it and the others take its result. Joining the running flush
// would be one flush cheaper and wrong: it may have passed over a write that
// completed after it began (H36).
type flusher struct {
	mu       sync.Mutex
	changed  sync.Cond
	started  uint64 // +checklocks:mu
	finished uint64 // +checklocks:mu
	failed   error  // +checklocks:mu
	failedAt uint64 // +checklocks:mu
}

func (f *flusher) init() { f.changed.L = &f.mu }

// Flush returns when every write that completed before the call is durable. An
// error turns the slab read-only, and so it is for every later call.
func (s *Slab) Flush() error {
	if err := s.enter(); err != nil {
		return err
	}
	defer s.life.leave()
	if err := s.flusher.wait(s.flushDevice); err != nil {
		return fmt.Errorf("%s: flush %s: %w", title(s.name), s.dev.Path(), err)
	}
	return nil
}

// Flushes returns the number of device flushes finished so far.
func (s *Slab) Flushes() uint64 {
	s.flusher.mu.Lock()
	defer s.flusher.mu.Unlock()
	return s.flusher.finished
}

// flushDevice is the flush itself and its consequence.
func (s *Slab) flushDevice() error {
	err := s.eng.Flush()
	if err == nil || errors.Is(err, ioengine.ErrClosed) {
		return err
	}
	s.setReadOnly(fmt.Sprintf("flush failed: %v", err))
	return fmt.Errorf("%w: %w", ErrReadOnly, err)
}

// wait returns after the first flush that starts from now on has ended.
func (f *flusher) wait(flush func() error) error {
	f.mu.Lock()
	defer f.mu.Unlock()
	want := f.started + 1
	if mutant.On(mutant.H36) && f.started > f.finished {
		want = f.started
	}
	for f.finished < want && f.failed == nil {
		if f.started > f.finished {
			f.changed.Wait()
			continue
		}
		f.started++
		f.mu.Unlock()
		err := flush()
		f.mu.Lock()
		f.finished = f.started
		if err != nil {
			f.failed, f.failedAt = err, f.finished
		}
		f.changed.Broadcast()
	}
	if f.failed != nil && f.failedAt > want {
		return nil // ours had succeeded before
	}
	return f.failed
}
