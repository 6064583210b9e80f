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

// minFiles is how many files the metadata must still be able to make: a disk that is
// out of inodes is as full as any, and Pebble makes a few files at a time.
const minFiles = 64

// watchSpace looks once. A file system that cannot say has room.
func (s *Store) watchSpace() {
	now, files := int64(-1), int64(-1)
	if s.o.MinFree > 0 {
		if free, err := s.o.Meta.Free(); err == nil && free < uint64(s.o.MinFree) {
			now = int64(free)
		}
		if n, ok := s.o.Meta.FreeFiles(); ok && n < minFiles {
			files = int64(n)
		}
	}
	was := s.tooFull()
	s.full.Store(now)
	s.fewFiles.Store(files)
	switch is := s.tooFull(); {
	case was == nil && is != nil:
		s.o.Log.Warn("stores are refused while the metadata's file system is short of space", "reason", is)
	case was != nil && is == nil:
		s.o.Log.Info("stores are accepted again: the metadata's file system has room", "min_free", s.o.MinFree)
	}
}

// tooFull returns why stores are refused, or nil.
func (s *Store) tooFull() error {
	const remedy = "free some space there; loads and removes go on"
	if free := s.full.Load(); free >= 0 {
		return metaRoomError(fmt.Sprintf("the file system of meta.path has %d bytes free, meta.min_free is %d: %s", free, s.o.MinFree, remedy))
	}
	if files := s.fewFiles.Load(); files >= 0 {
		return metaRoomError(fmt.Sprintf("the file system of meta.path has room for %d more files (inodes), %d are kept for the metadata: %s", files, minFiles, remedy))
	}
	return nil
}
