// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"log/slog"
	"path/filepath"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/rawblockd/rawblockd/client"
	"github.com/rawblockd/rawblockd/config"
)

// tightDisk is full as long as the ballast lies on it.
type tightDisk struct {
	vfs.FS
	avail atomic.Uint64
	full  atomic.Bool
}

func newTightDisk(ballast string) *tightDisk {
	d := &tightDisk{}
	d.FS = errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if !d.full.Load() || op.Kind != errorfs.OpFileWrite {
			return nil
		}
		if _, err := vfs.Default.Stat(ballast); err != nil {
			return nil
		}
		return fmt.Errorf("injected: %w", syscall.ENOSPC)
	}))
	return d
}

func (d *tightDisk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: d.avail.Load()}, nil
}

// TestBallastIsWatched: the daemon shows that the ballast is gone, and makes it
// again when there is room.
func TestBallastIsWatched(t *testing.T) {
	c := testConfig(t, shortDir(t))
	disk := newTightDisk(filepath.Join(c.Meta.Path, "ballast"))
	disk.avail.Store(1 << 30)
	log := newSignalWriter("has its ballast back")
	d := newDaemon(c, slog.New(slog.NewTextHandler(log, nil)), "")
	d.metaOpen.FS, d.ballastEvery = disk, 5*time.Millisecond
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	up, ended := background(ctx, d, func() error { return nil })
	<-up
	const whole = float64(config.MiB / 4)
	if got := gauge(t, d, "rawblockd_meta_ballast_bytes"); got != whole {
		t.Errorf("at first: got %v, want %v", got, whole)
	}
	cl, err := client.New("unix:"+c.Listen.Unix, "default")
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	disk.avail.Store(uint64(c.Meta.MinFree)) // enough for stores, too little for a ballast
	disk.full.Store(true)
	if _, err := cl.Put(t.Context(), "k", strings.NewReader("x"), 1, client.PutOptions{}); err != nil {
		t.Fatalf("store on the full disk: %v", err)
	}
	if got := gauge(t, d, "rawblockd_meta_ballast_bytes"); got != 0 {
		t.Errorf("given up: got %v, want 0", got)
	}
	disk.full.Store(false)
	disk.avail.Store(1 << 30)
	<-log.seen
	if got := gauge(t, d, "rawblockd_meta_ballast_bytes"); got != whole {
		t.Errorf("made again: got %v, want %v", got, whole)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

func gauge(t *testing.T, d *daemon, name string) float64 {
	t.Helper()
	families, err := d.srv.Registry().Gather()
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range families {
		if f.GetName() == name {
			return f.GetMetric()[0].GetGauge().GetValue()
		}
	}
	t.Fatalf("there is no metric %s", name)
	return 0
}
