// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/signal"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rawblockd/rawblockd/config"
)

// Once the metadata has failed, changes are refused and loads go on. The store
// is never opened again in this process: what Pebble has in memory can no
// longer be trusted. When the file system works again the daemon stops and
// becomes a new process.

// probeEvery is how often the file system is tried, and so the least time
// between two restarts.
const probeEvery = 5 * time.Second

// probeBytes is more than what a file system keeps for its own small writes.
const probeBytes = 1 << 20

// errRestart ends a daemon that wants to be started again.
var errRestart = errors.New("the metadata file system works again: restarting")

// metaFatal is meta.Options.Fatal, which is called once.
func (d *daemon) metaFatal(reason string) {
	d.metaWhy = reason
	d.srv.SetFailed(reason)
	close(d.metaFailed)
}

// outlast serves loads until the file system works again, or ctx ends.
func (d *daemon) outlast(ctx context.Context) error {
	d.log.Error("metadata failed: changes are refused, loads go on; the daemon restarts by itself when the metadata's file system works again",
		"reason", d.metaWhy, "path", d.cfg.Meta.Path, "advice", "free space on that file system, or repair it")
	d.outlasted = true
	said := ""
	tick := time.NewTicker(d.probeEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-d.broken:
			return err
		case <-d.hangups:
			d.reload(ctx) // which says that it cannot
			continue
		case <-tick.C:
		}
		what, err := "the metadata's file system does not work yet", d.probe()
		if err == nil {
			what, err = "the metadata's file system works again, but with this configuration the daemon would not start: correct it", d.startable()
		}
		if err == nil {
			return errRestart
		}
		if why := oneLine(err); why != said {
			d.log.Warn(what, "err", why)
			said = why
		}
	}
}

// startable tells whether another process could begin with what the configuration says
// now: somebody may have changed it for the next reload, and left a fault in it. What
// serves loads must not make way for what does not start.
func (d *daemon) startable() error {
	if d.load == nil {
		return nil
	}
	_, err := d.load()
	return err
}

// probeMeta writes, syncs and removes a file beside the metadata.
func probeMeta(m config.Meta) error {
	free, err := freeSpace(m.Path)
	if err != nil {
		return err
	}
	if free < int64(m.MinFree) {
		return fmt.Errorf("%s has %s free, meta.min_free is %v: free some space", m.Path, size(free), m.MinFree)
	}
	f, err := os.CreateTemp(m.Path, "probe-*.tmp")
	if err != nil {
		return err
	}
	_, err = f.Write(make([]byte, probeBytes))
	return errors.Join(err, f.Sync(), f.Close(), os.Remove(f.Name()))
}

// becomeNew replaces this process by a new one of the same binary and
// arguments.
func becomeNew() error {
	binary, err := os.Executable()
	if err != nil {
		return err
	}
	signal.Ignore(unix.SIGHUP) // stays so until the new process takes it
	return unix.Exec(binary, os.Args, os.Environ())
}
