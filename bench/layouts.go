// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
)

// layouts measures how much it matters how the same payloads are asked for: so many
// callers, each waiting for its batch of so many keys.
func (r *run) layouts(ctx context.Context, s shape) (err error) {
	if s.engine == FioFixed {
		return nil
	}
	payloads := 0
	for _, l := range r.plan.Layouts {
		payloads = max(payloads, l.Batches*l.Keys)
	}
	st, err := r.station(ctx, s.engine, s.depth, s.size, payloads)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.close()) }()
	var sides []side
	memory := st.spare
	for _, l := range r.plan.Layouts {
		st.spare = memory // one layout runs at a time
		slots := make([]*slot, l.Batches)
		for i := range slots {
			slots[i] = st.slot(s.size, l.Keys, s.loads(), true)
		}
		sides = append(sides, st.callers(r.plan.Protocol, aligned, slots...))
	}
	n := len(sides)
	if r.plan.Fio != nil {
		base, err := r.baseline(ctx, s)
		if err != nil {
			return err
		}
		again := r.fioSide(base)
		again.first = noiseRounds
		sides = append(sides, r.fioSide(base), again)
	}
	all, err := r.plan.rounds(ctx, sides, func(all [][]Sample) bool {
		best := bestOf(all, n)
		for i := range n {
			if i != best && !summarize(ratios(all, rateRatio(i, best))).narrow() {
				return false
			}
		}
		return true
	})
	if err != nil {
		return err
	}
	r.addLayouts(s, st.note, all, n)
	return nil
}

// bestOf returns which of the first n sides has the highest median rate.
func bestOf(all [][]Sample, n int) int {
	best, most := 0, 0.0
	for i := range n {
		if rate := medianOf(column(all, i), Sample.rate); rate > most {
			best, most = i, rate
		}
	}
	return best
}

func (r *run) addLayouts(s shape, note string, all [][]Sample, n int) {
	best := bestOf(all, n)
	for i, l := range r.plan.Layouts {
		row := s.row("layout", l.String())
		row.Keys, row.InFlight, row.Note = l.Keys, l.Batches, note
		row.ours(column(all, i), s.op)
		if r.plan.Fio != nil {
			row.fio(column(all, n), s.op)
			row.noise(summarize(ratios(all, rateRatio(n+1, n))))
		}
		if i == best {
			row.Against = "the best"
			row.Ratio, row.RatioLo, row.RatioHi, row.RatioMin, row.RatioMax, row.Pairs = 1, 1, 1, 1, 1, len(all)
		} else {
			row.ratio(summarize(ratios(all, rateRatio(i, best))), "the best", atLeast(layoutWant))
		}
		r.add(row)
	}
}
