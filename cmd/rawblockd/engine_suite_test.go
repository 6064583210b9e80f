// SPDX-License-Identifier: Apache-2.0

package main

import (
	"testing"

	"github.com/rawblockd/rawblockd/config"
	"github.com/rawblockd/rawblockd/internal/testdev"
	"github.com/rawblockd/rawblockd/ioengine"
	"github.com/rawblockd/rawblockd/ioengine/enginetest"
)

// The engines as the daemon sets them up, watched and with its memory, keep what every
// engine promises.
func TestDaemonsEngineConforms(t *testing.T) {
	for _, engine := range []string{"pread", "uring"} {
		t.Run(engine, func(t *testing.T) {
			if engine == "uring" {
				needUring(t)
			}
			arena, err := ioengine.NewArena(8 << 20)
			if err != nil {
				t.Fatal(err)
			}
			t.Cleanup(func() {
				if err := arena.Close(); err != nil {
					t.Error(err)
				}
			})
			d := &daemon{timings: newTimings(), arena: arena}
			s := config.Slab{Name: "test", Engine: engine, Workers: 4, QueueDepth: 32, InflightBytes: 4 << 20}
			enginetest.RunDevice(t, func(t *testing.T) ioengine.Device {
				file, err := ioengine.Open(testdev.Loop(t, enginetest.DeviceSize, 512), ioengine.OpenOptions{Exclusive: true})
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = file.Close() })
				return file
			}, func(t *testing.T, dev ioengine.Device) ioengine.Engine {
				e, err := d.startEngine(s, dev.(*ioengine.File))
				if err != nil {
					t.Fatal(err)
				}
				return e
			})
		})
	}
}
