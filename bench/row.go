// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"github.com/rawblockd/rawblockd/ioengine"
)

// Report is what a run has found out.
type Report struct {
	Tool        string  `json:"tool"`
	Version     string  `json:"version"`
	Machine     Machine `json:"machine"`
	Device      Device  `json:"device"`
	Protocol    string  `json:"protocol"`
	Interrupted bool    `json:"interrupted,omitempty"` // rows are missing
	Rows        []Row   `json:"rows"`
}

// Row is one figure. What does not apply is zero and is left out.
type Row struct {
	Name   string `json:"name"` // throughput, batched, layout, batch, mix, beside
	Engine string `json:"engine,omitempty"`
	Op     string `json:"op,omitempty"`
	Size   int64  `json:"size,omitempty"` // of a payload, bytes
	Keys   int    `json:"keys,omitempty"` // in a batch
	Depth  int    `json:"depth,omitempty"`
	// InFlight is how many payloads, or batches where there are keys, are under way.
	InFlight int    `json:"in_flight,omitempty"`
	Mode     string `json:"mode,omitempty"` // how ops come: see ARCHITECTURE.md
	Path     string `json:"path,omitempty"` // always inproc here

	MiBs    float64 `json:"mib_s,omitempty"`
	IOPS    float64 `json:"iops,omitempty"` // payloads a second
	FioMiBs float64 `json:"fio_mib_s,omitempty"`
	FioIOPS float64 `json:"fio_iops,omitempty"`

	// Ratio is ours ÷ Against, and Statistic of what: of mix and beside it is of the
	// p99 of all rounds pooled, else the median of the rounds' ratios.
	Ratio     float64 `json:"ratio,omitempty"`
	Statistic string  `json:"statistic,omitempty"`
	RatioMin  float64 `json:"ratio_min,omitempty"`
	RatioMax  float64 `json:"ratio_max,omitempty"`
	RatioLo   float64 `json:"ratio_lo,omitempty"` // 90 % interval
	RatioHi   float64 `json:"ratio_hi,omitempty"`
	Pairs     int     `json:"pairs,omitempty"`
	Against   string  `json:"against,omitempty"`
	Noise     float64 `json:"noise,omitempty"` // fio ÷ fio under the same protocol
	NoiseLo   float64 `json:"noise_lo,omitempty"`
	NoiseHi   float64 `json:"noise_hi,omitempty"`
	Want      string  `json:"want,omitempty"` // the target: ≥ 0.97
	Verdict   string  `json:"verdict,omitempty"`
	Claimed   float64 `json:"claimed,omitempty"` // the same ratio as others published it, of their drive

	CPUPerGB    float64 `json:"cpu_s_per_gb,omitempty"` // GB: 10^9 bytes
	FioCPUPerGB float64 `json:"fio_cpu_s_per_gb,omitempty"`
	CPUPerOp    float64 `json:"cpu_us_per_op,omitempty"` // an op: a payload, of at most 1 MiB
	FioCPUPerOp float64 `json:"fio_cpu_us_per_op,omitempty"`

	P50     float64 `json:"p50_us,omitempty"`
	P99     float64 `json:"p99_us,omitempty"`
	P999    float64 `json:"p999_us,omitempty"`
	FioP50  float64 `json:"fio_p50_us,omitempty"`
	FioP99  float64 `json:"fio_p99_us,omitempty"`
	FioP999 float64 `json:"fio_p999_us,omitempty"`
	IdleP99 float64 `json:"idle_p99_us,omitempty"` // of the same loads alone

	N        int     `json:"n,omitempty"`         // keys in the batch that MedianUS is of
	MedianUS float64 `json:"median_us,omitempty"` // how long it takes
	BoundUS  float64 `json:"bound_us,omitempty"`  // what it is held against

	Note string `json:"note,omitempty"`
}

const mib = 1 << 20

// ours fills in what our side did.
func (r *Row) ours(samples []Sample, dir ioengine.Dir) {
	rate := medianOf(samples, Sample.rate)
	r.MiBs, r.IOPS = rate/mib, rate/float64(r.Size)
	opSize, _ := opOf(r.Size)
	perByte := cpuPerByte(samples)
	r.CPUPerGB, r.CPUPerOp = perByte*1e9, perByte*float64(opSize)*1e6
	lat := pooled(samples, dir)
	r.P50, r.P99, r.P999 = quantile(lat, 50)/1e3, quantile(lat, 99)/1e3, quantile(lat, 99.9)/1e3
}

// fio fills in what fio did.
func (r *Row) fio(samples []Sample, dir ioengine.Dir) {
	if len(samples) == 0 {
		return
	}
	rate := medianOf(samples, Sample.rate)
	r.FioMiBs, r.FioIOPS = rate/mib, rate/float64(r.Size)
	opSize, _ := opOf(r.Size)
	perByte := cpuPerByte(samples)
	r.FioCPUPerGB, r.FioCPUPerOp = perByte*1e9, perByte*float64(opSize)*1e6
	lat := pooled(samples, dir)
	r.FioP50, r.FioP99, r.FioP999 = quantile(lat, 50)/1e3, quantile(lat, 99)/1e3, quantile(lat, 99.9)/1e3
}

// ratio fills in a comparison.
func (r *Row) ratio(i Interval, against string, target *Target) {
	if i.N == 0 {
		return
	}
	r.Ratio, r.RatioLo, r.RatioHi, r.RatioMin, r.RatioMax, r.Pairs, r.Against = i.Median, i.Lo, i.Hi, i.Min, i.Max, i.N, against
	r.Statistic = i.Of
	if target != nil {
		r.Want, r.Verdict = target.String(), target.verdict(i)
	}
}

func (r *Row) noise(i Interval) {
	if i.N > 0 {
		r.Noise, r.NoiseLo, r.NoiseHi = i.Median, i.Lo, i.Hi
	}
}
