// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"time"

	"github.com/rawblockd/rawblockd/internal/mutant"
	"github.com/rawblockd/rawblockd/meta"
)

// TouchResult answers a touch, one result per key in request order.
type TouchResult struct {
	Results []KeyResult
	Touched int // how many are OK
}

// touchRounds is how often a touch looks again for keys that were replaced while
// it read their rows. Each round takes a store of that very key to lose.
const touchRounds = 4

// Touch makes keys expire ttl from now, be that later or sooner than they would
// have. 0 is the namespace's time to live; if that has none either, the expiry
// of a key stays as it is and only its presence is asserted. A repeated key is
// Duplicate in its later places; expired and missing keys stay what they are; a
// pinned key is touched like any other. OK is durable, and so is what Missing
// asserts (in relaxed mode, when the index has it).
//
// A touch writes whole rows, which it reads outside the pin lock. So a row goes
// to the committer only in a lock section that finds the entry of that very
// generation still there (H25: no write-back brings a removed key back).
func (s *Store) Touch(ctx context.Context, ns string, keys []string, ttl time.Duration) (TouchResult, error) {
	sp, err := s.enter(ns)
	if err != nil {
		return TouchResult{}, err
	}
	defer s.work.Done()
	t := &touching{s: s, results: make([]KeyResult, len(keys))}
	if len(keys) == 0 {
		return TouchResult{Results: t.results}, nil
	}
	if ttl <= 0 {
		ttl = sp.settings().ttl
	}
	if ttl > 0 {
		t.expiry = s.o.Now().Add(ttl).UnixMilli()
	}
	t.collect(sp, keys)
	for n := 0; n < touchRounds && len(t.open) > 0; n++ {
		t.look(ctx)
		t.read(ctx)
		t.apply(ctx, sp)
	}
	for _, it := range t.open {
		t.results[it.place] = KeyResult{Status: Busy, Err: errors.New("the key was stored anew again and again meanwhile: touch it again")}
	}
	refuseKeys(t.results, keys)
	r := TouchResult{Results: t.results, Touched: t.settle(ctx, sp)}
	if t.expiry != 0 {
		s.nudge()
	}
	s.metrics.countResults("touch", r.Results)
	return r, nil
}

// touching is one batch of touches under way.
type touching struct {
	s       *Store
	expiry  int64 // unix ms; 0: stays as it is
	results []KeyResult
	open    []touchItem // keys without an answer
	pos     uint64      // position that makes the answers true
}

// touchItem is one key of a touching.
type touchItem struct {
	place  int // in the results
	digest digest
	head   id
	gen    uint64
	row    *meta.Row // nil: not read, or no longer this generation's
}

// collect begins with all keys that are valid and not repeated.
func (t *touching) collect(sp *space, keys []string) {
	ds, valid := t.s.digests(sp, keys)
	markRepeats(t.results, ds, valid)
	broken := t.s.commits.broken()
	t.open = make([]touchItem, 0, len(keys))
	for i := range keys {
		res := &t.results[i]
		switch {
		case !valid[i]:
			res.Status = InvalidKey
		case res.Status == Duplicate:
		case broken != nil:
			res.Status, res.Err = Unavailable, broken
		default:
			t.open = append(t.open, touchItem{place: i, digest: ds[i], head: none})
		}
	}
}

// look captures what is there of the open keys in one lock section, and answers
// those whose row need not change.
func (t *touching) look(ctx context.Context) {
	s := t.s
	full := s.tooFull()
	now := s.nowMS()
	kept := t.open[:0]
	h := s.lockIn(ctx, lockTouch)
	for _, it := range t.open {
		res := s.hitLocked(it.digest, true, now)
		if res.Status == OK && t.expiry != 0 {
			it.head, _ = s.x.find(it.digest)
			it.gen, it.row = res.Gen, nil
			if full == nil {
				kept = append(kept, it)
				continue
			}
			res = KeyResult{Status: Unavailable, Err: full}
		}
		t.results[it.place] = res
	}
	t.pos = s.commits.position()
	s.unlock(h)
	t.open = kept
}

// read gets the rows of the open keys. A row that is not there yet, because its
// store is on its way to the disk, is waited for.
func (t *touching) read(ctx context.Context) {
	if len(t.open) == 0 {
		return
	}
	waited := false
	kept := t.open[:0]
	for _, it := range t.open {
		err := t.readOne(&it)
		if err == nil && it.row == nil && !waited {
			waited = true
			if err = t.s.commits.waitWritten(ctx, t.pos); err == nil {
				err = t.readOne(&it)
			}
		}
		if err == nil {
			err = ctx.Err()
		}
		if err == nil {
			kept = append(kept, it)
			continue
		}
		t.results[it.place] = KeyResult{Status: untouched(err), Err: err}
	}
	t.open = kept
	if t.s.onTouchRead != nil {
		t.s.onTouchRead()
	}
}

// untouched is the answer of a key whose row could not be read: nothing was
// changed.
func untouched(err error) Status {
	if errors.Is(err, context.Canceled) || errors.Is(err, context.DeadlineExceeded) {
		return Deadline
	}
	return turned(err)
}

// readOne reads the row of one key, if it is that of the generation captured.
func (t *touching) readOne(it *touchItem) error {
	inc, slot := t.s.rowKey(it.head)
	row, found, err := t.s.o.Meta.Get(inc, slot)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnavailable, err)
	}
	if found && row.Gen == it.gen {
		it.row = &row
	}
	return nil
}

// apply changes what is still there and queues its row, in one lock section.
// What has changed meanwhile stays open.
func (t *touching) apply(ctx context.Context, sp *space) {
	if len(t.open) == 0 {
		return
	}
	s := t.s
	now := s.nowMS()
	g := group{touches: make([]setRow, 0, len(t.open))}
	kept := t.open[:0]
	h := s.lockIn(ctx, lockTouch)
	for _, it := range t.open {
		res := &t.results[it.place]
		switch {
		case s.x.gen[it.head] != it.gen:
			kept = append(kept, it)
		case s.x.dead(it.head, now):
			*res = KeyResult{Status: Expired}
		case it.row == nil:
			*res = KeyResult{Status: Unavailable, Err: errors.New("the entry has no row in the metadata store; stop the daemon and look into it")}
		default:
			it.row.ExpiresAt = t.expiry
			s.x.retime(it.head, t.expiry)
			g.touches = append(g.touches, setRow{it.head, it.row})
			*res = KeyResult{Status: OK, Bytes: int64(s.x.length[it.head]), Gen: it.gen}
		}
	}
	if mutant.On(mutant.H25) {
		g.touches = s.writeBackLocked(g.touches)
	}
	t.pos = s.commits.position()
	if len(g.touches) > 0 {
		g.sync = s.anySync(sp)
		t.pos = s.commits.enqueue(g)
	}
	s.unlock(h)
	t.open = kept
}

// settle waits for what the answers assert, turns them if it does not come true,
// and returns how many are OK. Missing and Expired wait too: what made them so
// may be on its way still.
func (t *touching) settle(ctx context.Context, sp *space) (touched int) {
	asserts := false
	for i := range t.results {
		asserts = asserts || t.results[i].Status.asserted()
	}
	var err error
	if asserts && t.s.anySync(sp) {
		err = t.s.commits.wait(ctx, t.pos)
	}
	for i := range t.results {
		res := &t.results[i]
		if err != nil && res.Status.asserted() {
			*res = KeyResult{Status: turned(err), Err: err}
		}
		if res.Status == OK {
			touched++
		}
	}
	return touched
}

// asserted tells whether a touch that answers st says how the entry is.
func (st Status) asserted() bool { return st == OK || st == Missing || st == Expired }
