// SPDX-License-Identifier: Apache-2.0

package store

import "time"

// syncLoop makes relaxed changes durable every SyncInterval, or at once when a
// store found too few free slots. It sleeps while there is nothing to do.
func (s *Store) syncLoop() {
	defer s.loops.Done()
	t := time.NewTicker(s.o.SyncInterval)
	defer t.Stop()
	if !s.anyRelaxed() {
		t.Stop()
	}
	for {
		select {
		case <-s.stop:
			return
		case <-t.C:
		case <-s.kick:
		}
		s.syncOnce()
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

// syncOnce flushes the relaxed slabs, then syncs the log, then frees what was
// removed before.
func (s *Store) syncOnce() {
	pos, dirty := s.commits.syncTarget()
	if !dirty {
		return
	}
	s.flushRelaxed()
	if err := s.o.Meta.Sync(); err != nil {
		s.commits.fail(nil, err)
		return
	}
	s.commits.advance(pos)
}

// flushRelaxed flushes every relaxed slab, side by side, and waits at most one
// interval: a hung device must not keep the slots of the others. Its checksums
// cover what it then has not written.
func (s *Store) flushRelaxed() {
	done := make(chan struct{}, len(s.volumes))
	n := 0
	for _, v := range s.volumes {
		if !v.relaxed {
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
			if err := v.slab.Flush(); err != nil {
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

// finalSync makes a clean stop durable in relaxed mode too.
func (s *Store) finalSync() error {
	for _, v := range s.volumes {
		if _, ro := v.slab.ReadOnly(); v.relaxed && !ro {
			if err := v.slab.Flush(); err != nil {
				return err
			}
		}
	}
	if err := s.commits.broken(); err != nil {
		return err
	}
	pos, dirty := s.commits.syncTarget()
	if !dirty {
		return nil
	}
	if err := s.o.Meta.Sync(); err != nil {
		return err
	}
	s.commits.advance(pos)
	return nil
}

// reclaim asks for a sync now and waits for it, if removed slots wait for one.
// It tells whether it is worth another try.
func (s *Store) reclaim(st *Storing) bool {
	pos := s.commits.position()
	pending := false
	for _, v := range st.ns.volumes {
		pending = pending || s.volumes[v].slab.Counts().Deleting > 0
	}
	if !pending {
		return false
	}
	select {
	case s.kick <- struct{}{}:
	default:
	}
	return s.commits.wait(st.ctx, pos) == nil
}
