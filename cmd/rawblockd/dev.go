// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"

	"golang.org/x/sys/unix"

	"github.com/rawblockd/rawblockd/config"
	"github.com/rawblockd/rawblockd/slab"
)

// devSize is the slab of --dev: half of it, which leases may pin, holds the main
// job's batch of 32 payloads of 24 MiB.
const devSize = 2 * config.GiB

// devConfig is the configuration of --dev, with what the environment says.
func (o *serveFlags) devConfig(more ...config.Check) (*config.Config, error) {
	dir, err := filepath.Abs(o.dev)
	if err != nil {
		return nil, usagef("--dev %q: %w", o.dev, err)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, fmt.Errorf("--dev %q: %w", o.dev, err)
	}
	cfg, _, err := config.OverlaySources(config.Dev(dir), more...)
	if err != nil {
		return nil, usageError{err}
	}
	return cfg, nil
}

// prepareDev makes the slab on first use. It is made under another name and
// renamed, so that a start that was killed leaves nothing in the way of the
// next.
func prepareDev(cfg *config.Config, o serveFlags, sized bool) error {
	for _, s := range cfg.Slabs {
		fi, err := os.Stat(s.Device)
		switch {
		case err == nil && sized && fi.Size() != int64(o.size.bytes):
			return fmt.Errorf("--size %v: %s is there already with %v, and --size is for the first use: leave it out, or choose another --dev directory",
				o.size.bytes, s.Device, config.Size(fi.Size()))
		case err == nil:
			continue
		case !errors.Is(err, fs.ErrNotExist):
			return fmt.Errorf("--dev: %w", err)
		}
		err = makeSlab(s, int64(o.size.bytes))
		if errors.Is(err, unix.ENOSPC) {
			return fmt.Errorf("--dev: %w; free some space, or make a smaller slab with --size", err)
		}
		if err != nil {
			return fmt.Errorf("--dev: %w", err)
		}
	}
	return nil
}

func makeSlab(s config.Slab, size int64) error {
	tmp := s.Device + ".new"
	if err := os.Remove(tmp); err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if _, err := slab.Init(tmp, slab.InitOptions{SlotSize: int64(s.SlotSize), Name: s.Name, Size: size}); err != nil {
		return err
	}
	return os.Rename(tmp, s.Device)
}

// printDev says how to talk to the daemon.
func (c *cli) printDev(d *daemon) {
	addr, scheme := "unix:"+d.cfg.Listen.Unix, "http"
	if d.secrets.cert != nil {
		scheme = "https"
	}
	fmt.Fprintf(c.stdout, "rawblockd serves %s\n  socket  %s\n", d.cfg.Slabs[0].Device, addr)
	if a := address(d.listeners.http); a != "" {
		fmt.Fprintf(c.stdout, "  http    %s://%s\n", scheme, a)
	}
	if a := address(d.listeners.admin); a != "" {
		fmt.Fprintf(c.stdout, "  admin   %s://%s (health, metrics, status)\n", scheme, a)
	}
	fmt.Fprintf(c.stdout, "Try, in another shell:\n"+
		"  export RAWBLOCKD_ADDR=%s\n"+
		"  echo hello | rawblockd put greeting && rawblockd get greeting && rawblockd status\n"+
		"  curl --unix-socket %s http://localhost/v1/kv/default/greeting\n",
		addr, d.cfg.Listen.Unix)
}
