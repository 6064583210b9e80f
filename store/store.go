// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rawblockd/rawblockd/ioengine"
	"github.com/rawblockd/rawblockd/meta"
)

// Store is the whole: see the package comment.
type Store struct {
	o       Options
	hash    hasher
	opaque  opaque
	volumes []*volume
	records []meta.SlabRecord // of slabs, as they were before this start; for Open
	born    uint64            // generations from here on are of this mount
	metrics *metrics
	commits *committer
	past    history
	events  *events
	started time.Time

	mu sync.Mutex // the pin lock; taken through lock and unlock only
	// x is set by Open; what it holds is guarded by mu, but for x.gen.
	x *index
	// By number; what they hold is guarded by mu, but for their settings.
	// +checklocks:mu
	spaces []*space
	// +checklocks:mu
	vacant []uint16 // numbers of namespaces that are gone
	// +checklocks:mu
	leases leaseTable
	// +checklocks:mu
	pins int64 // in force, over all entries
	// +checklocks:mu
	claims map[digest]*claim
	// +checklocks:mu
	clearing *clearing // the clear under way

	names    atomic.Pointer[map[string]*space] // copied to be changed
	changing chan struct{}                     // capacity 1: the turn to change namespaces
	clears   chan struct{}                     // capacity 1: the turn to clear one

	work     sync.WaitGroup // requests and their I/O
	ended    atomic.Bool
	stop     chan struct{} // closed when Close begins
	loops    sync.WaitGroup
	flushes  sync.WaitGroup // background flushes of relaxed slabs, signs of life
	commitd  chan struct{}  // closed when the committer has ended
	expire   chan struct{}  // capacity 1: a lease may end earlier than the sweeper thinks
	watch    chan struct{}  // capacity 1: there is something to see at some slab
	rooms    sync.Pool      // of *room
	gate     sync.RWMutex   // held shared while a request registers with work
	full     atomic.Int64   // bytes free for metadata while that is too little; else -1
	fewFiles atomic.Int64   // files that the metadata can still make while those are too few; else -1

	// +checklocks:mu
	late []setRow // mutant H25 only

	onTouchRead func() // tests: a touch has read its rows and changed nothing yet
}

// Open mounts the slabs, scans their rows and starts the committer and the
// sweepers. Progress, if set, hears of the rows read. The caller keeps slabs,
// metadata store and buffers and closes them after the Store.
func Open(ctx context.Context, o Options) (*Store, error) {
	if err := o.validate(); err != nil {
		return nil, err
	}
	if o.Now == nil {
		o.Now = time.Now
	}
	s := &Store{
		o: o, hash: newHasher(), metrics: newMetrics(), claims: map[digest]*claim{},
		leases: newLeaseTable(), stop: make(chan struct{}), commitd: make(chan struct{}),
		expire: make(chan struct{}, 1), watch: make(chan struct{}, 1), changing: make(chan struct{}, 1), clears: make(chan struct{}, 1),
	}
	s.past.size, s.started, s.events = historySize, o.Now(), newEvents()
	s.commits = newCommitter(s)
	s.names.Store(&map[string]*space{})
	if err := s.attach(); err != nil {
		return nil, err
	}
	seeded, err := s.loadNamespaces()
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	if err := s.recover(ctx, seeded); err != nil {
		return nil, err
	}
	born, err := o.Meta.NextGenerations(1)
	if err != nil {
		return nil, fmt.Errorf("open store: %w", err)
	}
	s.born = born
	s.full.Store(-1)
	s.fewFiles.Store(-1)
	s.watchSpace()
	go func() {
		defer close(s.commitd)
		s.commits.run()
	}()
	s.loops.Add(4)
	go s.spaceLoop()
	go s.sweepLoop()
	go s.syncLoop()
	go s.watchLoop()
	return s, nil
}

// begin registers a request; it fails once Close has begun. Every success needs
// a work.Done.
func (s *Store) begin() error {
	s.gate.RLock()
	defer s.gate.RUnlock()
	if s.ended.Load() {
		return ErrClosed
	}
	s.work.Add(1)
	return nil
}

// Close lets running requests end, commits and syncs what is queued and stops
// the background work. Nothing relies on it having run.
func (s *Store) Close() error {
	s.gate.Lock()
	already := s.ended.Swap(true)
	s.gate.Unlock()
	if already {
		return nil
	}
	s.events.close()
	s.work.Wait()
	close(s.stop)
	s.loops.Wait()
	s.flushes.Wait()
	s.commits.stop()
	<-s.commitd
	return s.finalSync()
}

// Buffer returns memory for a payload of n bytes from the stream budget, in the
// order of asking. Give it to Storing.Add, or release it.
func (s *Store) Buffer(ctx context.Context, n int64) (*ioengine.Buf, error) {
	trace := traceOf(ctx)
	trace.At(StageQueue)
	defer trace.At(StageStart)
	return s.o.Buffers.Get(ctx, n)
}

// MaxPayload returns the length of the longest entry in bytes.
func (s *Store) MaxPayload() int64 { return s.o.MaxPayload }

// Collectors returns the store's metrics.
func (s *Store) Collectors() []prometheus.Collector {
	return append(s.metrics.collectors(), &reporter{s})
}

// nowMS is the time in Unix milliseconds, the unit of rows.
func (s *Store) nowMS() int64 { return s.o.Now().UnixMilli() }
