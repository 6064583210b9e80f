// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log/slog"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/rawblockd/rawblockd/config"
)

// TestReloadBesideFailedMetadata: a reload that the metadata cannot follow changes
// nothing, and one whose end is not known says so; the daemon goes on.
func TestReloadBesideFailedMetadata(t *testing.T) {
	more := func(c *config.Config) *config.Config {
		next := *c
		n := config.DefaultNamespace()
		n.Name, n.Slabs = "more", []string{"dev"}
		next.Namespaces = append([]config.Namespace{n}, c.Namespaces...)
		next.Log.Level = "error"
		return &next
	}
	for name, tt := range map[string]struct {
		hit  func() (fs vfs.FS, on *atomic.Bool, off func())
		want string
	}{
		"failed": {func() (vfs.FS, *atomic.Bool, func()) {
			fs, broken := failing()
			return fs, broken, func() { broken.Store(false) }
		}, refusal},
		"hangs": {hanging, "SIGHUP: the namespaces may be changed when the metadata answers again, nothing else was"},
	} {
		t.Run(name, func(t *testing.T) {
			c := testConfig(t, shortDir(t))
			log := newSignalWriter(tt.want)
			logger, level := newLogger(log, c.Log)
			d := newDaemon(c, logger, "")
			fs, on, off := tt.hit()
			d.metaOpen.FS, d.reloadWithin, d.probeEvery = fs, 100*time.Millisecond, time.Hour
			d.level, d.load = level, func() (setup, error) { return setup{more(c), &secrets{}}, nil }
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			up, ended := background(ctx, d, func() error { return nil })
			<-up
			on.Store(true)
			d.hangup()
			(&serving{t: t, log: log}).wait(log.seen)
			if level.Level() != slog.LevelInfo {
				t.Error("the log level was changed")
			}
			off()
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// hanging is a metadata disk that can be made to hang in whatever is written.
func hanging() (vfs.FS, *atomic.Bool, func()) {
	on, release := &atomic.Bool{}, make(chan struct{})
	return errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if on.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			<-release
		}
		return nil
	})), on, sync.OnceFunc(func() { close(release) })
}
