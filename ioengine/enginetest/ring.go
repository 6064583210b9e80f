// SPDX-License-Identifier: Apache-2.0

package enginetest

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"slices"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"

	"github.com/rawblockd/rawblockd/ioengine"
	"github.com/rawblockd/rawblockd/ioengine/internal/ring"
)

// Ring stands in for the kernel under a Uring engine: it carries entries to a Device,
// each on a goroutine of its own, and can refuse them as the kernel does. Faults of
// the transfers themselves are the Device's.
type Ring struct {
	dev ioengine.Device

	mu sync.Mutex
	// +checklocks:mu
	changed sync.Cond // completions, or closed
	// +checklocks:mu
	completions []ring.Completion
	// +checklocks:mu
	underway int
	// +checklocks:mu
	closed bool
	// +checklocks:mu
	before int // Submits that come before those to be refused
	// +checklocks:mu
	refuse int
	// +checklocks:mu
	refusal error
	// +checklocks:mu
	atOnce int
	// +checklocks:mu
	interrupt int
	// +checklocks:mu
	counts RingCounts
	// +checklocks:mu
	threads map[int]bool // that have called Submit
	// +checklocks:mu
	users map[uint64]bool // of the entries under way
}

// RingCounts is what a Ring was asked for.
type RingCounts struct {
	Submits  int // calls, refused ones included
	Taken    int // entries
	Most     int // entries taken by one call
	Underway int // most entries at once
}

var _ ioengine.Ring = (*Ring)(nil)

// NewRing makes a ring over a device, which stays the caller's.
func NewRing(dev ioengine.Device) *Ring {
	r := &Ring{dev: dev, threads: map[int]bool{}, users: map[uint64]bool{}}
	r.changed.L = &r.mu
	return r
}

// Refuse makes the next n Submits take nothing and fail with err, which may be nil.
func (r *Ring) Refuse(n int, err error) { r.RefuseAfter(0, n, err) }

// RefuseAfter is Refuse of n Submits after the next few.
func (r *Ring) RefuseAfter(few, n int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.before, r.refuse, r.refusal = few, n, err
}

// TakeAtMost makes each Submit take n entries at most; 0: all of them.
func (r *Ring) TakeAtMost(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.atOnce = n
}

// Interrupt makes the next n entries complete with EINTR, before they come to the
// device.
func (r *Ring) Interrupt(n int) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.interrupt = n
}

// Counts returns what the ring was asked for so far.
func (r *Ring) Counts() RingCounts {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.counts
}

// Threads returns the threads that have called Submit.
func (r *Ring) Threads() map[int]bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return maps.Clone(r.threads)
}

// Submit implements ioengine.Ring. It panics for what the kernel would not take, or
// mix up: an empty vector or one too long, and a User that is under way.
func (r *Ring) Submit(entries []ring.Entry) (n int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.counts.Submits++
	r.threads[unix.Gettid()] = true
	if r.before > 0 {
		r.before--
	} else if r.refuse > 0 {
		r.refuse--
		return 0, r.refusal
	}
	if r.atOnce > 0 {
		entries = entries[:min(r.atOnce, len(entries))]
	}
	r.counts.Taken += len(entries)
	r.counts.Most = max(r.counts.Most, len(entries))
	r.underway += len(entries)
	r.counts.Underway = max(r.counts.Underway, r.underway)
	for _, e := range entries {
		if r.users[e.User] || len(e.Vec) == 0 || len(e.Vec) > ring.MaxParts {
			panic(fmt.Sprintf("enginetest: entry %d of %d parts, under way already: %v", e.User, len(e.Vec), r.users[e.User]))
		}
		r.users[e.User] = true
		e.Vec = slices.Clone(e.Vec) // the engine may use the vector for the next entry
		if r.interrupt > 0 {
			r.interrupt--
			r.completeLocked(e.User, -int32(syscall.EINTR))
			continue
		}
		go r.carry(e)
	}
	return len(entries), nil
}

func (r *Ring) carry(e ring.Entry) {
	move := r.dev.Preadv
	if e.Write {
		move = r.dev.Pwritev
	}
	n, err := move(e.Vec, e.Off)
	res := int32(n)
	if err != nil {
		errno := syscall.EBADF // the device was closed
		errors.As(err, &errno)
		res = -int32(errno)
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	r.completeLocked(e.User, res)
}

// +checklocks:r.mu
func (r *Ring) completeLocked(user uint64, res int32) {
	r.underway--
	delete(r.users, user)
	r.completions = append(r.completions, ring.Completion{User: user, Res: res})
	r.changed.Broadcast()
}

// Reap implements ioengine.Ring.
func (r *Ring) Reap(into []ring.Completion) (n int, err error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.completions) == 0 {
		if r.closed {
			return 0, os.ErrClosed
		}
		r.changed.Wait()
	}
	n = copy(into, r.completions)
	r.completions = slices.Delete(r.completions, 0, n)
	return n, nil
}

// Close implements ioengine.Ring. It panics if something is under way.
func (r *Ring) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	if r.underway > 0 {
		panic("enginetest: a ring is closed with entries under way")
	}
	r.closed = true
	r.changed.Broadcast()
	return nil
}
