// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/internal/testdev"
	"github.com/rawblockd/rawblockd/slab"
)

// A device that is there and cannot serve its slab costs that slab alone, as one that
// is away does; it is not written, and with the right one back all is there again.
func TestUnfitDevice(t *testing.T) {
	for name, tt := range map[string]struct {
		spoil        func(n *node) (device string)
		reason, todo string
	}{
		"blank": {
			func(n *node) string { return testdev.LoopOver(n.t, testdev.File(n.t, testSlab), 512) },
			"no rawblockd label", "make a slab of the new one",
		},
		"smaller": {func(n *node) string {
			short := testdev.File(n.t, testSlab)
			copyInto(n.t, short, n.files[1])
			if err := os.Truncate(short, testSlab/2); err != nil {
				n.t.Fatal(err)
			}
			return testdev.LoopOver(n.t, short, 512)
		}, "it is truncated", "give the device its size back"},
		"far too small": {
			func(n *node) string { return testdev.LoopOver(n.t, testdev.File(n.t, 1<<20), 512) },
			"device is too small", "put the drive that was there back",
		},
		"label gone": {func(n *node) string {
			hurt := testdev.File(n.t, testSlab)
			copyInto(n.t, hurt, n.files[1])
			f, err := os.OpenFile(hurt, os.O_WRONLY, 0)
			if err != nil {
				n.t.Fatal(err)
			}
			for _, off := range []int64{8, 512<<10 + 8, testSlab - 1<<20 + 8} {
				if _, err := f.WriteAt([]byte("spoilt"), off); err != nil {
					n.t.Fatal(err)
				}
			}
			if err := f.Close(); err != nil {
				n.t.Fatal(err)
			}
			return hurt
		}, "label is damaged", "put the drive that was there back"},
		"unreadable": {func(n *node) string {
			dead := testdev.File(n.t, testSlab)
			dev := testdev.LoopOver(n.t, dead, 512)
			if err := os.Truncate(dead, 0); err != nil {
				n.t.Fatal(err)
			}
			return dev
		}, "input/output error", "plug the drive in"},
	} {
		t.Run(name, func(t *testing.T) {
			n := newNode(t)
			keys := keysOf("k", 12)
			if bad := n.store(keys...); len(bad) > 0 {
				t.Fatalf("store: %v", bad)
			}
			lost := n.on("s1", keys...)
			n.end()
			link := n.cfg.Slabs[1].Device
			was, err := os.Readlink(link)
			if err != nil {
				t.Fatal(err)
			}
			now := tt.spoil(n)
			before, _ := os.ReadFile(now)
			relink(t, link, now)
			n.start()
			log := n.log.String()
			for _, want := range []string{"level=ERROR", "slab is missing", "slab=s1", link, tt.reason, tt.todo} {
				if !strings.Contains(log, want) {
					t.Errorf("the log does not say %q: %s", want, log)
				}
			}
			if s := n.status().Slabs[1]; s.Health != "missing" || !strings.Contains(s.Reason, tt.reason) || !strings.Contains(s.Reason, tt.todo) || s.Device != link {
				t.Errorf("status: %+v", s)
			}
			for k, got := range n.load(keys...) {
				if want := map[bool]api.Status{true: api.StatusUnavailable, false: api.StatusOK}[slices.Contains(lost, k)]; got != want {
					t.Errorf("load of %q: %v, want %v", k, got, want)
				}
			}
			if bad := n.store(keysOf("fresh", 4)...); len(bad) > 0 {
				t.Errorf("store: %v", bad)
			}
			n.end()
			if after, _ := os.ReadFile(now); !slices.Equal(before, after) {
				t.Error("the device was written to")
			}
			relink(t, link, was)
			n.start()
			for k, got := range n.load(append(keysOf("fresh", 4), keys...)...) {
				if got != api.StatusOK {
					t.Errorf("load of %q with the drive again: %v", k, got)
				}
			}
			n.end()
		})
	}
}

// The advice for a new drive works: it becomes the slab, and what the old one had is
// given up.
func TestReplacedDevice(t *testing.T) {
	n := newNode(t)
	keys := keysOf("k", 12)
	if bad := n.store(keys...); len(bad) > 0 {
		t.Fatalf("store: %v", bad)
	}
	lost := n.on("s1", keys...)
	n.end()
	relink(t, n.cfg.Slabs[1].Device, testdev.LoopOver(t, testdev.File(t, testSlab), 512))
	n.start()
	n.end()
	if _, err := slab.Init(n.cfg.Slabs[1].Device, slab.InitOptions{SlotSize: int64(n.cfg.Slabs[1].SlotSize)}); err != nil {
		t.Fatal(err)
	}
	n.start()
	if s := n.status().Slabs[1]; s.Health != "online" || s.Slots.Used != 0 {
		t.Errorf("status: %+v", s)
	}
	for k, got := range n.load(keys...) {
		if want := map[bool]api.Status{true: api.StatusMissing, false: api.StatusOK}[slices.Contains(lost, k)]; got != want {
			t.Errorf("load of %q: %v, want %v", k, got, want)
		}
	}
	n.end()
}

// relink makes a device's name one for another device.
func relink(t *testing.T, link, to string) {
	t.Helper()
	if err := os.Remove(link); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(to, link); err != nil {
		t.Fatal(err)
	}
}

func copyInto(t *testing.T, to, from string) {
	t.Helper()
	b, err := os.ReadFile(from)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to, b, 0o600); err != nil {
		t.Fatal(err)
	}
}
