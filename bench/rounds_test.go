// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"slices"
	"testing"
	"testing/synctest"
	"time"
)

// What is dear to work out is worked out in every fifth round, and still ends a figure.
func TestRoundsAskSeldom(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked []int
		enough := func(all [][]Sample) bool {
			asked = append(asked, len(all))
			return len(all) >= 17
		}
		s := side{run: func(context.Context) (Sample, error) {
			time.Sleep(service)
			return Sample{Took: service}, nil
		}}
		all, err := Protocol{Time: time.Minute}.rounds(t.Context(), []side{s}, seldom(enough))
		if err != nil || len(all) != 20 || !slices.Equal(asked, []int{10, 15, 20}) {
			t.Errorf("%d rounds, asked after %v (%v); want 20, after 10, 15 and 20", len(all), asked, err)
		}
	})
}
