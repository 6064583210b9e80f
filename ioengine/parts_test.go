// SPDX-License-Identifier: Apache-2.0

package ioengine_test

import (
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rawblockd/rawblockd/internal/testdev"
	"github.com/rawblockd/rawblockd/ioengine"
)

// Parts of one device that have no byte in common are two devices, whatever shows
// them: both may be opened exclusively.
func TestOpenAllowsDisjointParts(t *testing.T) {
	loops := func(t *testing.T, under string) (a, b string) {
		a, b = testdev.LoopOver(t, under, 512), testdev.LoopOver(t, under, 512)
		part(t, a, 0, 4<<20)
		part(t, b, 4<<20, 4<<20)
		return a, b
	}
	partitions := func(t *testing.T, of string) (a, b string) {
		return partition(t, of, 1, 2048, 4096), partition(t, of, 2, 8192, 4096)
	}
	for name, pair := range map[string]func(t *testing.T) (a, b string){
		"loop devices over a file":                func(t *testing.T) (a, b string) { return loops(t, testdev.File(t, devSize)) },
		"loop devices over a block device":        func(t *testing.T) (a, b string) { return loops(t, testdev.Loop(t, devSize, 512)) },
		"partitions of a loop device over a file": func(t *testing.T) (a, b string) { return partitions(t, testdev.Loop(t, devSize, 512)) },
		"partitions of a loop device over one": func(t *testing.T) (a, b string) {
			return partitions(t, testdev.LoopOver(t, testdev.Loop(t, devSize, 512), 512))
		},
	} {
		t.Run(name, func(t *testing.T) {
			a, b := pair(t)
			for _, path := range []string{a, b} {
				f, err := ioengine.Open(path, ioengine.OpenOptions{Exclusive: true})
				if err != nil {
					t.Fatalf("open %s while %s and %s are to be used together: %v", path, a, b, err)
				}
				defer func() { _ = f.Close() }()
			}
		})
	}
}

// A claimed loop device that shows another partition's bytes is no obstacle; one
// that shows this partition's is.
func TestOpenPartitionBesideALoopDevice(t *testing.T) {
	for name, c := range map[string]struct {
		off  uint64
		held bool
	}{"another partition's bytes": {8192 * 512, false}, "this partition's bytes": {2048 * 512, true}} {
		t.Run(name, func(t *testing.T) {
			disk := testdev.Loop(t, devSize, 512)
			p := partition(t, disk, 1, 2048, 4096)
			l := testdev.LoopOver(t, disk, 512)
			part(t, l, c.off, 1<<20)
			fd, err := unix.Open(l, unix.O_RDONLY|unix.O_EXCL, 0)
			if err != nil {
				t.Fatal(err)
			}
			defer func() { _ = unix.Close(fd) }()
			f, err := ioengine.Open(p, ioengine.OpenOptions{Exclusive: true})
			if (err != nil) != c.held {
				t.Errorf("open %s: %v", p, err)
			}
			if err == nil {
				_ = f.Close()
			}
		})
	}
}
