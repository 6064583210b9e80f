// SPDX-License-Identifier: Apache-2.0

package ioengine

import (
	"fmt"
	"syscall"
	"time"

	"github.com/rawblockd/rawblockd/ioengine/internal/ring"
)

const (
	// chunkBytes and chunkAnswers bound what one worker answers before it looks again:
	// a MiB that is hashed goes alone, small ones go together.
	chunkBytes   = 128 << 10
	chunkAnswers = 32
	// reapAtOnce is how many completions are taken by one Reap.
	reapAtOnce = 128
)

// reap is the reaper.
func (u *Uring) reap() {
	defer u.leave()
	var completions [reapAtOnce]ring.Completion
	for {
		n, err := u.ring.Reap(completions[:])
		u.mu.Lock()
		if err != nil {
			ending := u.ending
			u.mu.Unlock()
			if !ending {
				panic(fmt.Sprintf("ioengine: a ring in use fails: %v", err))
			}
			return
		}
		now := time.Now()
		for _, c := range completions[:n] {
			u.completeLocked(c, now)
		}
		u.callLocked()
		u.mu.Unlock()
	}
}

// work is one worker.
func (u *Uring) work() {
	defer u.leave()
	var chunk []answer
	u.mu.Lock()
	for {
		switch {
		case u.answers.len() > 0:
			chunk = u.answerLocked(chunk[:0])
		case u.ending:
			u.mu.Unlock()
			return
		default:
			u.wake.Wait()
		}
	}
}

// answerLocked gives some of the answers, in memory of the worker's, and calls another
// worker for the rest.
//
// +checklocks:u.mu
func (u *Uring) answerLocked(chunk []answer) []answer {
	chunk = u.chunkLocked(chunk)
	if u.answers.len() > 0 {
		u.wake.Signal()
	}
	u.mu.Unlock()
	u.answer(chunk)
	u.mu.Lock()
	if u.owed -= len(chunk); u.owed == 0 {
		u.settled.Broadcast()
	}
	return chunk
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

// chunkLocked takes as many answers as are to be given before anybody looks again.
//
// +checklocks:u.mu
func (u *Uring) chunkLocked(chunk []answer) []answer {
	bytes := 0
	for _, a := range u.answers.all() {
		if len(chunk) > 0 && bytes+a.n > chunkBytes || len(chunk) == chunkAnswers {
			break
		}
		bytes += a.n
		chunk = append(chunk, a)
	}
	u.answers.pop(len(chunk))
	return chunk
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
