// SPDX-License-Identifier: Apache-2.0

package ioengine_test

import (
	"testing"

	"github.com/rawblockd/rawblockd/internal/testdev"
	"github.com/rawblockd/rawblockd/ioengine"
	"github.com/rawblockd/rawblockd/ioengine/enginetest"
)

func preadEngines() map[string]ioengine.PreadOptions {
	return map[string]ioengine.PreadOptions{
		"workers alone":              {Workers: 8},
		"budget":                     {Workers: 8, InflightBytes: 64 << 10},
		"budget smaller than the op": {Workers: 4, InflightBytes: 5 * 4096},
	}
}

func TestPreadConformance(t *testing.T) {
	for name, o := range preadEngines() {
		t.Run(name, func(t *testing.T) {
			enginetest.Run(t, func(_ *testing.T, dev ioengine.Device) ioengine.Engine { return ioengine.NewPread(dev, o) })
		})
	}
}

func TestPreadConformanceOnRealDevices(t *testing.T) {
	open := func(t *testing.T, dev ioengine.Device) ioengine.Engine {
		return ioengine.NewPread(dev, ioengine.PreadOptions{Workers: 4, InflightBytes: 1 << 20})
	}
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
			}, open)
		})
	}
}
