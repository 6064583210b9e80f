// SPDX-License-Identifier: Apache-2.0

package crashtest

import (
	"os"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// Pebble's files fail in every way, in both durability modes: no acknowledged
// state may be false, before or after the restart, and loads go on (C35).
func TestPebbleFaults(t *testing.T) {
	defer goleak.VerifyNone(t)
	for _, relaxed := range []bool{false, true} {
		for _, f := range faults() {
			t.Run(mode(relaxed)+" "+f.name, func(t *testing.T) {
				report, err := Run(Config{
					Points: 30, Faulty: 2, Seed: *seedFlag, Relaxed: relaxed, FaultShare: 100, Fault: f.name,
					Stride: 40, MaxFinding: 5, Log: os.Stdout, Hang: 2 * time.Minute,
				})
				if err != nil {
					t.Fatal(err)
				}
				if report.Findings() > 0 {
					t.Errorf("%v", &report)
				}
			})
		}
	}
}
