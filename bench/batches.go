// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"slices"
	"time"
)

// batchWindow is the part of a window that one batch size gets, and shortBatches the
// least: there are many of them in a round.
const (
	batchWindow  = 4
	shortBatches = 20 * time.Millisecond
)

// batches measures how long a batch of N keys takes one caller, for each N, and holds
// it against what it has to take: the time of one key for each turn of the depth, or
// the time that fio's rate needs for the bytes.
func (r *run) batches(ctx context.Context, s shape) (err error) {
	if s.engine == FioFixed {
		return nil
	}
	sizes := slices.Clone(r.plan.Batches)
	sizes = append(sizes, 1) // the bound is made of it
	slices.Sort(sizes)
	sizes = slices.Compact(sizes)
	st, err := r.station(ctx, s.engine, s.depth, s.size, sizes[len(sizes)-1])
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.close()) }()
	p := r.plan.Protocol
	p.Window = max(p.Window/batchWindow, shortBatches)
	var sides []side
	memory := st.spare
	for _, n := range sizes {
		st.spare = memory // one size runs at a time
		sides = append(sides, st.callers(p, aligned, st.slot(s.size, n, s.loads(), true)))
	}
	if r.plan.Fio != nil {
		base, err := r.baseline(ctx, s)
		if err != nil {
			return err
		}
		again := r.fioSide(base)
		again.first = noiseRounds
		sides = append(sides, r.fioSide(base), again)
	}
	sweep := batchSweep{s, sizes, r.plan.Fio != nil}
	all, err := r.plan.rounds(ctx, sides, sweep.settled)
	if err != nil {
		return err
	}
	for i, n := range sizes {
		if slices.Contains(r.plan.Batches, n) {
			r.add(sweep.row(all, i, st.note))
		}
	}
	return nil
}

// batchSweep is what is made of the rounds of batches. The sides are the sizes, in
// ascending order from 1, and then fio twice.
type batchSweep struct {
	s       shape
	sizes   []int
	withFio bool
}

func (b batchSweep) settled(all [][]Sample) bool {
	if !b.withFio {
		return false // nothing to be precise about: the time decides
	}
	for i := range b.sizes[1:] {
		if !summarize(ratios(all, b.overBound(i+1))).narrow() {
			return false
		}
	}
	return true
}

// duration is the median of a sample's batches in ns.
func (b batchSweep) duration(s Sample) float64 { return quantile(s.By[b.s.op].Lat, 50) }

// bound is what a batch of sizes[i] has to take in a round, in ns.
func (b batchSweep) bound(round []Sample, i int) float64 {
	n, fio := b.sizes[i], round[len(b.sizes)].rate()
	_, perKey := opOf(b.s.size)
	turns := (n*perKey + b.s.depth - 1) / b.s.depth
	ownTurns := (perKey + b.s.depth - 1) / b.s.depth
	return max(float64(turns)/float64(ownTurns)*b.duration(round[0]), float64(n)*float64(b.s.size)/fio*1e9)
}

func (b batchSweep) overBound(i int) func([]Sample) (float64, bool) {
	return func(round []Sample) (float64, bool) {
		bound := b.bound(round, i)
		return b.duration(round[i]) / bound, bound > 0
	}
}

func (b batchSweep) row(all [][]Sample, i int, note string) Row {
	row := b.s.row("batch", "barrier")
	row.Keys, row.N, row.InFlight, row.Note = b.sizes[i], b.sizes[i], 1, note
	mine := column(all, i)
	row.ours(mine, b.s.op)
	row.MedianUS = quantile(pooled(mine, b.s.op), 50) / 1e3
	if !b.withFio {
		return row
	}
	at := len(b.sizes)
	row.fio(column(all, at), b.s.op)
	row.noise(summarize(ratios(all, rateRatio(at+1, at))))
	row.BoundUS = summarize(ratios(all, func(round []Sample) (float64, bool) { return b.bound(round, i), true })).Median / 1e3
	if b.sizes[i] > 1 { // the bound of one is made of its own time
		row.ratio(summarize(ratios(all, b.overBound(i))), "the bound", atMost(batchWant))
	}
	return row
}
