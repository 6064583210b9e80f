// SPDX-License-Identifier: Apache-2.0

package ioengine

import (
	"fmt"
	"runtime"
	"sync"
	"sync/atomic"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rawblockd/rawblockd/ioengine/internal/ring"
)

// UringOptions bounds what a Uring engine has on the device at once.
type UringOptions struct {
	Depth         int   // ops at once, 1 to 4096
	InflightBytes int64 // bytes at once, at least one block; 0: bounded by Depth alone
	// Memory is regions, each at most 1 GiB, that ops will lie in. They are
	// registered with the kernel, which then need not find and pin their pages for
	// each op. All of it becomes resident, and counts as locked. Where that cannot be
	// had (Registered), everything works without. It stays mapped until Close.
	Memory [][]byte
	// Observe, if set, hears of every op that went to the device, on a goroutine of
	// the engine and before its done: it must be quick.
	Observe func(Timing)
	// ObserveFlush, if set, hears how long each flush took.
	ObserveFlush func(took time.Duration)
}

// Ring is the kernel to a Uring engine: two methods, and the end. One Submit and one
// Reap run at a time, beside each other.
type Ring interface {
	// Submit hands entries over in their order and returns how many were taken;
	// the rest is as if it had never been submitted. An error tells of the first
	// that was not: EAGAIN, EBUSY and ENOMEM may pass.
	Submit(entries []ring.Entry) (n int, err error)
	// Reap waits for at least one completion. It fails only once the ring was
	// closed, with os.ErrClosed.
	Reap(into []ring.Completion) (n int, err error)
	// Close ends a Reap. Nothing is under way any more.
	Close() error
}

// Uring is the engine of io_uring: ops go to the device by the batch, in one system
// call, and three kinds of goroutines see to them.
//
//   - The pusher hands to the kernel whatever there is room for. A batch deeper than the
//     ring refills it as completions come, with no barrier between its parts; what was
//     submitted during one call goes with the next.
//   - The reaper waits for completions, books them, and calls the others.
//   - Workers give the answers, since who answers may hash its bytes; so a slow done
//     keeps neither the ring nor the other answers waiting.
//
// The pusher has a thread of its own. The kernel ends an op on the thread that has
// submitted it, when that comes back to it; on a thread that the runtime lends out, to
// an fsync or to a read of another device, that is only after that call. So the ops of
// one device would wait for whatever hangs elsewhere.
//
// A ring that refuses (EAGAIN, EBUSY, ENOMEM) is tried again for about half a second,
// then what it refuses is answered with its error. What it has taken is answered when
// it completes, whatever becomes of the rest.
//
// Rejected: a Submit that enters the ring itself. It saves one change of threads at
// depth one, makes a call for each Submit, and has the fault above.
type Uring struct {
	core
	ring       Ring
	registered error
	enters     atomic.Uint64

	// +checklocks:mu
	flights []flight // by Entry.User
	// +checklocks:mu
	free []uint32 // flights not in use
	// +checklocks:mu
	unsent fifo[uint32] // flights that the kernel has not taken yet, or not whole
	// +checklocks:mu
	refusals int // submissions in a row that brought nothing
	// +checklocks:mu
	wanted sync.Cond // of the pusher: something may start, or the end

	// +checklocks:mu
	answers fifo[answer]
	// +checklocks:mu
	owed int // ops submitted whose done has not returned
	// +checklocks:mu
	ending bool // pusher and workers are to end
	// +checklocks:mu
	wake sync.Cond // of the workers: answers, or the end
	// +checklocks:mu
	settled sync.Cond // owed reached 0
}

var _ Engine = (*Uring)(nil)

// flight is one op on the device, or about to go there.
type flight struct {
	pick
	progress
	began time.Time // zero: not in use
}

// answer is one op whose done is to be called.
type answer struct {
	b      *batch
	i, n   int
	err    error
	timing Timing // for observe; of an op that was on the device
}

// NewUring starts an engine on f, which stays the caller's and is to be closed after the
// engine. The error says why there is no io_uring to be had and what to do.
func NewUring(f *File, o UringOptions) (*Uring, error) {
	var r *ring.Ring
	err := f.withFd(func(fd int) (err error) {
		r, err = ring.Open(fd, o.Depth)
		return err
	})
	if err != nil {
		return nil, explainUring(err)
	}
	u := NewUringOn(f, r, o)
	if err := register(r, o.Memory); err != nil {
		u.registered = explainUring(err)
	}
	return u, nil
}

// register gives memory to the ring, unless the limit of locked memory forbids it: the
// kernel would make all of it resident first, and then refuse.
func register(r *ring.Ring, memory [][]byte) error {
	if vecLen(memory) > mayLock() {
		return fmt.Errorf("register %d bytes of memory: %w", vecLen(memory), unix.ENOMEM)
	}
	return r.Register(memory)
}

// ProbeUring is nil if this process may have a ring for so many ops at once, with all
// that the engine needs, else it says why not and what to do.
func ProbeUring(depth int) error {
	if err := ring.Probe(depth); err != nil {
		return explainUring(err)
	}
	return nil
}

// NewUringOn is NewUring on a ring of the caller's, which the engine closes: the seam
// by which tests stand in for the kernel. Memory is not looked at. It panics if o is out
// of range: config validates.
func NewUringOn(dev Device, r Ring, o UringOptions) *Uring {
	u := &Uring{ring: r}
	u.prepare(dev, "uring", o.Depth, o.InflightBytes)
	u.observe, u.observeFlush = o.Observe, o.ObserveFlush
	u.mu.Lock()
	defer u.mu.Unlock()
	u.wanted.L, u.wake.L, u.settled.L = &u.mu, &u.mu, &u.mu
	u.flights = make([]flight, o.Depth)
	u.free = make([]uint32, o.Depth)
	for i := range u.free {
		u.free[i] = uint32(o.Depth - 1 - i)
	}
	workers := max(2, runtime.GOMAXPROCS(0))
	u.users = 2 + workers
	go u.push()
	go u.reap()
	for range workers {
		go u.work()
	}
	return u
}

// Registered is nil if all of UringOptions.Memory is registered, else why not.
func (u *Uring) Registered() error { return u.registered }

// Enters returns how often the ring was asked to take something.
func (u *Uring) Enters() uint64 { return u.enters.Load() }

// Submit implements Engine.
func (u *Uring) Submit(ops []Op, done Done) {
	if len(ops) == 0 {
		return
	}
	b := u.batchOf(ops, done)
	u.mu.Lock()
	defer u.mu.Unlock()
	if u.acceptLocked(b) {
		u.owed += len(ops)
		u.callLocked()
	}
}

// Close implements Engine: ops accepted before it are still carried out. It may be
// called more than once, but not from a Done.
func (u *Uring) Close() error {
	u.mu.Lock()
	u.closed = true
	for u.owed > 0 {
		u.settled.Wait()
	}
	u.ending = true
	u.wake.Broadcast()
	u.wanted.Broadcast()
	u.mu.Unlock()
	err := u.ring.Close() // ends the Reap
	u.mu.Lock()
	defer u.mu.Unlock()
	u.waitLocked()
	return err
}

// Stats implements Engine.
func (u *Uring) Stats() Stats {
	u.mu.Lock()
	defer u.mu.Unlock()
	s := u.snapshotLocked()
	for i := range u.flights {
		if began := u.flights[i].began; !began.IsZero() {
			s.OldestOp = max(s.OldestOp, time.Since(began))
		}
	}
	return s
}
