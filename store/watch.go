// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"time"

	"github.com/rawblockd/rawblockd/ioengine"
)

// watchEvery is how often slabs are looked at while there is anything to see.
const watchEvery = time.Second

// busy notes n ops on their way to the volume's device, or waiting for it.
func (v *volume) busy(n int) {
	if v.ops.Add(int64(n)) == int64(n) {
		v.wake()
	}
}

// idle notes that n of them were answered.
func (v *volume) idle(n int) {
	if v.ops.Add(-int64(n)) < 0 {
		panic("store: more ops ended than began")
	}
}

// opsOf is how many ops it takes to read items.
func (v *volume) opsOf(items []*loadItem) int {
	n := 0
	for _, it := range items {
		n += v.slab.OpsFor(it.pay.Len)
	}
	return n
}

// watchLoop looks at the slabs while any has work under way or is not well: for
// ops that hang, for errors, and for signs of life of those offline. It sleeps
// while all are idle and well.
func (s *Store) watchLoop() {
	defer s.loops.Done()
	for {
		select {
		case <-s.stop:
			return
		case <-s.watch:
		}
		if !s.watchWhile() {
			return
		}
	}
}

// watchWhile looks until there is nothing to see; false when the store stops.
func (s *Store) watchWhile() bool {
	t := time.NewTicker(watchEvery)
	defer t.Stop()
	for {
		select {
		case <-s.stop:
			return false
		case <-t.C:
		}
		if !s.watchOnce() {
			return true
		}
	}
}

// watchOnce looks at all slabs and tells whether there is more to see.
func (s *Store) watchOnce() bool {
	more := false
	for _, v := range s.volumes {
		if v.slab.Absent() == nil && s.watchVolume(v) {
			more = true
		}
	}
	return more
}

func (s *Store) watchVolume(v *volume) bool {
	st := v.slab.EngineStats()
	hung, slow := st.OldestOp >= hangLimit, st.OldestFlush >= hangLimit
	v.late.Store(max(st.OldestOp, st.OldestFlush) >= lateLimit)
	now := time.Now()
	more, probe := v.ops.Load() > 0 || st.InFlightOps+st.QueuedOps > 0 || st.OldestFlush > 0, false
	v.say(func(c *condition) {
		c.hung, c.slow = hung, slow
		c.take(sample{now, v.health.ops.Load(), v.health.errs.Load()})
		if c.shut != "" && !now.Before(c.shutUntil) {
			c.shut = ""
			v.health.run[ioengine.Write].Store(failLimit - 1)
		}
		ill := c.shut != "" || c.dead != ""
		if ill && !c.probing && !now.Before(c.probeAt) {
			c.probing, probe = true, true
		}
		more = more || hung || slow || ill || c.rate != ""
	})
	if probe {
		s.flushes.Go(func() { v.probe() })
	}
	return more
}

// probe looks for a sign of life. It may hang with the device.
func (v *volume) probe() {
	err := v.slab.CheckLabel()
	v.say(func(c *condition) {
		c.probing, c.sign, c.probeAt = false, "", time.Now().Add(probeEvery)
		switch {
		case err == nil && c.dead != "":
			c.dead = ""
			v.health.run[ioengine.Read].Store(deadLimit - 1)
		case err == nil:
		case c.dead == "":
			c.dead = fmt.Sprintf("neither can it be written, nor its label be read: %v", err)
		default:
			c.sign = fmt.Sprintf("; no sign of life yet: %v", err)
		}
	})
}

// take adds a sample and says whether the share of errors is bad.
func (c *condition) take(newest sample) {
	c.samples = append(c.samples, newest)
	for len(c.samples) > 1 && newest.at.Sub(c.samples[1].at) >= rateWindow {
		c.samples = c.samples[1:]
	}
	errs, ops := newest.errs-c.samples[0].errs, newest.ops-c.samples[0].ops
	c.rate = ""
	if errs > 0 && errs*100 >= ops {
		c.rate = fmt.Sprintf("%d of %d transfers of the last minute failed, the last one: %s", errs, ops, c.last)
	}
}
