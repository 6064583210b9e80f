// SPDX-License-Identifier: Apache-2.0

package enginetest

import (
	"testing"

	"github.com/rawblockd/rawblockd/internal/simdev"
	"github.com/rawblockd/rawblockd/ioengine"
)

// DeviceSize is how large a device RunDevice wants at least.
const DeviceSize = 8 << 20

// Open starts an engine that can have at least four ops on dev at once. The
// suite closes it.
type Open func(t *testing.T, dev ioengine.Device) ioengine.Engine

// Run tests an engine on simulated devices of 512 and 4096 byte blocks, and of memory
// aligned to as much.
func Run(t *testing.T, open Open) {
	coarse := simdev.New(simdev.Options{Size: DeviceSize, MemAlign: 4096})
	t.Run("memory in pages", func(t *testing.T) { testSkewed(newRig(t, coarse, open)) })
	volatile := simdev.New(simdev.Options{Size: DeviceSize, Volatile: true})
	t.Run("a flush covers what was answered", func(t *testing.T) { testFlushCovers(newRig(t, volatile, open)) })
	for _, block := range []int{512, 4096} {
		sim := func() *simdev.Device { return simdev.New(simdev.Options{Size: DeviceSize, Block: block}) }
		t.Run(blockName(block), func(t *testing.T) {
			RunDevice(t, func(*testing.T) ioengine.Device { return sim() }, open)
			for _, c := range faultCases() {
				t.Run(c.name, func(t *testing.T) { c.run(newRig(t, sim(), open)) })
			}
		})
	}
}

// RunDevice tests an engine on devices from make, each used for one case and
// overwritten.
func RunDevice(t *testing.T, make func(t *testing.T) ioengine.Device, open Open) {
	for _, c := range deviceCases() {
		t.Run(c.name, func(t *testing.T) {
			dev := make(t)
			if size := dev.Geometry().Size; size < DeviceSize {
				t.Fatalf("device %q has %d bytes, want at least %d", dev.Path(), size, DeviceSize)
			}
			c.run(newRig(t, dev, open))
		})
	}
}

type testCase struct {
	name string
	run  func(r *rig)
}

func deviceCases() []testCase {
	return []testCase{
		{"what was written is read back", testRoundTrip},
		{"a vector of many parts", testManyParts},
		{"both directions in one batch", testMixed},
		{"a batch deeper than the engine", testDeepBatch},
		{"unaligned ops are answered", testUnaligned},
		{"skewed by 512 bytes", testSkewed},
		{"the end of the device", testEndOfDevice},
		{"nothing to do", testEmpty},
		{"many batches at once", testConcurrent},
		{"done may submit", testSubmitFromDone},
		{"counters", testStats},
		{"context that ended before", testDoEnded},
		{"after close", testAfterClose},
	}
}

func faultCases() []testCase {
	return []testCase{
		{"results come in any order", testOrderFree},
		{"unaligned ops leave the device alone", testUnalignedUntouched},
		{"short transfers are continued", testShort},
		{"a transfer ends at any byte", testShortAnywhere},
		{"many transfers end at any byte", testShortManyAtOnce},
		{"EAGAIN is tried again", testAgain},
		{"a storm of EAGAIN", testStorm},
		{"an endless EAGAIN is an error", testAgainForever},
		{"one op fails alone", testOneFails},
		{"one of many transfers fails", testNthFails},
		{"a clean batch after an error", testCleanAfterError},
		{"deep batches with faults, and a clean one", testDeepWithFaults},
		{"a device that has gone", testVanished},
		{"flush", testFlush},
		{"flush failure", testFlushFails},
		{"hang and release", testHang},
		{"ages of what is on the device", testAges},
		{"context that ends", testDoLeaves},
		{"memory of a detached read", testDetached(ioengine.Read)},
		{"memory of a detached write", testDetached(ioengine.Write)},
		{"everything at once", testRandom},
		{"close with work in flight", testCloseInFlight},
	}
}
