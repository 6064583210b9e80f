// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"time"
)

// syncLoop makes relaxed changes durable every SyncInterval.
func (s *Store) syncLoop() {
	defer s.loops.Done()
	if !s.anyRelaxed() {
		return
	}
	t := time.NewTicker(s.o.SyncInterval)
	defer t.Stop()
	synced := uint64(0)
	for {
		select {
		case <-s.stop:
			return
		case <-t.C:
			synced = s.syncSince(synced)
		}
	}
}

func (s *Store) anyRelaxed() bool {
	for _, v := range s.volumes {
		if v.relaxed {
			return true
		}
	}
	return false
}

// syncSince flushes the relaxed slabs, then syncs the log, if anything was
// written after position last; it returns the position that is now safe.
func (s *Store) syncSince(last uint64) uint64 {
	pos := s.commits.reached()
	if pos == last || s.commits.broken() != nil {
		return last
	}
	s.flushRelaxed()
	if err := s.o.Meta.Sync(); err != nil {
		s.commits.fail(nil, err)
		return last
	}
	s.commits.advance(pos)
	return pos
}

// flushRelaxed flushes every relaxed slab, side by side, and waits at most ten
// intervals: a hung device must not keep the slots of the others. Its checksums
// cover what it then has not written.
func (s *Store) flushRelaxed() {
	done := make(chan struct{}, len(s.volumes))
	n := 0
	for _, v := range s.volumes {
		if !v.relaxed || v.slab.Absent() != nil {
			continue
		}
		select {
		case v.dirty <- struct{}{}:
		default:
			continue // the last flush has not come back yet
		}
		n++
		s.flushes.Add(1)
		go func() {
			defer s.flushes.Done()
			if err := v.flush(); err != nil {
				s.o.Log.Error("background flush failed", "slab", v.slab.Name(), "error", err)
			}
			<-v.dirty
			done <- struct{}{}
		}()
	}
	limit := time.NewTimer(10 * s.o.SyncInterval)
	defer limit.Stop()
	for ; n > 0; n-- {
		select {
		case <-done:
		case <-limit.C:
			return
		}
	}
}

// finalSync makes a clean stop durable in relaxed mode too. A slab that cannot be
// flushed keeps no other from that.
func (s *Store) finalSync() error {
	var failed error
	for _, v := range s.volumes {
		if _, ro := v.slab.ReadOnly(); v.relaxed && !ro {
			failed = errors.Join(failed, v.flush())
		}
	}
	if err := s.commits.broken(); err != nil {
		return errors.Join(failed, err)
	}
	pos := s.commits.reached()
	if err := s.o.Meta.Sync(); err != nil {
		return errors.Join(failed, err)
	}
	s.commits.advance(pos)
	return failed
}

// flush makes what was written to the slab durable.
func (v *volume) flush() error {
	v.busy(1)
	defer v.idle(1)
	return v.slab.Flush()
}

// reclaim waits until what was removed before is durable and its slots are free.
// In relaxed mode it has the log synced for that at once. It tells whether it is
// worth another try.
func (s *Store) reclaim(st *Storing) bool {
	pending := false
	for _, v := range s.volumes { // quota may come back from slabs that are no longer its own
		pending = pending || v.slab.Counts().Deleting > 0
	}
	if !pending {
		return false
	}
	return s.commits.wait(st.ctx, s.commits.enqueue(group{sync: true})) == nil
}
