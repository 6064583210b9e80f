// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"math"

	"github.com/rawblockd/rawblockd/meta"
)

// rowAway is the row of an entry that the index does not have, because its slab is
// not configured, or is missing and has no record that says what it is.
type rowAway struct {
	inc  meta.Incarnation
	head uint32
}

// awayLook is how many rows are read in one view of the metadata store.
const awayLook = 1 << 16

// dropAway deletes the rows that a namespace has on slabs that the index does not
// have: what is cleared or deleted must not be back when such a slab is. Nothing
// is stored there meanwhile, so there is no line to draw. It is durable when it
// returns. A row of a later release may be the namespace's or not, so it refuses.
//
// The alternative is a record of what is dead, for the start that has the slab
// again: one more format, which an earlier release would not know of, and which
// would be there for ever for a slab that never comes.
func (s *Store) dropAway(ctx context.Context, name string) error {
	slabs, err := s.absent()
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	var p pace
	dropped := 0
	for _, inc := range slabs {
		for from, more := uint32(0), true; more; {
			var rows []rowAway
			if rows, from, err = s.findAway(ctx, name, inc, from); err != nil {
				return fmt.Errorf("entries of namespace %q on slab %v, which is not configured: %w", name, inc, err)
			}
			if more = from != 0; len(rows) == 0 {
				continue
			}
			if err := p.wait(ctx, s.commits); err != nil {
				return err
			}
			p.sent(s.commits.enqueue(group{sync: true, away: rows}))
			dropped += len(rows)
		}
	}
	if dropped > 0 {
		s.o.Log.Info("entries on slabs that are not configured were dropped", "namespace", name, "entries", dropped)
	}
	return s.commits.wait(ctx, p.last)
}

// findAway finds a chunk of rows of a namespace on a slab, from a slot on, and
// returns where to go on; 0: that was all. A damaged row is left to the start that
// has the slab again: it drops it.
func (s *Store) findAway(ctx context.Context, name string, inc meta.Incarnation, from uint32) (rows []rowAway, next uint32, err error) {
	looked := 0
	var stop error
	err = s.o.Meta.Scan(inc, from, 0, func(head uint32, row meta.Row, rowErr error) bool {
		if errors.Is(rowErr, meta.ErrIncompat) {
			stop = fmt.Errorf("row of slot %d: %w: start the release that wrote it", head, rowErr)
			return false
		}
		if rowErr == nil && row.Namespace == name {
			rows = append(rows, rowAway{inc, head})
		}
		if looked++; (looked == awayLook || len(rows) == chunk) && head < math.MaxUint32 {
			next = head + 1
			return false
		}
		return true
	})
	if err != nil {
		err = fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if ctx.Err() != nil {
		stop = context.Cause(ctx)
	}
	return rows, next, errors.Join(stop, err)
}
