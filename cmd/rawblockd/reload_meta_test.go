// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"log/slog"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/client"
	"github.com/rawblockd/rawblockd/config"
	"github.com/rawblockd/rawblockd/tokens"
)

// TestReloadBesideFailedMetadata: a reload that the metadata cannot follow leaves the
// namespaces as they are, and one whose end is not known says so. Tokens are revoked
// and the log level is changed all the same; the daemon goes on.
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
		}, "SIGHUP: the namespaces were not changed"},
		"hangs": {hanging, "SIGHUP: the namespaces may be changed when the metadata answers again"},
	} {
		t.Run(name, func(t *testing.T) {
			c := testConfig(t, shortDir(t))
			log := newSignalWriter(tt.want)
			logger, level := newLogger(log, c.Log)
			d := newDaemon(c, logger, "")
			fs, on, off := tt.hit()
			d.metaOpen.FS, d.reloadWithin, d.probeEvery = fs, 100*time.Millisecond, time.Hour
			d.level, d.load = level, func() (setup, error) { return setup{more(c), &secrets{tokens: oneToken(t, "the-token-of-today")}}, nil }
			d.secrets = &secrets{tokens: oneToken(t, "the-token-of-before")}
			before := connectTo(t, c.Listen.Unix, "the-token-of-before")
			today := connectTo(t, c.Listen.Unix, "the-token-of-today")
			ctx, cancel := context.WithCancel(t.Context())
			defer cancel()
			up, ended := background(ctx, d, func() error { return nil })
			<-up
			if code(t, before) != "" || code(t, today) != api.CodeUnauthorized {
				t.Error("the daemon does not begin with its tokens")
			}
			on.Store(true)
			d.hangup()
			(&serving{t: t, log: log}).wait(log.seen)
			if level.Level() != slog.LevelError {
				t.Error("the log level was not changed")
			}
			if code(t, before) != api.CodeUnauthorized || code(t, today) != "" {
				t.Error("the tokens were not changed")
			}
			if said := log.String(); !strings.Contains(said, `changed="[log.level tokens: 1, 1 changed]"`) || !strings.Contains(said, `fault="namespaces: `) {
				t.Errorf("the log does not tell what was changed: %s", said)
			}
			if len(d.running.Namespaces) != len(c.Namespaces) {
				t.Error("the next reload would take the namespaces for changed")
			}
			off()
			cancel()
			if err := <-ended; err != nil {
				t.Error(err)
			}
		})
	}
}

// oneToken opens all namespaces.
func oneToken(t *testing.T, token string) *tokens.Set {
	t.Helper()
	set, err := tokens.Parse("tokens", []byte("- {name: a, token: "+token+", namespaces: ['*']}\n"))
	if err != nil {
		t.Fatal(err)
	}
	return set
}

func connectTo(t *testing.T, socket, token string) *client.Client {
	t.Helper()
	cl, err := client.New("unix:"+socket, "default", client.WithToken(token))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
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
