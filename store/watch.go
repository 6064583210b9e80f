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
	now := time.Now()
	more, probe := v.ops.Load() > 0 || st.InFlightOps+st.QueuedOps > 0 || st.OldestFlush > 0, false
	v.say(func(h *health) {
		h.hung, h.slow = hung, slow
		h.sampleLocked(now)
		if h.shut != "" && !now.Before(h.shutUntil) {
			h.shut = ""
			h.run[ioengine.Write].Store(failLimit - 1)
		}
		ill := h.shut != "" || h.dead != ""
		if ill && !h.probing && !now.Before(h.probeAt) {
			h.probing, probe = true, true
		}
		more = more || hung || slow || ill || h.rate != ""
	})
	if probe {
		s.flushes.Go(func() { v.probe() })
	}
	return more
}

// probe looks for a sign of life. It may hang with the device.
func (v *volume) probe() {
	err := v.slab.CheckLabel()
	v.say(func(h *health) {
		h.probing, h.sign, h.probeAt = false, "", time.Now().Add(probeEvery)
		switch {
		case err == nil && h.dead != "":
			h.dead = ""
			h.run[ioengine.Read].Store(failLimit - 1)
		case err == nil:
		case h.dead == "":
			h.dead = fmt.Sprintf("neither can it be written, nor its label be read: %v", err)
		default:
			h.sign = fmt.Sprintf("; no sign of life yet: %v", err)
		}
	})
}

// sampleLocked takes a sample and says whether the share of errors is bad.
// +checklocks:h.mu
func (h *health) sampleLocked(now time.Time) {
	newest := sample{now, h.ops.Load(), h.errs.Load()}
	h.samples = append(h.samples, newest)
	for len(h.samples) > 1 && now.Sub(h.samples[1].at) >= rateWindow {
		h.samples = h.samples[1:]
	}
	errs, ops := newest.errs-h.samples[0].errs, newest.ops-h.samples[0].ops
	h.rate = ""
	if errs > 0 && errs*100 >= ops {
		h.rate = fmt.Sprintf("%d of %d transfers of the last minute failed, the last one: %s", errs, ops, h.last)
	}
}
