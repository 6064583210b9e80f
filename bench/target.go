// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"strings"
)

// String is the target as people write it.
func (t Target) String() string {
	if t.AtMost {
		return fmt.Sprintf("≤ %g", t.Value)
	}
	return fmt.Sprintf("≥ %g", t.Value)
}

// targetDepth is the depth that the targets for throughput are set at.
const targetDepth = 32

// throughputTarget is what an engine shall make of fio's throughput; nil: nothing is
// promised of that. At 4 KiB pread's context switches decide, so it has none there.
func throughputTarget(s shape) *Target {
	switch {
	case s.depth != targetDepth || s.engine == FioFixed:
		return nil
	case s.size >= 64<<10:
		return &Target{Value: 0.97}
	case s.size == MinSize && strings.HasPrefix(s.engine, "uring"):
		return &Target{Value: 0.90}
	}
	return nil
}

// The other targets.
const (
	batchedWant = 0.95 // of fio's own gain, at least
	layoutWant  = 0.95 // of the best layout, at least
	batchWant   = 1.1  // times the bound, at most
	besideWant  = 1.0  // times the bound, at most
	mixWant     = 1.2  // times fio's p99, at most
)

func atLeast(v float64) *Target { return &Target{Value: v} }

func atMost(v float64) *Target { return &Target{Value: v, AtMost: true} }

// mooncakeGains are those that the authors of Mooncake's bucket backend published for
// depth 32 against one at a time, on their drive, by payload size.
func mooncakeGains(size int64) float64 {
	switch size {
	case 4 << 10:
		return 13.74
	case 64 << 10:
		return 14.22
	case 1 << 20:
		return 5.54
	}
	return 0
}
