// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"slices"
	"time"

	"github.com/HdrHistogram/hdrhistogram-go"

	"github.com/rawblockd/rawblockd/ioengine"
)

// Sample is what one side did in one window.
type Sample struct {
	By   [2]Part // by ioengine.Dir
	Took time.Duration
	CPU  time.Duration // of the process (ours) or the job's thread (fio)
}

// Part is what was moved in one direction.
type Part struct {
	Bytes int64
	Lat   *hdrhistogram.Histogram // ns from submission to completion, of payloads or batches; nil: none
}

// rate returns bytes a second, both ways together.
func (s Sample) rate() float64 {
	if s.Took <= 0 {
		return 0
	}
	return float64(s.bytes()) / s.Took.Seconds()
}

func (s Sample) bytes() int64 { return s.By[ioengine.Read].Bytes + s.By[ioengine.Write].Bytes }

// The range and the resolution of latencies: 0.1 µs to 100 s at three digits.
const (
	shortest = 100
	longest  = 100_000_000_000
	digits   = 3
)

func (p *Part) record(ns, times int64) {
	if p.Lat == nil {
		p.Lat = hdrhistogram.New(shortest, longest, digits)
	}
	_ = p.Lat.RecordValues(min(max(ns, shortest), longest), times) // within the range
}

// latencies holds those of many windows in one direction, to be added up in any
// selection.
type latencies []*hdrhistogram.Snapshot

func latenciesOf(samples []Sample, dir ioengine.Dir) latencies {
	out := make(latencies, len(samples))
	for i, s := range samples {
		if h := s.By[dir].Lat; h != nil {
			out[i] = h.Export()
		}
	}
	return out
}

// sum adds up the windows named; nil if there is nothing in them.
func (l latencies) sum(windows []int) *hdrhistogram.Histogram {
	var sum *hdrhistogram.Snapshot
	for _, w := range windows {
		if l[w] == nil {
			continue
		}
		if sum == nil {
			first := *l[w]
			first.Counts = slices.Clone(first.Counts)
			sum = &first
			continue
		}
		for i, n := range l[w].Counts {
			sum.Counts[i] += n
		}
	}
	if sum == nil {
		return nil
	}
	return hdrhistogram.Import(sum)
}

// pooled returns all latencies of samples in one direction.
func pooled(samples []Sample, dir ioengine.Dir) *hdrhistogram.Histogram {
	all := make([]int, len(samples))
	for i := range all {
		all[i] = i
	}
	return latenciesOf(samples, dir).sum(all)
}

// quantile returns a percentile in ns, 0 without any latency.
func quantile(h *hdrhistogram.Histogram, percent float64) float64 {
	if h == nil {
		return 0
	}
	return float64(h.ValueAtPercentile(percent))
}

// medianOf returns the median of a value of each sample.
func medianOf(samples []Sample, of func(Sample) float64) float64 {
	values := make([]float64, len(samples))
	for i, s := range samples {
		values[i] = of(s)
	}
	return summarize(values).Median
}

// cpuPerByte returns CPU seconds a byte over all samples.
func cpuPerByte(samples []Sample) float64 {
	var cpu time.Duration
	var bytes int64
	for _, s := range samples {
		cpu += s.CPU
		bytes += s.bytes()
	}
	if bytes == 0 {
		return 0
	}
	return cpu.Seconds() / float64(bytes)
}
