// SPDX-License-Identifier: Apache-2.0

package crashtest

import (
	"testing"

	"github.com/rawblockd/rawblockd/ioengine"
	"github.com/rawblockd/rawblockd/ioengine/enginetest"
)

// The device of the crash tests serves engines as every other device does.
func TestDeviceServesEngines(t *testing.T) {
	for name, open := range map[string]enginetest.Open{
		"pread": func(_ *testing.T, dev ioengine.Device) ioengine.Engine {
			return ioengine.NewPread(dev, ioengine.PreadOptions{Workers: 4})
		},
		"uring": func(_ *testing.T, dev ioengine.Device) ioengine.Engine {
			return ioengine.NewUringOn(dev, enginetest.NewRing(dev), ioengine.UringOptions{Depth: 4})
		},
	} {
		t.Run(name, func(t *testing.T) {
			enginetest.RunDevice(t, func(t *testing.T) ioengine.Device {
				s := &setup{block: 4096, deviceSize: enginetest.DeviceSize}
				disk, err := newDisk(s)
				if err != nil {
					t.Fatal(err)
				}
				dev, err := newDevice(disk, s, nil, func(uint64) {})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() {
					if err := dev.Close(); err != nil {
						t.Error(err)
					}
				})
				return dev
			}, open)
		})
	}
}
