// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"time"
)

// spaceEvery is how often the metadata's file system is asked for its free space.
const spaceEvery = time.Second

// spaceLoop keeps watch over the metadata's file system: stores stop while there
// is still room for removes, and before Pebble meets the end of it.
func (s *Store) spaceLoop() {
	defer s.loops.Done()
	if s.o.MinFree <= 0 {
		return
	}
	t := time.NewTicker(spaceEvery)
	defer t.Stop()
	for {
		select {
		case <-s.stop:
			return
		case <-t.C:
			s.watchSpace()
		}
	}
}

// watchSpace looks once. A file system that cannot say has room.
func (s *Store) watchSpace() {
	now := int64(-1)
	if s.o.MinFree > 0 {
		if free, err := s.o.Meta.Free(); err == nil && free < uint64(s.o.MinFree) {
			now = int64(free)
		}
	}
	if was := s.full.Swap(now); (was < 0) != (now < 0) {
		s.o.Log.Warn("stores are refused while the metadata's file system is short of space", "refused", now >= 0, "min_free", s.o.MinFree)
	}
}

// tooFull returns why stores are refused, or nil.
func (s *Store) tooFull() error {
	free := s.full.Load()
	if free < 0 {
		return nil
	}
	return fmt.Errorf("the file system of meta.path has %d bytes free, meta.min_free is %d: free some space there; loads and removes go on", free, s.o.MinFree)
}
