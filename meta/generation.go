// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"fmt"
	"math"
	"sync"

	"github.com/cockroachdb/pebble/v2"

	"github.com/rawblockd/rawblockd/internal/mutant"
)

// generationBlock is how far the durable mark runs ahead: one sync per million
// generations, and at most that many of 2⁶⁴ skipped by a restart.
const generationBlock = 1 << 20

// generations hands out numbers that no two reservations ever share. The mark
// on disk is raised and synced before the first number below it is used; a
// start continues at the mark, so what was handed out before it never returns.
type generations struct {
	// raising lets one caller at a time raise the mark; it is held across that
	// commit and guards no data, so the others still draw below the old mark.
	raising sync.Mutex

	mu   sync.Mutex
	next uint64 // +checklocks:mu
	mark uint64 // +checklocks:mu
}

// NextGenerations hands out n consecutive generations, starting at first; never
// 0, never one that was handed out before, by this process or an earlier one.
func (db *DB) NextGenerations(n uint64) (first uint64, err error) {
	for {
		if err := db.fail.err(); err != nil {
			return 0, err
		}
		if first, ok := db.gen.take(n); ok {
			return first, nil
		}
		if err := db.raiseGenerations(n); err != nil {
			return 0, err
		}
	}
}

func (g *generations) take(n uint64) (first uint64, ok bool) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if n > g.mark-g.next {
		return 0, false
	}
	first = g.next
	g.next += n
	return first, true
}

// raiseGenerations makes room for n more, unless another caller just did.
func (db *DB) raiseGenerations(n uint64) error {
	g := &db.gen
	g.raising.Lock()
	defer g.raising.Unlock()
	g.mu.Lock()
	room, next, mark := g.mark-g.next, g.next, g.mark
	g.mu.Unlock()
	if n <= room {
		return nil
	}
	if next > math.MaxUint64-n || next+n > math.MaxUint64-2*generationBlock {
		return fmt.Errorf("%w: %d more after %d", ErrGenerations, n, next)
	}
	// Whole blocks beyond what is needed now, even if others draw meanwhile.
	mark = max(mark, (next+n+generationBlock-1)/generationBlock*generationBlock) + generationBlock
	if err := db.applied(func() error { return db.pb.Set([]byte(keyGeneration), encodeNumber(mark), pebble.Sync) }); err != nil {
		return err
	}
	g.mu.Lock()
	g.mark = mark
	g.mu.Unlock()
	return nil
}

// loadGenerations continues at the mark.
func (db *DB) loadGenerations() error {
	var mark uint64
	ok, err := db.get([]byte(keyGeneration), func(value []byte) (err error) {
		mark, err = decodeNumber(value)
		return err
	})
	if err != nil {
		return fmt.Errorf("generation mark: %w", err)
	}
	if !ok || mark == 0 {
		mark = 1
	}
	db.gen.mu.Lock()
	defer db.gen.mu.Unlock()
	db.gen.next, db.gen.mark = mark, mark
	if mutant.On(mutant.H41) {
		db.gen.next = 1
	}
	return nil
}
