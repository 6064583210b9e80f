// SPDX-License-Identifier: Apache-2.0

package crashtest

import (
	"flag"
	"fmt"
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

var (
	pointsFlag = flag.Int64("points", 600, "crashes to judge in each durability mode")
	seedFlag   = flag.Uint64("seed", 1, "first seed")
	pointFlag  = flag.Uint64("point", 0, "judge only this point of only this seed, in one mode")
	modeFlag   = flag.String("mode", "both", "durability: sync, relaxed or both")
	strideFlag = flag.Int("stride", 4, "one hook in so many is a crash")
)

func config(relaxed bool) Config {
	return Config{
		Points: *pointsFlag, Seed: *seedFlag, Point: *pointFlag, Relaxed: relaxed, FaultShare: 12, Stride: *strideFlag,
		MaxFinding: 20, Log: os.Stdout, Hang: 2 * time.Minute,
	}
}

// TestCampaign is the campaign itself; make crash runs it with many points.
func TestCampaign(t *testing.T) {
	defer goleak.VerifyNone(t, parked()...)
	for _, relaxed := range []bool{false, true} {
		if *modeFlag != "both" && *modeFlag != mode(relaxed) {
			continue
		}
		start := time.Now()
		report, err := Run(config(relaxed))
		if err != nil {
			t.Fatal(err)
		}
		fmt.Printf("%v seconds=%.0f\n", &report, time.Since(start).Seconds())
		if report.Findings() > 0 {
			t.Errorf("the campaign found %d faults", report.Findings())
		}
		if *pointFlag > 0 {
			continue
		}
		if report.Points < *pointsFlag {
			t.Errorf("judged %d points, want %d", report.Points, *pointsFlag)
		}
		// A campaign that never meets a situation proves nothing about it.
		for _, answer := range []string{
			"store ok", "store exists", "store pinned", "store no_space", "store duplicate", "store deadline",
			"remove ok", "remove missing", "remove pinned", "remove duplicate", "load ok", "load missing", "touch ok", "touch missing",
		} {
			if report.Answers[answer] == 0 && report.Points >= 500 {
				t.Errorf("the workload never saw %q: %v", answer, report.Answers)
			}
		}
	}
}

// parked are goroutines of Pebble that a failed metadata store keeps for good:
// its Fatalf may not return.
func parked() []goleak.Option {
	return nil
}
