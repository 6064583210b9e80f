// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rawblockd/rawblockd/api"
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
	d.metaWhy.Store(&reason)
	close(d.metaFailed)
}

// honest answers /readyz with 503 once the metadata has failed: nobody should
// be sent here to store.
func (d *daemon) honest(h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if d.metaWhy.Load() == nil || r.URL.Path != "/readyz" {
			h.ServeHTTP(w, r)
			return
		}
		w.Header().Set("Content-Type", api.MediaJSON)
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = w.Write([]byte(`{"ready":false,"phase":"metadata_failed"}` + "\n")) // the code has said it
	})
}

// outlast serves loads until the file system works again, or ctx ends.
func (d *daemon) outlast(ctx context.Context) error {
	d.log.Error("metadata failed: changes are refused, loads go on; the daemon restarts when its file system works again",
		"reason", *d.metaWhy.Load(), "path", d.cfg.Meta.Path)
	tick := time.NewTicker(d.probeEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return nil
		case err := <-d.broken:
			return err
		case <-tick.C:
		}
		err := d.probe()
		if err == nil {
			return errRestart
		}
		d.log.Warn("metadata file system still fails", "err", err)
	}
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
	return unix.Exec(binary, os.Args, os.Environ())
}
