// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"

	"github.com/rawblockd/rawblockd/ioengine"
)

// The sides of beside.
const (
	sideIdle = iota
	sideBeside
	sideRate
)

// queueFactor is how much of the time that fio needs for what is in flight may come on
// top of a small load's time on an idle device.
const queueFactor = 1.5

// beside measures loads of one op, one at a time, while another caller has a batch of
// 512 keys under way, and holds their p99 against the p99 of the same loads alone plus
// the time that the bytes in flight take.
func (r *run) beside(ctx context.Context, s shape) (err error) {
	if s.engine == FioFixed {
		return nil
	}
	st, err := r.station(ctx, s.engine, s.depth, s.size, besideKeys+1)
	if err != nil {
		return err
	}
	defer func() { err = errors.Join(err, st.close()) }()
	small, _ := opOf(s.size)
	one := st.slot(small, 1, 1, true)
	many := st.slot(s.size, besideKeys, s.loads(), true)
	p := r.plan.Protocol
	sides := []side{
		st.callers(p, timed, one),
		{run: func(ctx context.Context) (Sample, error) { return st.loadsBeside(ctx, p, one, many) }},
	}
	if r.plan.Fio != nil {
		base, err := r.baseline(ctx, s)
		if err != nil {
			return err
		}
		sides = append(sides, r.fioSide(base))
	}
	all, err := r.plan.rounds(ctx, sides, seldom(func(all [][]Sample) bool {
		return r.plan.Fio != nil && newBesideTail(all, s).interval(r.plan.Seed).narrow()
	}))
	if err != nil {
		return err
	}
	r.addBeside(s, st.note, all)
	return nil
}

// loadsBeside returns the bytes of both and the latencies of the small loads alone.
func (st *station) loadsBeside(ctx context.Context, p Protocol, one, many *slot) (Sample, error) {
	got, err := st.run(ctx, p, timed, []*slot{one, many})
	if err != nil {
		return Sample{}, err
	}
	w := many.w
	w.mu.Lock()
	defer w.mu.Unlock()
	got.By[ioengine.Read].Lat, got.By[ioengine.Write].Lat = nil, nil
	for _, l := range one.whole {
		if w.timely(l) {
			got.By[ioengine.Read].record(l.took, 1)
		}
	}
	return got, nil
}

// besideTail holds the rounds of beside for a statistic of any of them.
type besideTail struct {
	s            shape
	idle, beside latencies
	rates        []float64 // of fio, bytes a second
}

func newBesideTail(all [][]Sample, s shape) besideTail {
	b := besideTail{s: s, idle: latenciesOf(column(all, sideIdle), ioengine.Read), beside: latenciesOf(column(all, sideBeside), ioengine.Read)}
	for _, f := range column(all, sideRate) {
		b.rates = append(b.rates, f.rate())
	}
	return b
}

// bound is what the p99 may be, in ns.
func (b besideTail) bound(rounds []int) float64 {
	rates := make([]float64, len(rounds))
	for i, r := range rounds {
		rates[i] = b.rates[r]
	}
	opSize, perKey := opOf(b.s.size)
	inFlight := int64(min(b.s.depth, besideKeys*perKey)) * opSize
	return quantile(b.idle.sum(rounds), 99) + queueFactor*float64(inFlight)/summarize(rates).Median*1e9
}

func (b besideTail) interval(seed uint64) Interval {
	return bootstrap(len(b.rates), seed, func(rounds []int) float64 {
		return quantile(b.beside.sum(rounds), 99) / b.bound(rounds)
	})
}

func (r *run) addBeside(s shape, note string, all [][]Sample) {
	row := s.row("beside", "1 key beside 512")
	row.Keys, row.InFlight, row.Note = besideKeys, 1, note
	row.ours(column(all, sideBeside), ioengine.Read)
	row.IdleP99 = quantile(pooled(column(all, sideIdle), ioengine.Read), 99) / 1e3
	if r.plan.Fio != nil {
		row.fio(column(all, sideRate), s.op)
		tail := newBesideTail(all, s)
		i := tail.interval(r.plan.Seed)
		row.ratio(i, "idle p99 + 1.5 × bytes in flight ÷ fio's rate", atMost(besideWant))
		if i.Median > 0 {
			row.BoundUS = row.P99 / i.Median
		}
	}
	r.add(row)
}
