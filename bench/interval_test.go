// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"math"
	"math/rand/v2"
	"testing"
)

// The ranks are those of the tables for a 90 % interval of the median.
func TestOrderRank(t *testing.T) {
	for n, want := range map[int]int{1: 0, 4: 0, 5: 1, 8: 2, 9: 2, 15: 4, 20: 6, 30: 11, 100: 42, 1000: 474} {
		if got := orderRank(n); got != want {
			t.Errorf("%d values: rank %d, want %d", n, got, want)
		}
	}
}

func TestSummarize(t *testing.T) {
	got := summarize([]float64{9, 1, 8, 2, 7, 3, 6, 4, 5})
	want := Interval{Median: 5, Lo: 2, Hi: 8, Min: 1, Max: 9, N: 9, Enough: true, Of: StatisticPairs}
	if got != want {
		t.Errorf("got %+v, want %+v", got, want)
	}
	few := summarize([]float64{4, 1, 2, 3})
	if want := (Interval{Median: 2.5, Lo: 1, Hi: 4, Min: 1, Max: 4, N: 4, Of: StatisticPairs}); few != want {
		t.Errorf("four values: got %+v, want %+v", few, want)
	}
	if none := summarize(nil); none != (Interval{}) {
		t.Errorf("no values: got %+v", none)
	}
}

// Of many samples the interval holds the median of what they are drawn from in nine of
// ten cases, whatever it is; by order statistics in a little more.
func TestIntervalHoldsTheMedian(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	const runs, n = 2000, 15
	held := 0
	for range runs {
		values := make([]float64, n)
		for i := range values {
			values[i] = rng.ExpFloat64() // skewed, its median is ln 2
		}
		if i := summarize(values); i.Lo <= math.Ln2 && math.Ln2 <= i.Hi {
			held++
		}
	}
	if share := float64(held) / runs; share < 0.95 || share > 0.98 { // exactly 0.9648 for rank 4 of 15
		t.Errorf("held the median in %.3f of the cases, want 0.965", share)
	}
}

func TestVerdict(t *testing.T) {
	between := func(lo, median, hi float64) Interval {
		return Interval{Median: median, Lo: lo, Hi: hi, N: 9, Enough: true, Of: StatisticPairs}
	}
	few := between(0.99, 1, 1.01)
	few.Enough = false
	for name, tc := range map[string]struct {
		i    Interval
		t    *Target
		want string
	}{
		"above":                    {between(0.98, 1.2, 1.5), atLeast(0.97), Met},
		"narrow, its end reaches":  {between(0.95, 0.96, 0.97), atLeast(0.97), Met},
		"narrow, its end does not": {between(0.94, 0.95, 0.96), atLeast(0.97), Missed},
		"wide, holds it":           {between(0.90, 0.96, 1.01), atLeast(0.97), Undecided},
		"wide, below":              {between(0.70, 0.80, 0.96), atLeast(0.97), Missed},
		"too few":                  {few, atLeast(0.97), Undecided},
		"at most, below":           {between(0.8, 0.9, 1.1), atMost(1.1), Met},
		"at most, narrow":          {between(1.10, 1.11, 1.12), atMost(1.1), Met},
		"at most, above":           {between(1.11, 1.3, 1.5), atMost(1.1), Missed},
		"at most, wide":            {between(0.9, 1.1, 1.3), atMost(1.1), Undecided},
	} {
		if got := tc.t.verdict(tc.i); got != tc.want {
			t.Errorf("%s: %s, want %s", name, got, tc.want)
		}
	}
}

// What is the same in every round has no width; what differs has one that holds it.
func TestBootstrap(t *testing.T) {
	values := []float64{1, 1, 1, 1, 1, 1}
	mean := func(rounds []int) float64 {
		sum := 0.0
		for _, r := range rounds {
			sum += values[r]
		}
		return sum / float64(len(rounds))
	}
	if i := bootstrap(len(values), 1, mean); i.Lo != 1 || i.Hi != 1 || i.Median != 1 || !i.Enough {
		t.Errorf("six ones: %+v", i)
	}
	values = []float64{1, 2, 3, 4, 5, 6}
	i := bootstrap(len(values), 1, mean)
	if i.Median != 3.5 || i.Lo >= 3 || i.Hi <= 4 || i.Min != 1 || i.Max != 6 {
		t.Errorf("one to six: %+v, want the mean 3.5 and a wide interval", i)
	}
	if again := bootstrap(len(values), 1, mean); again != i {
		t.Errorf("with the same seed: %+v, want %+v", again, i)
	}
}
