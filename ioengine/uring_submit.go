// SPDX-License-Identifier: Apache-2.0

package ioengine

import (
	"errors"
	"fmt"
	"io"
	"runtime"
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

// push is the pusher: it hands to the ring whatever may start.
func (u *Uring) push() {
	defer u.leave()
	runtime.LockOSThread() // and the thread ends with the goroutine: nothing is under way then
	var entries []ring.Entry
	for {
		if entries = u.next(entries[:0]); entries == nil {
			return
		}
		u.enters.Add(1)
		n, err := u.ring.Submit(entries)
		clear(entries) // keep no batch alive
		if again := u.sent(len(entries), n, err); again > 0 {
			time.Sleep(again)
		}
	}
}

// next waits until there is something to hand over, and returns it; nil at the end.
func (u *Uring) next(entries []ring.Entry) []ring.Entry {
	u.mu.Lock()
	defer u.mu.Unlock()
	for {
		u.fillLocked()
		if u.unsent.len() > 0 {
			return u.entriesLocked(entries)
		}
		if u.ending {
			return nil
		}
		u.wanted.Wait()
	}
}

// callLocked calls whoever has something to do.
//
// +checklocks:u.mu
func (u *Uring) callLocked() {
	if u.answers.len() > 0 {
		u.wake.Signal()
	}
	if u.unsent.len() > 0 || u.queue.ops > 0 && len(u.free) > 0 {
		u.wanted.Signal()
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
	if u.answers.len() > 0 { // what was refused
		u.wake.Signal()
	}
}

// entriesLocked appends what the ring is to be asked for.
//
// +checklocks:u.mu
func (u *Uring) entriesLocked(entries []ring.Entry) []ring.Entry {
	for _, at := range u.unsent.all() {
		f := &u.flights[at]
		op := f.op()
		part := op.Vec
		step := min(u.held(f.pick), maxStep, f.total-f.done)
		if step < f.total || len(part) > ring.MaxParts {
			part = window(part, f.done, step)
			part = part[:min(len(part), ring.MaxParts)]
		}
		entries = append(entries, ring.Entry{User: uint64(at), Write: f.dir == Write, Off: op.Off + f.done, Vec: part})
	}
	return entries
}

// sent books what the ring took of the asked ones, and returns how long to wait before
// it is asked for the rest. Completions of what it took may have been booked already.
func (u *Uring) sent(asked, n int, err error) (again time.Duration) {
	u.mu.Lock()
	defer u.mu.Unlock()
	u.unsent.pop(n)
	if n > 0 {
		u.refusals = 0
		return 0 // if it was not all, the next call tells why
	}
	if mayPass(err) {
		if u.refusals++; u.refusals < maxRefusals {
			return firstDelay << min(u.refusals-1, lastDoubled)
		}
		err = errors.Join(io.ErrNoProgress, err)
	}
	now := time.Now()
	for _, at := range u.unsent.all()[:asked] {
		u.landLocked(at, fmt.Errorf("submit: %w", err), now)
	}
	u.unsent.pop(asked)
	u.wake.Signal()
	u.refusals = 0
	if u.unsent.len() > 0 || u.queue.ops > 0 {
		u.refusals = maxRefusals - 1 // what waited behind them has waited as long
	}
	return 0
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
