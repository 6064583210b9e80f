// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"

	"github.com/rawblockd/rawblockd/meta"
)

// ListEntry is one entry of a list.
type ListEntry struct {
	Key       string
	Bytes     int64
	StoredAt  int64 // unix ms
	ExpiresAt int64 // unix ms; 0: never
	Pinned    bool

	head id
	gen  uint64
}

// maxList bounds one page.
const maxList = 10000

// List returns up to limit entries of a namespace in slot order, from cursor
// on ("" is the beginning), and the cursor of the next page ("" after the last
// one). It reads durable rows and leaves out what was removed meanwhile.
func (s *Store) List(ctx context.Context, ns, cursor string, limit int) ([]ListEntry, string, error) {
	sp, err := s.enter(ns)
	if err != nil {
		return nil, "", err
	}
	defer s.work.Done()
	vol, from, err := s.parseCursor(sp, cursor)
	if err != nil {
		return nil, "", err
	}
	if limit <= 0 || limit > maxList {
		limit = maxList
	}
	var out []ListEntry
	for ; vol < len(s.volumes); vol, from = vol+1, 0 {
		next, err := s.listVolume(ctx, sp, vol, from, limit, &out)
		if err != nil {
			return nil, "", err
		}
		if len(out) == limit {
			return s.present(out), s.cursor(sp, vol, next), nil
		}
	}
	return s.present(out), "", nil
}

// listVolume appends entries of one slab and returns the slot to go on from: the one
// behind the last entry, so that it does not depend on what others have there.
func (s *Store) listVolume(ctx context.Context, sp *space, vol int, from uint32, limit int, out *[]ListEntry) (uint32, error) {
	v := s.volumes[vol]
	if from >= v.slab.SlotCount() {
		return from, nil
	}
	next := v.slab.SlotCount()
	var stop error
	err := s.o.Meta.Scan(v.inc, from, 0, func(head uint32, row meta.Row, rowErr error) bool {
		if stop = ctx.Err(); stop != nil {
			return false
		}
		if rowErr == nil && row.Namespace == sp.name {
			*out = append(*out, ListEntry{Key: row.Key, Bytes: int64(row.Len), StoredAt: row.StoredAt, ExpiresAt: row.ExpiresAt, head: head + v.base, gen: row.Gen})
		}
		if len(*out) == limit {
			next = head + 1
			return false
		}
		return true
	})
	switch {
	case stop != nil:
		err = stop
	case errors.Is(err, meta.ErrFailed):
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	return next, err
}

// present keeps the entries that the index still has.
func (s *Store) present(in []ListEntry) []ListEntry {
	now := s.nowMS()
	out := in[:0]
	h := s.lock(lockReport)
	defer s.unlock(h)
	for _, e := range in {
		if s.x.gen[e.head] != e.gen || s.x.dead(e.head, now) {
			continue
		}
		e.Pinned = s.x.pins[e.head] > 0
		out = append(out, e)
	}
	return out
}
