// SPDX-License-Identifier: Apache-2.0

package ioengine

import (
	"fmt"
	"syscall"
	"time"

	"github.com/rawblockd/rawblockd/ioengine/internal/ring"
)

const (
	// shareBytes is from how many bytes of answers on a worker may call others.
	shareBytes = 128 << 10
	// slowAnswer is how long so many bytes of answers take at least if calling others is
	// to pay: it costs them, and the runtime, about as much. XXH3 of a MiB that has
	// just come from the device takes twice to five times as long, and a done that only
	// counts a hundredth.
	slowAnswer = 20 * time.Microsecond
	// reapAtOnce is how many completions are taken by one Reap, and answers by one
	// worker before it looks again.
	reapAtOnce = 128
)

// work is one worker: it answers what there is to answer, else it waits for
// completions, if nobody else does.
func (u *Uring) work() {
	defer u.leave()
	var completions [reapAtOnce]ring.Completion
	var chunk []answer
	u.mu.Lock()
	defer u.mu.Unlock()
	for {
		switch {
		case u.answers.len() > 0:
			chunk = u.answerLocked(chunk[:0])
		case u.ending:
			return
		case !u.reaping:
			u.reaping = true
			u.mu.Unlock()
			n, err := u.ring.Reap(completions[:])
			u.mu.Lock()
			u.reapedLocked(completions[:n], err)
		default:
			u.wake.Wait()
		}
	}
}

// answerLocked gives some of the answers, in memory of the worker's. It calls another
// worker if these will take long, as the last ones did, and there is more to do.
//
// +checklocks:u.mu
func (u *Uring) answerLocked(chunk []answer) []answer {
	chunk, bytes := u.chunkLocked(chunk)
	large := bytes >= shareBytes
	quick := 1
	if large && u.slow {
		quick = 0
		if u.answers.len() > 0 || !u.reaping && u.owed > len(chunk) {
			u.wake.Signal()
		}
	}
	u.answering += quick
	u.mu.Unlock()
	var began time.Time
	if large {
		began = time.Now()
	}
	u.answer(chunk)
	u.mu.Lock()
	u.answering -= quick
	if large {
		u.slow = time.Since(began) >= slowAnswer
	}
	if u.left {
		u.left = false
		u.mu.Unlock()
		u.push()
		u.mu.Lock()
	}
	if u.owed -= len(chunk); u.owed == 0 {
		u.settled.Broadcast()
	}
	return chunk
}

// reapedLocked books what a Reap brought and refills the ring.
//
// +checklocks:u.mu
func (u *Uring) reapedLocked(completions []ring.Completion, err error) {
	if err != nil && !u.ending {
		panic(fmt.Sprintf("ioengine: a ring in use fails: %v", err))
	}
	now, bytes := time.Now(), int64(0)
	for _, c := range completions {
		u.completeLocked(c, now)
		bytes += max(int64(c.Res), 0)
	}
	if bytes >= shareBytes && u.slow {
		u.wake.Signal()
	}
	if u.unsent.len() > 0 || u.queue.ops > 0 {
		u.mu.Unlock()
		u.push()
		u.mu.Lock()
	}
	u.reaping = false
}

// completeLocked books one completion.
//
// +checklocks:u.mu
func (u *Uring) completeLocked(c ring.Completion, now time.Time) {
	if c.User >= uint64(len(u.flights)) || u.flights[c.User].began.IsZero() {
		panic(fmt.Sprintf("ioengine: a completion of entry %d, which is not under way", c.User))
	}
	at := uint32(c.User)
	n, err := int64(c.Res), error(nil)
	if n < 0 {
		n, err = 0, syscall.Errno(-c.Res)
	}
	over, why := u.flights[at].step(n, err)
	if !over {
		u.unsent.push(at)
		return
	}
	u.landLocked(at, why, now)
}

// landLocked ends a flight.
//
// +checklocks:u.mu
func (u *Uring) landLocked(at uint32, why error, now time.Time) {
	f := &u.flights[at]
	op := f.op()
	if why != nil {
		why = failure(u.dev, f.dir, f.total, op.Off, why)
	}
	var t Timing
	if u.observe != nil {
		t = Timing{Dir: f.dir, Bytes: int(f.done), Queued: f.began.Sub(f.b.since), Took: now.Sub(f.began), Err: why}
	}
	u.endLocked(f.pick, int(f.done), why, t)
	*f = flight{}
	u.free = append(u.free, at)
}

// endLocked books the end of an op and leaves the answer to the workers.
//
// +checklocks:u.mu
func (u *Uring) endLocked(p pick, n int, err error, t Timing) {
	u.bookLocked(p, n, err)
	u.answers.push(answer{b: p.b, i: p.i, n: n, err: err, timing: t})
}

// chunkLocked takes as many answers as one worker is to give before it looks again.
//
// +checklocks:u.mu
func (u *Uring) chunkLocked(chunk []answer) (_ []answer, bytes int) {
	for _, a := range u.answers.all() {
		if len(chunk) > 0 && bytes+a.n > shareBytes || len(chunk) == reapAtOnce {
			break
		}
		bytes += a.n
		chunk = append(chunk, a)
	}
	u.answers.pop(len(chunk))
	return chunk, bytes
}

func (u *Uring) answer(chunk []answer) {
	for i := range chunk {
		a := &chunk[i]
		if u.observe != nil && a.timing != (Timing{}) {
			u.observe(a.timing)
		}
		a.b.done(a.i, a.n, a.err)
		*a = answer{} // keep no batch alive
	}
}
