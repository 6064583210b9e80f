// SPDX-License-Identifier: Apache-2.0

package ioengine_test

import (
	"syscall"
	"testing"

	"github.com/rawblockd/rawblockd/internal/testdev"
	"github.com/rawblockd/rawblockd/ioengine"
	"github.com/rawblockd/rawblockd/ioengine/enginetest"
	"github.com/rawblockd/rawblockd/ioengine/internal/ring"
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

// moody is a ring that has less room than it should, again and again: it takes all, or
// some, or nothing, and gives completions one at a time.
type moody struct {
	ioengine.Ring
	calls int // the engine makes one at a time
}

func (m *moody) Submit(entries []ring.Entry) (int, error) {
	m.calls++
	switch m.calls % 6 {
	case 1:
		return 0, syscall.EBUSY
	case 2:
		return m.Ring.Submit(entries[:(len(entries)+1)/2])
	case 3:
		return 0, syscall.EAGAIN
	case 4:
		return m.Ring.Submit(entries[:1])
	case 5:
		return 0, nil
	}
	return m.Ring.Submit(entries)
}

func (m *moody) Reap(into []ring.Completion) (int, error) { return m.Ring.Reap(into[:1]) }

func TestUringConformanceOnAMoodyRing(t *testing.T) {
	enginetest.Run(t, func(_ *testing.T, dev ioengine.Device) ioengine.Engine {
		return ioengine.NewUringOn(dev, &moody{Ring: enginetest.NewRing(dev)}, ioengine.UringOptions{Depth: 32})
	})
}

// needUring skips a test where this process may have no ring.
func needUring(t testing.TB) {
	t.Helper()
	if err := ioengine.ProbeUring(1); err != nil {
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
