// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
)

// batched measures what a batch of depth payloads gains over one at a time, one caller
// both times, beside what depth gains fio. A batch counts in two ways: "rolling" keeps
// depth payloads in flight, "barrier" submits the next batch when all of one is there.
func (r *run) batched(ctx context.Context, s shape) (err error) {
	if s.engine == FioFixed {
		return nil
	}
	rollers := payloadsFor(s)
	st, err := r.station(ctx, s.engine, s.depth, s.size, batchedPayloads(s))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.close()) }()
	p := r.plan.Protocol
	sides := []side{
		st.callers(p, aligned, st.slot(s.size, 1, s.loads(), true)),
		st.callers(p, aligned, st.slot(s.size, s.depth, s.loads(), true)),
		st.rolling(p, s, rollers, 1),
	}
	if r.plan.Fio != nil {
		again := r.fioSide(r.job(s.op, s.size, s.depth))
		again.first = noiseRounds
		sides = append(sides, r.fioSide(r.job(s.op, s.size, 1)), r.fioSide(r.job(s.op, s.size, s.depth)), again)
	}
	all, err := p.rounds(ctx, sides, func(all [][]Sample) bool {
		over := sideFioDepth
		if r.plan.Fio == nil {
			over = sideSingle
		}
		return summarize(ratios(all, rateRatio(sideRolling, over))).narrow() &&
			summarize(ratios(all, rateRatio(sideBarrier, over))).narrow()
	})
	if err != nil {
		return err
	}
	r.addBatched(s, st.note, all)
	return nil
}

// batchedPayloads is how many payloads the three sides of ours have memory for.
func batchedPayloads(s shape) int { return 1 + s.depth + payloadsFor(s) }

// The sides of batched.
const (
	sideSingle = iota
	sideBarrier
	sideRolling
	sideFio1
	sideFioDepth
	sideFioAgain
)

func (st *station) callers(p Protocol, end ending, slots ...*slot) side {
	return side{run: func(ctx context.Context) (Sample, error) { return st.run(ctx, p, end, slots) }}
}

func (r *run) addBatched(s shape, note string, all [][]Sample) {
	single := s.row("batched", "single")
	single.Keys, single.InFlight, single.Note = 1, 1, note
	single.ours(column(all, sideSingle), s.op)
	if r.plan.Fio != nil {
		single.fio(column(all, sideFio1), s.op)
		single.ratio(summarize(ratios(all, rateRatio(sideSingle, sideFio1))), "fio depth 1", nil)
	}
	r.add(single)
	for _, side := range []int{sideRolling, sideBarrier} {
		mode := "rolling"
		if side == sideBarrier {
			mode = "barrier"
		}
		row := s.row("batched", mode)
		row.Keys, row.InFlight = s.depth, 1
		row.ours(column(all, side), s.op)
		if r.plan.Fio == nil {
			row.ratio(summarize(ratios(all, rateRatio(side, sideSingle))), "one at a time", nil)
			r.add(row)
			continue
		}
		row.fio(column(all, sideFioDepth), s.op)
		gain := row
		gain.Name = "gain"
		gain.ratio(summarize(ratios(all, rateRatio(side, sideFio1))), "fio depth 1", nil)
		gain.Claimed = mooncakeGains(s.size)
		r.add(gain)
		// Ours ÷ fio's gain, both over fio's depth 1 in the same round, is ours ÷ fio.
		row.ratio(summarize(ratios(all, rateRatio(side, sideFioDepth))), "fio's gain", atLeast(batchedWant))
		row.noise(summarize(ratios(all, rateRatio(sideFioAgain, sideFioDepth))))
		r.add(row)
	}
	if r.plan.Fio != nil {
		r.add(fioGain(s, all))
	}
}

// fioGain is what depth is worth to fio.
func fioGain(s shape, all [][]Sample) Row {
	row := s.row("gain", "rolling")
	row.Engine, row.InFlight = "fio", s.depth
	row.fio(column(all, sideFioDepth), s.op)
	row.MiBs, row.IOPS = row.FioMiBs, row.FioIOPS
	row.ratio(summarize(ratios(all, rateRatio(sideFioDepth, sideFio1))), "fio depth 1", nil)
	return row
}
