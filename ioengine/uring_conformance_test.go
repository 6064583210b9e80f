// SPDX-License-Identifier: Apache-2.0

package ioengine_test

import (
	"testing"

	"github.com/rawblockd/rawblockd/internal/testdev"
	"github.com/rawblockd/rawblockd/ioengine"
	"github.com/rawblockd/rawblockd/ioengine/enginetest"
)

func uringEngines() map[string]ioengine.UringOptions {
	return map[string]ioengine.UringOptions{
		"depth alone":                {Depth: 32},
		"budget":                     {Depth: 32, InflightBytes: 64 << 10},
		"budget smaller than the op": {Depth: 4, InflightBytes: 5 * 4096},
	}
}

func TestUringConformance(t *testing.T) {
	for name, o := range uringEngines() {
		t.Run(name, func(t *testing.T) {
			enginetest.Run(t, func(_ *testing.T, dev ioengine.Device) ioengine.Engine {
				return ioengine.NewUringOn(dev, enginetest.NewRing(dev), o)
			})
		})
	}
}

// needUring skips a test where this process may have no ring.
func needUring(t testing.TB) {
	t.Helper()
	if err := ioengine.ProbeUring(); err != nil {
		t.Skipf("no io_uring here: %v", err)
	}
}

func TestUringConformanceOnRealDevices(t *testing.T) {
	needUring(t)
	paths := map[string]func(t *testing.T) string{
		"loop device, 512 byte sectors":  func(t *testing.T) string { return testdev.Loop(t, enginetest.DeviceSize, 512) },
		"loop device, 4096 byte sectors": func(t *testing.T) string { return testdev.Loop(t, enginetest.DeviceSize, 4096) },
		"regular file":                   func(t *testing.T) string { return testdev.File(t, enginetest.DeviceSize) },
		"tmpfs":                          func(t *testing.T) string { return testdev.FileIn(t, testdev.Tmpfs(t), enginetest.DeviceSize) },
	}
	for name, path := range paths {
		t.Run(name, func(t *testing.T) {
			enginetest.RunDevice(t, func(t *testing.T) ioengine.Device {
				dev, err := ioengine.Open(path(t), ioengine.OpenOptions{Exclusive: true})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = dev.Close() })
				return dev
			}, func(t *testing.T, dev ioengine.Device) ioengine.Engine {
				e, err := ioengine.NewUring(dev.(*ioengine.File), ioengine.UringOptions{Depth: 4, InflightBytes: 1 << 20})
				if err != nil {
					t.Fatal(err)
				}
				return e
			})
		})
	}
}
