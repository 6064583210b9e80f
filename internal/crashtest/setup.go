// SPDX-License-Identifier: Apache-2.0

package crashtest

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"time"
)

// setup is what a seed means: all that distinguishes one run from another.
type setup struct {
	seed    uint64
	relaxed bool
	actors  int
	ops     int // of each actor between two restarts
	rounds  int // restarts + 1

	block      int
	optimalIO  int
	slotSize   int64
	deviceSize int64
	maxPayload int64
	maxBatch   int
	workers    int  // of the engine: ops at once
	uring      bool // the engine of io_uring, on a simulated ring
	memTable   uint64

	names []keyName

	lingerFlush, lingerLog int // turns, see linger
	fault                  fault
}

// Bounds of a run.
const (
	mib       = 1 << 20
	startTime = 1_800_000_000_000 // Unix milliseconds at which every run begins
	leaseTime = 10 * time.Second
	arenaSize = 96 * mib
)

// newSetup draws a run from its seed. FaultShare is the percentage of runs with
// one of the faults.
func newSetup(seed uint64, relaxed bool, faultShare int, faults []fault) *setup {
	rng := newRand(seed, "setup", 0)
	s := &setup{
		seed: seed, relaxed: relaxed, actors: 1 + rng.IntN(4), ops: 6 + rng.IntN(20), rounds: 1 + rng.IntN(3),
		block: []int{512, 4096}[rng.IntN(2)], workers: 1 + rng.IntN(4), memTable: 64 << 10, maxBatch: 6,
	}
	s.uring = newRand(seed, "engine", 0).IntN(2) == 0
	switch n := rng.IntN(100); {
	case n < 55: // stride 20 to 36 KiB: 51 to 28 slots
		s.slotSize, s.deviceSize, s.optimalIO = 4<<10, 3*mib, []int{16 << 10, 32 << 10}[rng.IntN(2)]
	case n < 97: // 51 to 32 slots
		s.slotSize, s.deviceSize, s.optimalIO = 16<<10, 3*mib, []int{0, 16 << 10}[rng.IntN(2)]
	default: // 4 slots, payloads of several pieces
		s.slotSize, s.deviceSize, s.maxBatch, s.ops = 1*mib, 7*mib, 2, 6
	}
	s.maxPayload = 4 * s.slotSize
	if s.slotSize == 1*mib {
		s.maxPayload = 2 * s.slotSize
	}
	if rng.IntN(2) == 0 {
		s.lingerFlush, s.lingerLog = 400, 400
	}
	long := 5 // every so manieth key; long keys make rows that fill a memtable soon
	if rng.IntN(100) < faultShare {
		long = s.drawFault(rng, faults)
	}
	for i := range 12 {
		n := keyName{"default", fmt.Sprintf("key-%d", i)}
		if i >= 10 {
			n.ns = "tenant"
		}
		if i%long == long-1 {
			n.key += strings.Repeat("k", 700+rng.IntN(300))
		}
		s.names = append(s.names, n)
	}
	return s
}

// drawFault picks a fault and makes the run such that it is likely to be hit.
func (s *setup) drawFault(rng *rand.Rand, all []fault) (long int) {
	s.fault = all[rng.IntN(len(all))]
	s.fault.sticky = rng.IntN(2) == 0
	if s.fault.rare {
		s.fault.after = rng.IntN(2)
		s.memTable, s.ops = 16<<10, s.ops+12
		return 1
	}
	s.fault.after = rng.IntN(25)
	return 5
}
