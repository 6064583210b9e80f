// SPDX-License-Identifier: Apache-2.0

package ioengine_test

import (
	"testing"
	"testing/synctest"

	"github.com/rawblockd/rawblockd/internal/simdev"
	"github.com/rawblockd/rawblockd/ioengine"
	"github.com/rawblockd/rawblockd/ioengine/enginetest"
)

// opener starts an engine on a device that is no file. What both engines can be told
// is among the options of the one.
type opener func(dev ioengine.Device, o ioengine.UringOptions) ioengine.Engine

// engines is every engine: they bound, order and count alike.
func engines() map[string]opener {
	return map[string]opener{
		"pread": func(dev ioengine.Device, o ioengine.UringOptions) ioengine.Engine {
			return ioengine.NewPread(dev, ioengine.PreadOptions{
				Workers: o.Depth, InflightBytes: o.InflightBytes, Observe: o.Observe, ObserveFlush: o.ObserveFlush,
			})
		},
		"uring": func(dev ioengine.Device, o ioengine.UringOptions) ioengine.Engine {
			return ioengine.NewUringOn(dev, enginetest.NewRing(dev), o)
		},
	}
}

// inFakeTime runs a test with each engine on a device of its own.
func inFakeTime(t *testing.T, dev simdev.Options, o ioengine.UringOptions, test func(t *testing.T, dev *simdev.Device, e ioengine.Engine)) {
	t.Helper()
	for name, open := range engines() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				dev := slowDevice(dev)
				e := open(dev, o)
				defer closeEngine(t, e)
				test(t, dev, e)
			})
		})
	}
}

func TestConformanceInFakeTime(t *testing.T) {
	for name, open := range engines() {
		t.Run(name, func(t *testing.T) {
			enginetest.RunInFakeTime(t, func(dev ioengine.Device, depth int) ioengine.Engine {
				return open(dev, ioengine.UringOptions{Depth: depth})
			})
		})
	}
}
