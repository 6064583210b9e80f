// SPDX-License-Identifier: Apache-2.0

package simdev

import (
	"math"
	"slices"
	"sync"
	"time"

	"github.com/rawblockd/rawblockd/ioengine"
)

// bus is what limits how many bytes a device moves in a second: those under way share
// it equally, however many they are.
type bus struct {
	rate float64 // bytes a nanosecond

	mu sync.Mutex
	// +checklocks:mu
	riders []*rider // the one that arrives first in front
	// +checklocks:mu
	moved float64 // bytes that one of them would have moved had it boarded when the bus was last empty
	// +checklocks:mu
	at time.Time // when moved was that
	// +checklocks:mu
	alarm *time.Timer // of the first arrival
}

// rider is one transfer on the bus.
type rider struct {
	until   float64 // bus.moved on arrival
	arrived chan struct{}
}

// grain is how exact times are, in nanoseconds: what a float64 can be trusted with.
const grain = 1e-3

// nanoseconds rounds up, but for what is nothing but rounding.
func nanoseconds(ns float64) time.Duration { return time.Duration(math.Ceil(ns - grain)) }

// carry returns when n bytes have moved.
func (b *bus) carry(n int) { <-b.board(n) }

func (b *bus) board(n int) <-chan struct{} {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advanceLocked()
	r := &rider{until: b.moved + float64(n), arrived: make(chan struct{})}
	at, _ := slices.BinarySearchFunc(b.riders, r.until, func(other *rider, until float64) int {
		if other.until <= until {
			return -1
		}
		return 1
	})
	b.riders = slices.Insert(b.riders, at, r)
	b.setAlarmLocked()
	return r.arrived
}

// ring lets off who has arrived.
func (b *bus) ring() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.advanceLocked()
	b.setAlarmLocked()
}

// +checklocks:b.mu
func (b *bus) advanceLocked() {
	now := time.Now()
	if n := len(b.riders); n > 0 {
		b.moved += float64(now.Sub(b.at)) * b.rate / float64(n)
	}
	b.at = now
	gone := 0
	for _, r := range b.riders {
		if r.until > b.moved+2*grain*b.rate {
			break
		}
		close(r.arrived)
		gone++
	}
	b.riders = slices.Delete(b.riders, 0, gone)
	if len(b.riders) == 0 {
		b.moved = 0
	}
}

// +checklocks:b.mu
func (b *bus) setAlarmLocked() {
	if b.alarm != nil {
		b.alarm.Stop()
	}
	if n := len(b.riders); n > 0 {
		b.alarm = time.AfterFunc(nanoseconds((b.riders[0].until-b.moved)*float64(n)/b.rate), b.ring)
	}
}

// Bound is the least time that n transfers of some bytes each can take, of which at
// most depth are on the device at once. They take exactly that, asked for in time,
// where one of the limits rules throughout: the time of service, or the bandwidth.
func (o Options) Bound(dir ioengine.Dir, n, bytes, depth int) time.Duration {
	if o.Parallel > 0 {
		depth = min(depth, o.Parallel)
	}
	var bound time.Duration
	if o.Service != nil {
		bound = time.Duration((n+depth-1)/depth) * o.Service(dir, bytes)
	}
	if o.Bandwidth > 0 {
		bound = max(bound, nanoseconds(float64(n)*float64(bytes)*1e9/float64(o.Bandwidth)))
	}
	return bound
}
