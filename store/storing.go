// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rawblockd/rawblockd/ioengine"
	"github.com/rawblockd/rawblockd/meta"
	"github.com/rawblockd/rawblockd/slab"
)

// StoreOptions say how a batch is stored.
type StoreOptions struct {
	Overwrite bool          // replace an entry of the same key; otherwise it answers Exists
	Force     bool          // with Overwrite: also one that is pinned
	TTL       time.Duration // 0: the namespace's
	After     string        // key that the batch continues, for eviction by runs
	Family    string        // groups entries that are of use only together, such as the ranks of one chunk
}

// StoreItem is one payload.
type StoreItem struct {
	Key string
	Len int64         // bytes
	Buf *ioengine.Buf // the payload; nil only where Len is beyond the limit
}

// StoreResult answers one item.
type StoreResult struct {
	Key       string
	Status    Status
	SlotBytes int64 // what it takes of the quota, for OK
	Forced    bool  // it replaced an entry that leases protected, or may have
	Err       error // detail of what failed
}

// Storing is a batch of stores under way. Its items become visible together,
// at Commit, and only then: a batch that is aborted, or whose client is gone,
// leaves nothing behind. One goroutine drives it.
type Storing struct {
	s   *Store
	ctx context.Context
	ns  *space
	o   StoreOptions

	now    int64 // unix ms: stored-at of every item
	expiry int64 // unix ms; 0: never
	family uint64
	after  uint64
	run    uint64 // generation of the batch's first item

	items   []*storeItem
	window  *window // of what is added and not written yet
	kept    int64   // bytes of the keys that only follow
	seen    map[digest]struct{}
	flights []*flight     // of the round under way
	ended   chan struct{} // closed when finish has ended
	shown   chan struct{} // closed when the first round was published and confirmed

	mu sync.Mutex
	// +checklocks:mu
	phase phase
	// +checklocks:mu
	late int // writes under way that the batch has gone on without
	// +checklocks:mu
	back []*storeItem // items of those of them that were answered
	// +checklocks:mu
	results []StoreResult // by place; what is not recorded yet is Deadline
}

// phase is how far a Storing has come.
type phase uint8

const (
	collecting phase = iota
	finishing        // Commit was called
	publishing       // past the point of no return
	cancelled        // its caller has left or has its answer: nothing more may become visible
)

// storeItem is one item on its way.
type storeItem struct {
	StoreItem // Buf is nil once its write has it
	digest    digest
	status    Status
	err       error
	settle    bool // status is final

	claim  *claim // ours
	follow *claim // another batch's: it decides
	charge int64  // bytes that the payload takes of the batch's window

	vol       int
	ids       []id
	slots     []uint32
	gen, sum  uint64
	pos       uint32 // place in the batch
	slotBytes int64  // charged to the namespace
	forced    bool   // it replaces a pinned entry
	writeErr  error
	replaces  id // mutant H9 only: the entry that is overwritten in place
}

// claim is a key that some batch is storing now. Others follow it.
type claim struct {
	done chan struct{}
	ok   bool   // set before done is closed
	pos  uint64 // position that made it true
}

// BeginStore starts a batch. The caller ends it with Commit or Abort.
func (s *Store) BeginStore(ctx context.Context, ns string, o StoreOptions) (*Storing, error) {
	sp, err := s.space(ns)
	if err != nil {
		return nil, err
	}
	for what, key := range map[string]string{"after": o.After, "family": o.Family} {
		if key == "" {
			continue
		}
		if err := CheckKey(key); err != nil {
			return nil, fmt.Errorf("%s: %w", what, err)
		}
	}
	if err := s.begin(); err != nil {
		return nil, err
	}
	st := &Storing{s: s, ctx: ctx, ns: sp, o: o, window: s.newWindow(s.o.Buffers.Cap() / windowShare), seen: map[digest]struct{}{}, ended: make(chan struct{}), shown: make(chan struct{})}
	st.now = s.nowMS()
	ttl := o.TTL
	if ttl == 0 {
		ttl = sp.settings().ttl
	}
	if ttl > 0 {
		st.expiry = s.o.Now().Add(ttl).UnixMilli()
	}
	if o.Family != "" {
		st.family = slab.KeySeed(ns, o.Family)
	}
	if o.After != "" {
		st.after = slab.KeySeed(ns, o.After)
	}
	return st, nil
}

// Add takes items, whose buffers it owns from now on, and starts to write them.
// All items of one call are claimed in one lock section. It does not wait for
// the device.
func (st *Storing) Add(items ...StoreItem) {
	fresh := make([]*storeItem, len(items))
	for i, in := range items {
		it := &storeItem{StoreItem: in, pos: uint32(len(st.items)), replaces: none}
		st.items = append(st.items, it)
		fresh[i] = it
		st.hold(it)
		switch {
		case CheckKey(in.Key) != nil:
			it.end(InvalidKey, CheckKey(in.Key))
		case in.Len > st.s.o.MaxPayload:
			it.end(TooLarge, fmt.Errorf("%d bytes, the limit is %d", in.Len, st.s.o.MaxPayload))
		case in.Len <= 0 || in.Buf == nil || in.Buf.Len() < in.Len:
			it.end(SizeMismatch, fmt.Errorf("payload of %d bytes", in.Len))
		default:
			it.digest = st.s.hash.of(st.ns.salt, in.Key)
			if _, again := st.seen[it.digest]; again {
				it.end(Duplicate, nil)
				break
			}
			st.seen[it.digest] = struct{}{}
		}
	}
	st.start(fresh)
}

// end settles an item's answer.
func (it *storeItem) end(status Status, err error) {
	it.status, it.err, it.settle = status, err, true
}

// row is what becomes durable of an item.
func (st *Storing) row(it *storeItem) *meta.Row {
	return &meta.Row{
		Namespace: st.ns.name, Key: it.Key, Gen: it.gen, Len: uint64(it.Len), More: it.slots[1:], Sum: it.sum,
		StoredAt: st.now, ExpiresAt: st.expiry, Family: st.family, After: st.after, Run: st.run, Pos: it.pos,
	}
}

// Commit publishes what was written and waits until it is durable. Results are
// in the order of Add. If the context ends first, what was not published is not
// going to be (Deadline); what was has an unknown outcome (Deadline with
// ErrOutcomeUnknown).
func (st *Storing) Commit() ([]StoreResult, error) {
	if !st.enter(collecting, finishing) {
		return nil, errors.New("store: Commit of a batch that has ended")
	}
	st.prepare()
	go st.finish()
	select {
	case <-st.ended:
	case <-st.ctx.Done():
		if !st.enter(finishing, cancelled) {
			<-st.shown // published: what follows ends with the context by itself
		}
	}
	st.mu.Lock()
	defer st.mu.Unlock()
	st.phase = cancelled
	out := append([]StoreResult(nil), st.results...)
	for i := range out {
		if out[i].Status == Deadline && out[i].Err == nil {
			out[i].Err = context.Cause(st.ctx)
		}
		st.s.metrics.results.WithLabelValues("store", out[i].Status.String()).Inc()
	}
	return out, nil
}

// prepare sets every answer to what it is while nothing else is known.
func (st *Storing) prepare() {
	st.mu.Lock()
	defer st.mu.Unlock()
	st.results = make([]StoreResult, len(st.items))
	for i, it := range st.items {
		st.results[i] = StoreResult{Key: it.Key, Status: Deadline}
	}
}

// record makes the settled answers of a round visible to Commit.
func (st *Storing) record(round []*storeItem) {
	st.mu.Lock()
	defer st.mu.Unlock()
	for _, it := range round {
		if !it.settle {
			continue
		}
		r := &st.results[it.pos]
		r.Status, r.Err, r.Forced = it.status, it.err, it.forced
		if it.status == OK {
			r.SlotBytes = it.slotBytes
		}
	}
}

// takeOver tells whether a round of keys taken over may still be published: not
// once Commit has answered. From here on their outcome is unknown to a caller who
// leaves.
func (st *Storing) takeOver(round []*storeItem) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.phase != publishing {
		return false
	}
	for _, it := range round {
		if !it.settle && it.ids != nil {
			st.results[it.pos].Err = ErrOutcomeUnknown
		}
	}
	return true
}

// Abort ends a batch without publishing anything; its slots come back when
// their writes have ended. After Commit it does nothing.
func (st *Storing) Abort() {
	if st.enter(collecting, cancelled) {
		go st.finish()
	}
}

// enter moves from one phase to the next, if it is still in the first.
func (st *Storing) enter(from, to phase) bool {
	st.mu.Lock()
	defer st.mu.Unlock()
	if st.phase != from {
		return false
	}
	st.phase = to
	return true
}
