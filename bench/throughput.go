// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"slices"

	"github.com/rawblockd/rawblockd/ioengine"
)

// Modes of throughput.
const (
	// Rolling keeps as many payloads under way as make up the depth: what has completed
	// is submitted again at another place at once, as fio does it.
	Rolling = "rolling"
	// Queued keeps two batches under way, each of twice the depth, so that the engine
	// itself refills the device from what waits: as a daemon under load has it.
	// Latencies include the wait.
	Queued = "queued"
)

func (r *run) throughput(ctx context.Context, s shape) (err error) {
	for _, mode := range r.plan.Modes {
		if err := r.throughputAs(ctx, s, mode); err != nil {
			return err
		}
	}
	return nil
}

func (r *run) throughputAs(ctx context.Context, s shape, mode string) (err error) {
	row := s.row("throughput", mode)
	batches, keys := payloadsFor(s), 1
	if mode == Queued {
		batches, keys = 2, max(2*s.depth/perKeyOf(s.size), 2)
		row.Keys = keys
	}
	row.InFlight = batches
	var ours side
	if s.engine == FioFixed {
		j := r.job(s.op, s.size, s.depth)
		j.fixed = true
		if mode != Rolling {
			return nil
		}
		row.InFlight = s.depth
		ours = r.fioSide(j)
	} else {
		st, err2 := r.station(ctx, s.engine, s.depth, s.size, batches*keys)
		if err2 != nil {
			return err2
		}
		defer func() { err = errors.Join(err, st.close()) }()
		row.Note = st.note
		ours = st.rolling(r.plan.Protocol, s, batches, keys)
	}
	return r.besideFio(ctx, s, row, ours, throughputTarget(s))
}

// payloadsFor is how many payloads keep depth ops in flight: as many, where a payload
// is one op, else enough that one that ends leaves ops of others waiting.
func payloadsFor(s shape) int {
	_, perKey := opOf(s.size)
	if perKey == 1 {
		return s.depth
	}
	return min(s.depth, (2*s.depth+perKey-1)/perKey+1)
}

func (st *station) rolling(p Protocol, s shape, batches, keys int) side {
	slots := make([]*slot, batches)
	for i := range slots {
		slots[i] = st.slot(s.size, keys, s.loads(), false)
	}
	return side{run: func(ctx context.Context) (Sample, error) { return st.run(ctx, p, drained, slots) }}
}

// besideFio measures one side of ours against fio at its best, and adds the row.
func (r *run) besideFio(ctx context.Context, s shape, row Row, ours side, target *Target) error {
	sides := []side{ours}
	against := ""
	settled := func(all [][]Sample) bool {
		return summarize(ratios(all, func(round []Sample) (float64, bool) { return round[0].rate(), true })).narrow()
	}
	if r.plan.Fio != nil {
		base, err := r.baseline(ctx, s)
		if err != nil {
			return err
		}
		again := r.fioSide(base)
		again.first = noiseRounds
		sides = append(sides, r.fioSide(base), again)
		against = "fio " + base.String()
		settled = func(all [][]Sample) bool { return summarize(ratios(all, rateRatio(0, 1))).narrow() }
	}
	all, err := r.plan.rounds(ctx, sides, settled)
	if err != nil {
		return err
	}
	row.ours(column(all, 0), s.op)
	if r.plan.Fio != nil {
		row.fio(column(all, 1), s.op)
		row.ratio(summarize(ratios(all, rateRatio(0, 1))), against, target)
		row.noise(summarize(ratios(all, rateRatio(2, 1))))
	}
	r.add(row)
	return nil
}

// baselineRounds is how many windows each candidate for a baseline gets.
const baselineRounds = 2

// tooMuchForFio bounds the memory that fio is asked to take for its buffers.
const tooMuchForFio = 4 << 30

// baseline returns the job that ours is held against: the same payload at the same
// depth. Above 1 MiB fio is slow with many large ones, so that a short run decides
// between one payload, as many as the depth, and as many MiB.
func (r *run) baseline(ctx context.Context, s shape) (job, error) {
	same := r.job(s.op, s.size, s.depth)
	if s.size <= ioengine.PieceSize {
		return same, nil
	}
	candidates := []job{r.job(s.op, s.size, 1), r.job(s.op, ioengine.PieceSize, s.depth)}
	if s.size*int64(s.depth) <= tooMuchForFio {
		candidates = append(candidates, same)
	}
	rates := make([]float64, len(candidates))
	for range baselineRounds {
		for i, j := range candidates {
			got, err := r.fioSide(j).run(ctx)
			if err != nil {
				return job{}, err
			}
			rates[i] += got.rate()
		}
	}
	return candidates[slices.Index(rates, slices.Max(rates))], nil
}
