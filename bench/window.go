// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rawblockd/rawblockd/ioengine"
)

// ending says what of a window counts.
type ending uint8

const (
	// drained counts from the ramp's end to the last completion, after nothing was
	// submitted any more: as fio counts.
	drained ending = iota
	// aligned counts from the end of one batch, whosever, to the end of another.
	aligned
	// timed counts exactly the time of the window.
	timed
)

// window is a stretch of load on one engine.
type window struct {
	engine ioengine.Engine
	proto  Protocol
	ending ending
	began  time.Time
	stop   atomic.Int64 // ns since began from which nothing is submitted any more
	active sync.WaitGroup

	mu sync.Mutex
	// +checklocks:mu
	err error // the first
	// +checklocks:mu
	from, to mark
}

// mark is one end of what counts.
type mark struct {
	at  int64 // ns since began; 0: not yet
	cpu time.Duration
}

// slot is one thing that is in flight again and again: a payload, or a batch of them.
type slot struct {
	ops     []ioengine.Op
	keys    int // payloads; each has len(ops)/keys ops
	payload int64
	area    int64 // bytes from the start of the device in which they lie
	spread  *rand.Rand
	loads   float64 // probability that the next round of it reads
	waits   bool    // a caller waits for its end; else its last completion submits it again

	w       *window
	left    atomic.Int32
	since   int64 // when it was submitted
	landed  [][]landing
	whole   []landing
	arrived chan struct{}
}

// landing is the completion of an op, or of a whole slot.
type landing struct {
	at, took int64 // ns
	n        int
	dir      ioengine.Dir
}

// run keeps every slot in flight for the time of the window.
func (s *station) run(ctx context.Context, p Protocol, end ending, slots []*slot) (Sample, error) {
	w := &window{engine: s.engine, proto: p, ending: end, began: time.Now()}
	w.stop.Store(1 << 62)
	w.active.Add(len(slots))
	for _, sl := range slots {
		sl.w = w
		sl.clear()
		sl.place()
	}
	for _, sl := range slots {
		sl.begin()
	}
	w.supervise(ctx)
	return w.sample(ctx, slots)
}

// clear forgets the window before, but for the memory that it took.
func (sl *slot) clear() {
	if sl.landed == nil {
		sl.landed, sl.arrived = make([][]landing, len(sl.ops)), make(chan struct{}, 1)
	}
	for i := range sl.landed {
		sl.landed[i] = sl.landed[i][:0]
	}
	sl.whole = sl.whole[:0]
}

// begin starts a slot. All of its later turns begin where the one before ended.
func (sl *slot) begin() {
	if sl.waits {
		go sl.call()
		return
	}
	sl.submit()
}

// place gives the payloads of a slot new places, and a direction.
func (sl *slot) place() {
	dir := ioengine.Write
	if sl.loads > 0 && (sl.loads >= 1 || sl.spread.Float64() < sl.loads) {
		dir = ioengine.Read
	}
	perKey := len(sl.ops) / sl.keys
	for key := range sl.keys {
		at := sl.spread.Int64N(sl.area/sl.payload) * sl.payload
		for i := key * perKey; i < (key+1)*perKey; i++ {
			sl.ops[i].Dir, sl.ops[i].Off = dir, at
			at += sl.ops[i].Len()
		}
	}
}

func (sl *slot) submit() {
	sl.left.Store(int32(len(sl.ops)))
	sl.since = sl.w.now()
	sl.w.engine.Submit(sl.ops, sl.done)
}

// call is a caller that submits a batch, waits for all of it, and submits the next.
func (sl *slot) call() {
	defer sl.w.active.Done()
	for {
		sl.submit()
		<-sl.arrived
		now := sl.w.now()
		sl.end(now)
		sl.w.batchEnded(now)
		if now >= sl.w.stop.Load() {
			return
		}
		sl.place()
	}
}

// done is the slot's ioengine.Done.
func (sl *slot) done(i, n int, err error) {
	now := sl.w.now()
	sl.landed[i] = append(sl.landed[i], landing{at: now, n: n, dir: sl.ops[i].Dir})
	if err != nil {
		sl.w.fail(err)
	}
	if sl.left.Add(-1) > 0 {
		return
	}
	if sl.waits {
		sl.arrived <- struct{}{}
		return
	}
	sl.end(now)
	if now >= sl.w.stop.Load() {
		sl.w.active.Done()
		return
	}
	sl.place()
	sl.submit()
}

func (sl *slot) end(now int64) {
	sl.whole = append(sl.whole, landing{at: now, took: now - sl.since, dir: sl.ops[0].Dir})
}

func (w *window) now() int64 { return int64(time.Since(w.began)) }

func (w *window) fail(err error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err == nil {
		w.err = err
	}
	w.stop.Store(0)
}

// supervise ends the window, and returns when nothing of it is under way.
func (w *window) supervise(ctx context.Context) {
	done := make(chan struct{})
	go func() {
		defer close(done)
		w.active.Wait()
	}()
	if w.ending != aligned {
		w.atTime(ctx, done)
	} else {
		select {
		case <-ctx.Done():
			w.stop.Store(0)
		case <-done:
		}
	}
	<-done
	if w.ending == drained {
		w.mark(false)
	}
}

// atTime marks the ends that a clock decides.
func (w *window) atTime(ctx context.Context, done <-chan struct{}) {
	until := func(at time.Duration) bool {
		t := time.NewTimer(at - time.Since(w.began))
		defer t.Stop()
		select {
		case <-t.C:
			return true
		case <-ctx.Done():
			w.stop.Store(0)
		case <-done: // something failed
		}
		return false
	}
	if !until(w.proto.Ramp) {
		return
	}
	end := w.mark(true) + int64(w.proto.Window)
	if w.ending == drained {
		w.stop.CompareAndSwap(1<<62, end) // what has failed stays ended
	}
	if until(time.Duration(end)) && w.ending == timed {
		w.mark(false)
		w.stop.Store(0)
	}
}

// mark marks the beginning or the end of what counts as now.
func (w *window) mark(begin bool) int64 {
	w.mu.Lock()
	defer w.mu.Unlock()
	m := mark{at: w.now(), cpu: cpuOfThis()}
	if begin {
		w.from = m
	} else {
		w.to = m
	}
	return m.at
}

// batchEnded marks the ends of an aligned window.
func (w *window) batchEnded(now int64) {
	if w.ending != aligned {
		return
	}
	w.mu.Lock()
	defer w.mu.Unlock()
	switch {
	case w.from.at == 0 && now >= int64(w.proto.Ramp):
		w.from = mark{at: now, cpu: cpuOfThis()}
	case w.from.at > 0 && w.to.at == 0 && now >= w.from.at+int64(w.proto.Window):
		w.to = mark{at: now, cpu: cpuOfThis()}
		w.stop.Store(0)
	}
}

// sample adds up what counts.
func (w *window) sample(ctx context.Context, slots []*slot) (Sample, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.err != nil {
		return Sample{}, w.err
	}
	if ctx.Err() != nil {
		return Sample{}, context.Cause(ctx)
	}
	out := Sample{CPU: w.to.cpu - w.from.cpu}
	last := w.from.at
	for _, sl := range slots {
		for _, landed := range sl.landed {
			for _, l := range landed {
				if w.counts(l) {
					out.By[l.dir].Bytes += int64(l.n)
					last = max(last, l.at)
				}
			}
		}
		for _, l := range sl.whole {
			if w.timely(l) {
				out.By[l.dir].record(l.took, 1)
			}
		}
	}
	out.Took = time.Duration(w.to.at - w.from.at)
	if w.ending == drained {
		out.Took = time.Duration(last - w.from.at)
	}
	return out, nil
}

// +checklocks:w.mu
func (w *window) counts(l landing) bool { return l.at > w.from.at && l.at <= w.to.at }

// timely tells whether the latency of a slot counts. A window that ends by the clock
// takes in what ends after it too: to leave out what takes long would flatter.
//
// +checklocks:w.mu
func (w *window) timely(l landing) bool {
	return w.counts(l) || w.ending == timed && l.at > w.from.at
}

// cpuOfThis returns the CPU time that this process has used, its threads in the kernel
// included. Kernel threads of its I/O, such as a loop device's, are not.
func cpuOfThis() time.Duration {
	var ru unix.Rusage
	if unix.Getrusage(unix.RUSAGE_SELF, &ru) != nil {
		return 0
	}
	return time.Duration(ru.Utime.Nano() + ru.Stime.Nano())
}
