// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"time"
)

// Protocol says how long to measure.
type Protocol struct {
	Window time.Duration // of one side in one round
	Ramp   time.Duration // before each window, not counted
	Time   time.Duration // for a figure
	Pairs  int           // rounds for a figure; 0: as many as are needed, within Time
}

const (
	// LeastRounds is the number below which there is no interval, and so no verdict.
	LeastRounds = 5
	// fewRounds is the number below which a narrow interval is not believed: looking
	// after each round finds a lucky one sooner or later.
	fewRounds = 9
	// seldomRounds is after how many rounds it is asked again whether a figure that is
	// dear to work out is settled.
	seldomRounds = 5
	// noiseRounds is how many rounds also measure fio against itself.
	noiseRounds = 15
)

// side is what a round runs once.
type side struct {
	run   func(ctx context.Context) (Sample, error)
	first int // only in so many first rounds; 0: in all
}

// rounds runs the sides until settled says that the figure is precise enough, or the
// protocol ends it. Sample [r][i] is of side i in round r; what did not run is zero.
func (p Protocol) rounds(ctx context.Context, sides []side, settled func([][]Sample) bool) ([][]Sample, error) {
	var all [][]Sample
	start := time.Now()
	for {
		began := time.Now()
		round, err := p.round(ctx, sides, len(all))
		if err != nil {
			return nil, err
		}
		all = append(all, round)
		switch n := len(all); {
		case p.Pairs > 0 && n >= p.Pairs,
			time.Since(start)+time.Since(began) > p.Time,
			n >= fewRounds && settled(all):
			return all, nil
		}
	}
}

// seldom asks settled in every fifth round only: a bootstrap takes longer with each
// round, all the while that nothing is measured.
func seldom(settled func([][]Sample) bool) func([][]Sample) bool {
	return func(all [][]Sample) bool { return len(all)%seldomRounds == 0 && settled(all) }
}

// round runs every side once: forwards, and in every other round backwards, so that
// neither side is always the first after the other.
func (p Protocol) round(ctx context.Context, sides []side, r int) ([]Sample, error) {
	out := make([]Sample, len(sides))
	for i := range sides {
		if r%2 == 1 {
			i = len(sides) - 1 - i
		}
		if sides[i].first > 0 && r >= sides[i].first {
			continue
		}
		var err error
		if out[i], err = sides[i].run(ctx); err != nil {
			return nil, err
		}
	}
	return out, nil
}

// ratios returns one value of each round that has one.
func ratios(all [][]Sample, of func(round []Sample) (v float64, ok bool)) []float64 {
	var out []float64
	for _, round := range all {
		if v, ok := of(round); ok {
			out = append(out, v)
		}
	}
	return out
}

// rateRatio compares the rates of two sides.
func rateRatio(over, under int) func([]Sample) (float64, bool) {
	return func(round []Sample) (float64, bool) {
		a, b := round[over].rate(), round[under].rate()
		return a / b, a > 0 && b > 0
	}
}

// column returns the samples of one side.
func column(all [][]Sample, i int) []Sample {
	var out []Sample
	for _, round := range all {
		if round[i].Took > 0 {
			out = append(out, round[i])
		}
	}
	return out
}
