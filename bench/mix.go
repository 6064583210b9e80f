// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"

	"github.com/rawblockd/rawblockd/ioengine"
)

// mixLoads is the part of loads in a mix.
const mixLoads = 0.7

// The sides of mix.
const (
	sideMixed = iota
	sideStores
	sideFioMix
	sideFioMixAgain
)

// mix measures loads while stores run, in two ways: "70/30" draws for each op whether
// it reads, as fio's own mix does, so that both have the same work in flight; "stores at
// full rate" always has as many stores in flight as the engine's depth, and 0.7 times
// as many loads on top, so that the engine decides who waits.
func (r *run) mix(ctx context.Context, s shape) (err error) {
	if s.engine == FioFixed {
		return nil
	}
	loaders := loadersFor(s.depth)
	st, err := r.station(ctx, s.engine, s.depth, s.size, mixPayloads(s.depth))
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.close()) }()
	mixed, full := make([]*slot, s.depth), make([]*slot, s.depth+loaders)
	for i := range mixed {
		mixed[i] = st.slot(s.size, 1, mixLoads, false)
	}
	for i := range full {
		loads := 0.0
		if i < loaders {
			loads = 1
		}
		full[i] = st.slot(s.size, 1, loads, false)
	}
	p := r.plan.Protocol
	sides := []side{st.callers(p, drained, mixed...), st.callers(p, drained, full...)}
	if r.plan.Fio != nil {
		j := r.job(s.op, s.size, s.depth)
		j.mixed = true
		again := r.fioSide(j)
		again.first = noiseRounds
		sides = append(sides, r.fioSide(j), again)
	}
	all, err := r.plan.rounds(ctx, sides, seldom(func(all [][]Sample) bool {
		return r.plan.Fio != nil && tails(all, sideMixed, sideFioMix, r.plan.Seed).narrow()
	}))
	if err != nil {
		return err
	}
	for side, mode := range []string{"70/30", "stores at full rate"} {
		row := s.row("mix", mode)
		row.InFlight, row.Note = s.depth, st.note
		if side == sideStores {
			row.InFlight += loaders
		}
		row.Op = "read"
		row.ours(column(all, side), ioengine.Read)
		if r.plan.Fio != nil {
			row.fio(column(all, sideFioMix), ioengine.Read)
			row.ratio(tails(all, side, sideFioMix, r.plan.Seed), "fio's load p99", atMost(mixWant))
			row.noise(tails(all[:min(len(all), noiseRounds)], sideFioMixAgain, sideFioMix, r.plan.Seed))
		}
		r.add(row)
	}
	return nil
}

// loadersFor is how many loads run on top of the stores at full rate.
func loadersFor(depth int) int { return max(1, int(mixLoads*float64(depth))) }

// mixPayloads is how many payloads both of our sides have memory for.
func mixPayloads(depth int) int { return 2*depth + loadersFor(depth) }

// tails compares the p99 of two sides' loads.
func tails(all [][]Sample, over, under int, seed uint64) Interval {
	a, b := latenciesOf(column(all, over), ioengine.Read), latenciesOf(column(all, under), ioengine.Read)
	return bootstrap(min(len(a), len(b)), seed, func(rounds []int) float64 {
		return quantile(a.sum(rounds), 99) / max(quantile(b.sum(rounds), 99), 1)
	})
}
