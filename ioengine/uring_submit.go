// SPDX-License-Identifier: Apache-2.0

package ioengine

import (
	"errors"
	"fmt"
	"io"
	"syscall"
	"time"

	"github.com/rawblockd/rawblockd/ioengine/internal/ring"
)

const (
	// maxRefusals and the delays between them bound for how long a ring that takes
	// nothing is tried: 15 waits, from 100 µs doubling to 51.2 ms, 0.4 s together.
	maxRefusals = 16
	firstDelay  = 100 * time.Microsecond
	lastDoubled = 9

	// maxStep is the most bytes of one entry: the kernel moves less than 2 GiB.
	maxStep = 1 << 30
)

// push hands to the ring whatever may start.
func (u *Uring) push() {
	u.sq.Lock()
	defer u.sq.Unlock()
	for again := true; again; {
		u.mu.Lock()
		u.fillLocked()
		entries := u.entriesLocked()
		u.mu.Unlock()
		if len(entries) == 0 {
			return
		}
		u.enters.Add(1)
		n, err := u.ring.Submit(entries)
		u.mu.Lock()
		again = u.sentLocked(len(entries), n, err)
		u.mu.Unlock()
	}
}

// fillLocked takes ops out of the queue for as long as there is room for them in the
// ring and in the budget.
//
// +checklocks:u.mu
func (u *Uring) fillLocked() {
	var now time.Time
	for len(u.free) > 0 {
		next, ok := u.startableLocked()
		if !ok {
			break
		}
		if !u.takeLocked(next) { // refused, or empty
			u.endLocked(next, 0, next.err, Timing{})
			u.wake.Signal() // the caller may be no worker
			continue
		}
		if now.IsZero() {
			now = time.Now()
		}
		at := u.free[len(u.free)-1]
		u.free = u.free[:len(u.free)-1]
		u.flights[at] = flight{pick: next, progress: progress{total: next.len, block: int64(u.geo.Block)}, began: now}
		u.unsent.push(at)
	}
}

// entriesLocked returns what the ring is to be asked for.
//
// +checklocks:u.mu
// +checklocks:u.sq
func (u *Uring) entriesLocked() []ring.Entry {
	u.entries = u.entries[:0]
	if u.retrying {
		return nil
	}
	for _, at := range u.unsent.all() {
		f := &u.flights[at]
		op := f.op()
		part := op.Vec
		step := min(u.held(f.pick), maxStep, f.total-f.done)
		if step < f.total || len(part) > ring.MaxParts {
			part = window(part, f.done, step)
			part = part[:min(len(part), ring.MaxParts)]
		}
		u.entries = append(u.entries, ring.Entry{User: uint64(at), Write: f.dir == Write, Off: op.Off + f.done, Vec: part})
	}
	return u.entries
}

// sentLocked books what the ring took of the asked ones; again says to go on at once.
//
// +checklocks:u.mu
func (u *Uring) sentLocked(asked, n int, err error) (again bool) {
	u.unsent.pop(n)
	if n > 0 {
		u.refusals = 0
		return n < asked // the next call tells why, if it was an error
	}
	if mayPass(err) {
		if u.refusals++; u.refusals < maxRefusals {
			u.retrying = true
			u.users++
			go u.retry(firstDelay << min(u.refusals-1, lastDoubled))
			return false
		}
		err = errors.Join(io.ErrNoProgress, err)
	}
	u.refusals = 0
	for _, at := range u.unsent.all()[:asked] {
		u.landLocked(at, fmt.Errorf("submit: %w", err), time.Now())
	}
	u.unsent.pop(asked)
	u.wake.Signal()
	return true // what waits behind them is asked for as well
}

// mayPass tells a ring that lacks something for the moment from one that is broken.
func mayPass(err error) bool {
	if err == nil { // it took nothing, and did not say why
		return true
	}
	for _, passing := range []syscall.Errno{syscall.EAGAIN, syscall.EBUSY, syscall.EINTR, syscall.ENOMEM} {
		if errors.Is(err, passing) {
			return true
		}
	}
	return false
}

func (u *Uring) retry(delay time.Duration) {
	defer u.leave()
	time.Sleep(delay)
	u.mu.Lock()
	u.retrying = false
	u.mu.Unlock()
	u.push()
}
