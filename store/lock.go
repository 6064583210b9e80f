// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"time"
)

// lockOp names what the pin lock is taken for; it is a metric label.
type lockOp uint8

const (
	lockLookup  lockOp = iota
	lockLoad           // capture of a load's entries
	lockRelease        // end of a load's reads
	lockStore          // claims of a store
	lockPublish        // publication of a store
	lockRemove
	lockPin
	lockUnpin
	lockCommit  // after a commit: slots leave DELETING
	lockCondemn // an entry with bad bytes
	lockSweep   // expiry of entries and leases
	lockReport  // status, lists
	lockRenew
	lockTouch
	lockExplain
	lockSettings // namespaces made, changed and deleted
	lockClear
	lockScrub // next entry of a scrub
	lockOps   // how many there are
)

var lockNames = [lockOps]string{
	"lookup", "load", "release", "store", "publish", "remove", "pin", "unpin", "commit", "condemn", "sweep", "report",
	"renew", "touch", "explain", "settings", "clear", "scrub",
}

// held is one holding of the pin lock.
type held struct {
	op    lockOp
	since time.Time
	trace *Trace // at StageLock until unlock; nil: not a request's own goroutine
}

// lock takes the pin lock.
// +checklocksacquire:s.mu
func (s *Store) lock(op lockOp) held {
	s.mu.Lock()
	return held{op: op, since: time.Now()}
}

// lockIn is lock for the request of ctx, whose trace notes it.
// +checklocksacquire:s.mu
func (s *Store) lockIn(ctx context.Context, op lockOp) held {
	t := traceOf(ctx)
	t.At(StageLock)
	s.mu.Lock()
	return held{op, time.Now(), t}
}

// unlock gives the pin lock back and counts how long it was held.
// +checklocksrelease:s.mu
func (s *Store) unlock(h held) {
	s.mu.Unlock()
	h.trace.At(StageStart)
	s.metrics.lockHold[h.op].Observe(time.Since(h.since).Seconds())
}
