// SPDX-License-Identifier: Apache-2.0

package main

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rawblockd/rawblockd/ioengine"
)

// timings are how long the devices take. Of a read or write, waiting for a free
// worker and the transfer itself are told apart: the first grows with load, the
// second with a sick device.
type timings struct {
	wait, took *prometheus.HistogramVec // by slab, engine, op
	flush      *prometheus.HistogramVec // by slab, engine
}

func newTimings() *timings {
	// 20 µs to 40 s: a fast device's 4 KiB, and one that hangs.
	buckets := prometheus.ExponentialBuckets(20e-6, 2, 22)
	vec := func(name, help string, labels ...string) *prometheus.HistogramVec {
		return prometheus.NewHistogramVec(prometheus.HistogramOpts{Namespace: "rawblockd", Name: name, Help: help, Buckets: buckets}, labels)
	}
	return &timings{
		wait:  vec("queue_wait_seconds", "Time a device transfer waited for its turn.", "slab", "engine", "op"),
		took:  vec("device_op_seconds", "Time of a device transfer of up to the I/O split.", "slab", "engine", "op"),
		flush: vec("device_flush_seconds", "Time of a flush of the device.", "slab", "engine"),
	}
}

func (t *timings) register(reg *prometheus.Registry) error {
	for _, c := range []prometheus.Collector{t.wait, t.took, t.flush} {
		if err := reg.Register(c); err != nil {
			return err
		}
	}
	return nil
}

// observe returns what an engine reports to, once it runs.
func (t *timings) observe(slab, engine string) (ops func(ioengine.Timing), flushes func(time.Duration)) {
	var wait, took [2]prometheus.Observer
	for _, dir := range []ioengine.Dir{ioengine.Read, ioengine.Write} {
		wait[dir] = t.wait.WithLabelValues(slab, engine, dir.String())
		took[dir] = t.took.WithLabelValues(slab, engine, dir.String())
	}
	flush := t.flush.WithLabelValues(slab, engine)
	ops = func(x ioengine.Timing) {
		wait[x.Dir].Observe(x.Queued.Seconds())
		took[x.Dir].Observe(x.Took.Seconds())
	}
	return ops, func(d time.Duration) { flush.Observe(d.Seconds()) }
}

// forget takes back what observe made for an engine that did not come to be.
func (t *timings) forget(slab, engine string) {
	of := prometheus.Labels{"slab": slab, "engine": engine}
	for _, v := range []*prometheus.HistogramVec{t.wait, t.took, t.flush} {
		v.DeletePartialMatch(of)
	}
}
