// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/rawblockd/rawblockd/internal/testdev"
)

// TestDoctorOfALostSlab: what costs one slab of several is a warning, before the start
// and beside the daemon, exactly where the daemon does start; else it is a failure.
func TestDoctorOfALostSlab(t *testing.T) {
	n := newNode(t)
	n.end()
	link := n.cfg.Slabs[1].Device
	was, err := os.Readlink(link)
	if err != nil {
		t.Fatal(err)
	}
	short := testdev.File(t, testSlab)
	copyInto(t, short, n.files[1])
	if err := os.Truncate(short, testSlab/2); err != nil {
		t.Fatal(err)
	}
	empty := filepath.Join(n.dir, "empty")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	dead := testdev.File(t, testSlab)
	unreadable := testdev.LoopOver(t, dead, 512)
	if err := os.Truncate(dead, 0); err != nil {
		t.Fatal(err)
	}
	for name, tt := range map[string]struct {
		device, check string
		want          []string
	}{
		"away":       {filepath.Join(n.dir, "nothing"), "device", []string{"is not there", "plug the drive in", "rawblockd init " + link}},
		"blank":      {testdev.LoopOver(t, testdev.File(t, testSlab), 512), "label", []string{"it is blank", "put the drive that was there back"}},
		"empty file": {empty, "device", []string{"device is too small", "put the drive that was there back"}},
		"smaller":    {short, "label", []string{"it is truncated", "give the device its size back"}},
		"unreadable": {unreadable, "label", []string{"input/output error", "plug the drive in"}},
	} {
		t.Run(name, func(t *testing.T) {
			relink(t, link, tt.device)
			before := below(t, n.cfg.Meta.Path)
			want := append(tt.want, "the others are served without it, its keys are unavailable")
			e := examine(t, n.cfg)
			e.finding(t, "s1", tt.check).wants(t, verdictWarn, want...)
			if !e.Fit || below(t, n.cfg.Meta.Path) != before {
				t.Errorf("got %+v; the metadata changed: %v", e, below(t, n.cfg.Meta.Path) != before)
			}
			n.start() // as doctor says
			examine(t, n.cfg).finding(t, "s1", tt.check).wants(t, verdictWarn, want...)
			relink(t, link, was)
			examine(t, n.cfg).finding(t, "s1", "holder").wants(t, verdictWarn, "started without it", "restart the daemon")
			n.end()
			relink(t, link, tt.device)

			first := *n.cfg // a first start: nothing was served before
			first.Meta.Path = filepath.Join(t.TempDir(), "m")
			alone := first
			alone.Slabs, alone.Namespaces = first.Slabs[1:2], nil
			f := examine(t, &alone).finding(t, "s1", tt.check)
			f.wants(t, verdictFail)
			if strings.Contains(f.Detail, "the others are served") {
				t.Errorf("there are no others: %s", f.Detail)
			}
		})
	}
	relink(t, link, was)
}

// TestDoctorOfAnUnfitDeviceAtFirst: what was never served is more likely a wrong path,
// and serve refuses it.
func TestDoctorOfAnUnfitDeviceAtFirst(t *testing.T) {
	n := newNode(t)
	n.end()
	fresh := n.cfg.Slabs[1]
	fresh.Name, fresh.Device = "new", testdev.File(t, testSlab)
	n.cfg.Slabs = append(n.cfg.Slabs, fresh)
	e := examine(t, n.cfg)
	e.finding(t, "new", "label").wants(t, verdictFail, "it is blank", "rawblockd init "+fresh.Device)
	fresh.Device = filepath.Join(n.dir, "nothing")
	n.cfg.Slabs[3] = fresh
	examine(t, n.cfg).finding(t, "new", "device").wants(t, verdictWarn, "is not there", "the others are served without it", "correct slabs.device")
	serve(t, "--config", write(t, n.cfg)).end()
}
