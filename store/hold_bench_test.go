// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"slices"
	"sync"
	"testing"
	"time"
)

// holdings notes how long the pin lock was held.
type holdings struct {
	mu sync.Mutex
	// +checklocks:mu
	all []float64 // seconds
}

// Observe implements prometheus.Observer.
func (h *holdings) Observe(seconds float64) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.all = append(h.all, seconds)
}

// report tells no longest of all: that says more of who else runs on the machine.
func (h *holdings) report(b *testing.B) {
	h.mu.Lock()
	defer h.mu.Unlock()
	slices.Sort(h.all)
	n := len(h.all)
	b.ReportMetric(1e3*h.all[n/2], "ms-median-hold")
	b.ReportMetric(1e3*h.all[n*95/100], "ms-p95-hold")
}

// BenchmarkHoldOfClear shows for how long a clear, and an expiry, of many entries hold
// the pin lock at a time.
func BenchmarkHoldOfClear(b *testing.B) {
	const n = 1 << 18
	heads := make([]uint32, n)
	for i := range heads {
		heads[i] = uint32(i)
	}
	for _, what := range []string{"clear", "expiry"} {
		b.Run(what, func(b *testing.B) {
			var held holdings
			for range b.N {
				b.StopTimer()
				r := newRig(b)
				r.addMissing(n, time.Hour, heads...)
				r.s.metrics.lockHold[lockClear], r.s.metrics.lockHold[lockSweep] = &held, &held
				b.StartTimer()
				if what == "expiry" {
					r.clock.Add(int64(2 * time.Hour))
					r.s.sweepAll()
				} else if _, err := r.s.Clear(context.Background(), ns); err != nil {
					b.Fatal(err)
				}
				b.StopTimer()
				r.end()
				b.StartTimer()
			}
			held.report(b)
		})
	}
}
