// SPDX-License-Identifier: Apache-2.0

package main

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rawblockd/rawblockd/ioengine"
)

// engineCollector reports the engines when it is asked; only the daemon knows
// which engine lies under which slab, and why.
type engineCollector struct{ d *daemon }

type engineMetric struct {
	desc *prometheus.Desc
	kind prometheus.ValueType
	of   func(ioengine.Stats) float64
	op   string // "": no such label
}

func engineMetrics() []engineMetric {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("rawblockd_"+name, help, append([]string{"slab", "engine"}, labels...), nil)
	}
	ops := desc("device_ops_total", "Device transfers completed.", "op")
	bytes := desc("device_bytes_total", "Bytes moved to and from the device.", "op")
	errs := desc("device_errors_total", "Device transfers failed.", "op")
	out := []engineMetric{
		{desc("device_flushes_total", "Flushes of the device."), prometheus.CounterValue, func(s ioengine.Stats) float64 { return float64(s.Flushes) }, ""},
		{desc("in_flight_ops", "Transfers on the device now."), prometheus.GaugeValue, func(s ioengine.Stats) float64 { return float64(s.InFlightOps) }, ""},
		{desc("in_flight_bytes", "Bytes of the transfers on the device now."), prometheus.GaugeValue, func(s ioengine.Stats) float64 { return float64(s.InFlightBytes) }, ""},
		{desc("in_flight_ops_max", "Most transfers on the device at once since the start."), prometheus.GaugeValue, func(s ioengine.Stats) float64 { return float64(s.MaxInFlight) }, ""},
		{desc("engine_depth", "Most transfers that the engine has on the device at once."), prometheus.GaugeValue, func(s ioengine.Stats) float64 { return float64(s.Depth) }, ""},
		{desc("queued_ops", "Transfers accepted and not started yet."), prometheus.GaugeValue, func(s ioengine.Stats) float64 { return float64(s.QueuedOps) }, ""},
	}
	for _, dir := range []ioengine.Dir{ioengine.Read, ioengine.Write} {
		out = append(out,
			engineMetric{ops, prometheus.CounterValue, func(s ioengine.Stats) float64 { return float64(s.Ops[dir]) }, dir.String()},
			engineMetric{bytes, prometheus.CounterValue, func(s ioengine.Stats) float64 { return float64(s.Bytes[dir]) }, dir.String()},
			engineMetric{errs, prometheus.CounterValue, func(s ioengine.Stats) float64 { return float64(s.Errors[dir]) }, dir.String()},
		)
	}
	return out
}

func engineInfo() *prometheus.Desc {
	return prometheus.NewDesc("rawblockd_engine_info", "The engine in use, and why where the configuration left the choice.", []string{"slab", "engine", "why"}, nil)
}

func engineRegistered() *prometheus.Desc {
	return prometheus.NewDesc("rawblockd_engine_registered", "1: the memory of payloads is registered with the kernel (uring); 0: its pages are pinned for each transfer.", []string{"slab", "engine"}, nil)
}

func uringEnters() *prometheus.Desc {
	return prometheus.NewDesc("rawblockd_uring_enters_total", "Calls of io_uring_enter that were to submit transfers.", []string{"slab"}, nil)
}

// Describe implements prometheus.Collector.
func (c *engineCollector) Describe(ch chan<- *prometheus.Desc) {
	for _, desc := range []*prometheus.Desc{engineInfo(), engineRegistered(), uringEnters()} {
		ch <- desc
	}
	for _, m := range engineMetrics() {
		ch <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (c *engineCollector) Collect(ch chan<- prometheus.Metric) {
	for _, s := range c.d.cfg.Slabs {
		v := c.d.device(s.Name)
		if v == nil {
			continue
		}
		st := v.engine.Stats()
		c.collectUring(ch, s.Name, v.engine)
		ch <- prometheus.MustNewConstMetric(engineInfo(), prometheus.GaugeValue, 1, s.Name, st.Name, v.engine.why)
		for _, m := range engineMetrics() {
			labels := []string{s.Name, st.Name}
			if m.op != "" {
				labels = append(labels, m.op)
			}
			ch <- prometheus.MustNewConstMetric(m.desc, m.kind, m.of(st), labels...)
		}
	}
}

// collectUring reports what only the uring engine has.
func (c *engineCollector) collectUring(ch chan<- prometheus.Metric, slab string, e slabEngine) {
	enters, ok := e.enters()
	if !ok {
		return
	}
	registered := 0.0
	if e.registered {
		registered = 1
	}
	ch <- prometheus.MustNewConstMetric(uringEnters(), prometheus.CounterValue, float64(enters), slab)
	ch <- prometheus.MustNewConstMetric(engineRegistered(), prometheus.GaugeValue, registered, slab, e.Stats().Name)
}
