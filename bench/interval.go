// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"math"
	"math/rand/v2"
	"slices"
)

// confidence is that of every interval.
const confidence = 0.90

// Interval is a median and what is known of it.
type Interval struct {
	Median, Lo, Hi float64
	Min, Max       float64
	N              int
	// Enough says that there were values enough for the interval to hold the median
	// with 90 %; else Lo and Hi are Min and Max.
	Enough bool
	Of     string // StatisticPairs or StatisticPooled
}

// What a ratio is, and how its interval was had.
const (
	// StatisticPairs is the median of one ratio for each round, its interval by order
	// statistics.
	StatisticPairs = "median of paired ratios"
	// StatisticPooled is one ratio, of the p99 over the latencies of all rounds
	// together, for which one round has too few ops; its interval is by bootstrap.
	StatisticPooled = "ratio of pooled p99, bootstrap interval"
)

// summarize returns the median of values and its interval by order statistics: with n
// values the median lies between the k-th smallest and the k-th largest with
// probability 1 − 2·P(Binomial(n, ½) < k), whatever the distribution is.
func summarize(values []float64) Interval {
	n := len(values)
	if n == 0 {
		return Interval{}
	}
	s := slices.Clone(values)
	slices.Sort(s)
	out := Interval{Median: (s[(n-1)/2] + s[n/2]) / 2, Min: s[0], Max: s[n-1], Lo: s[0], Hi: s[n-1], N: n, Of: StatisticPairs}
	if k := orderRank(n); k > 0 {
		out.Lo, out.Hi, out.Enough = s[k-1], s[n-k], true
	}
	return out
}

// orderRank returns the largest k for which the k-th smallest and the k-th largest of n
// values enclose the median with the confidence; 0 where even the extremes do not.
func orderRank(n int) int {
	log := -float64(n) * math.Ln2 // of the probability of exactly i below the median
	below := 0.0
	for i := range n {
		below += math.Exp(log)
		if 1-2*below < confidence {
			return i
		}
		log += math.Log(float64(n-i)) - math.Log(float64(i+1))
	}
	return 0
}

// resamples is how often bootstrap draws.
const resamples = 200

// bootstrap returns the interval of a statistic of n rounds that cannot be had from
// one round alone, such as a 99th percentile: the rounds are drawn anew with
// replacement. of is given the rounds drawn. Min and Max are those of single rounds.
func bootstrap(n int, seed uint64, of func(rounds []int) float64) Interval {
	all := make([]int, n)
	out := Interval{N: n, Min: math.Inf(1), Max: math.Inf(-1), Of: StatisticPooled}
	for i := range all {
		all[i] = i
		v := of(all[i : i+1])
		out.Min, out.Max = min(out.Min, v), max(out.Max, v)
	}
	out.Median = of(all)
	rng := rand.New(rand.NewPCG(seed, uint64(n)))
	drawn, values := make([]int, n), make([]float64, resamples)
	for i := range values {
		for j := range drawn {
			drawn[j] = rng.IntN(n)
		}
		values[i] = of(drawn)
	}
	slices.Sort(values)
	out.Lo, out.Hi = values[resamples/20], values[resamples-1-resamples/20]
	out.Lo, out.Hi = min(out.Lo, out.Median), max(out.Hi, out.Median)
	out.Enough = orderRank(n) > 0 // as few rounds say as little here
	return out
}

// precision is how narrow an interval has to be, to each side, relative to its median.
const precision = 0.02

func (i Interval) narrow() bool {
	return i.Enough && i.Hi-i.Lo <= 2*precision*math.Abs(i.Median)
}

// Verdicts on a target.
const (
	Met       = "met"
	Missed    = "missed"
	Undecided = "undecided"
)

// Target is what a ratio shall be: at least Value, or at most.
type Target struct {
	Value  float64
	AtMost bool
}

// verdict says what an interval means for a target. It is met when the good end of the
// interval reaches it, missed when it does not, and undecided while the interval is
// wide and holds it.
func (t Target) verdict(i Interval) string {
	good, bad := i.Hi, i.Lo
	if t.AtMost {
		good, bad = -i.Lo, -i.Hi
	}
	want := t.Value
	if t.AtMost {
		want = -want
	}
	switch {
	case !i.Enough:
		return Undecided
	case good < want:
		return Missed
	case bad >= want, i.narrow():
		return Met
	}
	return Undecided
}
