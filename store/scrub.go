// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"sync"
	"time"

	"github.com/rawblockd/rawblockd/ioengine"
	"github.com/rawblockd/rawblockd/slab"
)

var (
	// ErrScrubbing says that a scrub of the slab is under way already.
	ErrScrubbing = errors.New("a scrub is under way")
	// ErrNoScrub says that the slab is out of service.
	ErrNoScrub = errors.New("the slab cannot be scrubbed")
)

// scrubPatience is how long a scrub waits before one entry for a slab that is
// never without loads: a pass then takes long, but it ends.
const scrubPatience = time.Second

// ScrubProgress tells of the last scrub of a slab since the start.
type ScrubProgress struct {
	Done, Total uint32 // slots that are behind it, of all of the slab
	Bad         int    // entries that were bad or unreadable
	Running     bool
	Ended       time.Time // zero while it runs
	Stopped     string    // why it ended before its end; empty: it did not
}

// scrub is a volume's.
type scrub struct {
	mu sync.Mutex
	// +checklocks:mu
	progress *ScrubProgress // nil: none since the start
}

// begin starts to tell of a new scrub, unless one runs.
func (p *scrub) begin(total uint32) bool {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.progress != nil && p.progress.Running {
		return false
	}
	p.progress = &ScrubProgress{Total: total, Running: true}
	return true
}

// set changes what is told.
func (p *scrub) set(change func(*ScrubProgress)) {
	p.mu.Lock()
	defer p.mu.Unlock()
	change(p.progress)
}

// view returns what is told, nil for nothing.
func (p *scrub) view() *ScrubProgress {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.progress == nil {
		return nil
	}
	now := *p.progress
	return &now
}

// Scrub starts to read every entry of a slab in the background and returns. An
// entry whose bytes do not match its checksum, or that the device cannot read,
// goes as it would after a load; when errors have put as many slots out of use as
// they may, the next bad entry ends the pass. The pass takes one entry at a time and stands
// back while loads of clients are in flight on the slab; entries that are stored
// behind it are not read. SlabStatus tells how far it is; Close ends it.
//
// Errors: ErrSlab for an unknown name, ErrScrubbing, ErrNoScrub for a slab that is
// out of service, ErrClosed, and ctx's own if it has ended already.
func (s *Store) Scrub(ctx context.Context, name string) error {
	if err := ctx.Err(); err != nil {
		return err
	}
	if err := s.begin(); err != nil {
		return err
	}
	defer s.work.Done()
	v, err := s.slabNamed(name)
	if err != nil {
		return err
	}
	if ok, why := v.serves(); !ok {
		return fmt.Errorf("%w: %w", ErrNoScrub, why)
	}
	if !v.scrub.begin(v.slab.SlotCount()) {
		return fmt.Errorf("%w on slab %q", ErrScrubbing, name)
	}
	s.loops.Add(1)
	go func() {
		defer s.loops.Done()
		s.scrubVolume(v)
	}()
	return nil
}

// scrubVolume is one pass.
func (s *Store) scrubVolume(v *volume) {
	s.o.Log.Info("scrub begins", "slab", v.slab.Name())
	err := s.scrubEntries(v)
	v.scrub.set(func(p *ScrubProgress) {
		p.Running, p.Ended = false, s.o.Now()
		if err != nil {
			p.Stopped = err.Error()
		}
	})
	p := v.scrub.view()
	s.o.Log.Info("scrub has ended", "slab", v.slab.Name(), "slots", p.Done, "of", p.Total, "bad", p.Bad, "stopped", p.Stopped)
}

func (s *Store) scrubEntries(v *volume) error {
	ctx, cancel := s.untilClose()
	defer cancel()
	for from := v.base; from < v.end(); {
		if err := s.standBack(v); err != nil {
			return err
		}
		it, next := s.captureFrom(v, from)
		if it != nil {
			bad, err := s.scrubEntry(ctx, it)
			s.release([]id{it.head})
			if bad {
				s.metrics.scrubBad.WithLabelValues(v.slab.Name()).Inc()
				v.scrub.set(func(p *ScrubProgress) { p.Bad++ })
			}
			if err != nil {
				return err
			}
		}
		from = next
		v.scrub.set(func(p *ScrubProgress) { p.Done = next - v.base })
	}
	return nil
}

// untilClose returns a context for waits of background work: it ends when Close
// begins to end that.
func (s *Store) untilClose() (context.Context, context.CancelFunc) {
	ctx, cancel := context.WithCancel(context.Background())
	s.loops.Add(1)
	go func() {
		defer s.loops.Done()
		select {
		case <-s.stop:
			cancel()
		case <-ctx.Done():
		}
	}()
	return ctx, cancel
}

// errStopping ends a scrub with the store.
var errStopping = errors.New("the store was closed")

// standBack waits until no loads of clients are in flight on the volume.
func (s *Store) standBack(v *volume) error {
	select {
	case <-s.stop:
		return errStopping
	default:
	}
	if ok, why := v.serves(); !ok {
		return why
	}
	quiet := v.loads.quiet()
	if quiet == nil {
		return nil
	}
	patience := time.NewTimer(scrubPatience)
	defer patience.Stop()
	select {
	case <-quiet:
	case <-patience.C:
	case <-s.stop:
		return errStopping
	}
	return nil
}

// captureFrom takes a reference on the first entry whose head is at or behind from,
// and returns it with the place to go on from: nil if there is none before that.
func (s *Store) captureFrom(v *volume, from id) (it *loadItem, next id) {
	vol := s.volumeOf(from)
	to := min(from+chunk, v.end())
	h := s.lock(lockScrub)
	defer s.unlock(h)
	for e := from; e < to; e++ {
		if s.x.life[e] != live || s.x.refs[e] == ^uint16(0) {
			continue
		}
		s.x.refs[e]++
		it := &loadItem{head: e, vol: vol}
		it.Gen, it.Bytes = s.x.gen[e], int64(s.x.length[e])
		it.pay = slab.Payload{Slots: v.toSlots(s.x.chain(nil, e)), Len: it.Bytes, Gen: it.Gen, Sum: s.x.sum[e]}
		return it, e + 1
	}
	return nil, to
}

// scrubEntry reads one entry that is referenced. The error ends the pass.
func (s *Store) scrubEntry(ctx context.Context, it *loadItem) (bad bool, err error) {
	v := s.volumes[it.vol]
	row, ok, err := s.o.Meta.Get(v.inc, it.head-v.base)
	if err != nil {
		return false, err
	}
	if !ok || row.Gen != it.Gen {
		return false, nil // its row is on its way: it was stored just now
	}
	it.Key, it.pay.Seed = row.Key, slab.KeySeed(row.Namespace, row.Key)
	if err := v.share.get(ctx, v.health.down.on(), ioengine.Read, it.Bytes); err != nil {
		return false, s.whyEnded(v)
	}
	defer v.share.put(ioengine.Read, it.Bytes)
	buf, err := s.o.Buffers.Get(ctx, it.Bytes)
	switch {
	case errors.Is(err, ioengine.ErrNoRoom):
		return false, nil // stored under larger limits; no load can read it either
	case err != nil:
		return false, s.whyEnded(v)
	}
	defer buf.Release()
	err = v.readAlone(slab.ReadReq{Payload: it.pay, Dst: buf.Chunks()})
	switch s.judge(it, err, byScrub) {
	case OK, Missing:
		return false, nil
	case Unavailable:
		return false, s.whyEnded(v)
	}
	if why := v.health.now.Load().worn; why != "" && !s.torn(it) {
		return true, errors.New(why)
	}
	return true, nil
}

// readAlone reads one payload and verifies it, whatever loads do, and waits for it.
func (v *volume) readAlone(req slab.ReadReq) error {
	n := v.slab.OpsFor(req.Len)
	v.busy(n)
	defer v.idle(n)
	read := make(chan error, 1)
	v.slab.ReadVerified([]slab.ReadReq{req}, func(_ int, err error) { read <- err })
	return <-read
}

// whyEnded returns why a pass cannot go on.
func (s *Store) whyEnded(v *volume) error {
	if ok, why := v.serves(); !ok {
		return why
	}
	return errStopping
}

// loads counts batches of clients that are reading from a volume.
type loads struct {
	mu sync.Mutex
	// +checklocks:mu
	n int
	// +checklocks:mu
	none chan struct{} // closed when n is 0 again; nil: nobody waits
}

func (l *loads) begin() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n++
}

func (l *loads) end() {
	l.mu.Lock()
	defer l.mu.Unlock()
	l.n--
	if l.n == 0 && l.none != nil {
		close(l.none)
		l.none = nil
	}
}

// quiet returns nil if there are none, else what is closed when there are.
func (l *loads) quiet() <-chan struct{} {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.n == 0 {
		return nil
	}
	if l.none == nil {
		l.none = make(chan struct{})
	}
	return l.none
}
