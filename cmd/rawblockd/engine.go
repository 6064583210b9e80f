// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"fmt"
	"log/slog"
	"os"

	"github.com/rawblockd/rawblockd/config"
	"github.com/rawblockd/rawblockd/ioengine"
)

// slabEngine is the engine under a slab, and how it came to be.
type slabEngine struct {
	ioengine.Engine
	// why is the reason where the configuration left the choice, in one line.
	why string
	// registered tells whether the memory of payloads is registered with the kernel.
	// Where that failed, unregistered says why, in one line.
	registered   bool
	unregistered string
}

// fileWhy is why auto is pread on a file. On ext4 with direct I/O uring does at least as
// well there, but what a file system makes of a ring is its own affair, and a file is for
// trying things: it is not worth memory that is locked from the start.
const fileWhy = "a regular file, where auto stays with pread; engine: uring takes less CPU if the file system has direct I/O"

// startEngine starts the engine that the configuration wants on the device of a slab.
// auto is pread where there is no io_uring; uring refuses then.
func (d *daemon) startEngine(s config.Slab, file *ioengine.File) (slabEngine, error) {
	switch {
	case s.Engine == "pread":
		return d.startPread(s, file, ""), nil
	case s.Engine == "auto" && file.Geometry().Regular:
		return d.startPread(s, file, fileWhy), nil
	}
	e, err := d.startUring(s, file)
	switch {
	case err == nil:
		return e, nil
	case s.Engine == "auto":
		return d.startPread(s, file, "no io_uring here: "+oneLine(err)), nil
	}
	return slabEngine{}, fmt.Errorf("slab %q: engine uring on %s: %w; or set slabs.engine: auto, which serves on pread", s.Name, s.Device, err)
}

func (d *daemon) startPread(s config.Slab, file *ioengine.File, why string) slabEngine {
	o := ioengine.PreadOptions{Workers: s.Workers, InflightBytes: int64(s.InflightBytes)}
	o.Observe, o.ObserveFlush = d.timings.observe(s.Name, "pread")
	return slabEngine{Engine: ioengine.NewPread(file, o), why: why}
}

// startUring registers the stream arena, which all payloads of clients lie in: once
// for each slab, since each has a ring of its own.
func (d *daemon) startUring(s config.Slab, file *ioengine.File) (slabEngine, error) {
	o := ioengine.UringOptions{Depth: s.QueueDepth, InflightBytes: int64(s.InflightBytes), Memory: d.arena.Memory()}
	o.Observe, o.ObserveFlush = d.timings.observe(s.Name, "uring")
	u, err := ioengine.NewUring(file, o)
	if err != nil {
		d.timings.forget(s.Name, "uring")
		return slabEngine{}, err
	}
	e := slabEngine{Engine: u, registered: true}
	if err := u.Registered(); err != nil {
		e.registered, e.unregistered = false, oneLine(err)
	}
	if s.Engine == "auto" {
		e.why = "a block device, and this kernel gives io_uring"
	}
	return e, nil
}

// mayUring tells whether a slab may be served by io_uring, before anything was opened: a
// device that cannot be looked at may be.
func mayUring(s config.Slab) bool {
	if s.Engine != "auto" {
		return s.Engine == "uring"
	}
	fi, err := os.Stat(s.Device)
	return err != nil || !fi.Mode().IsRegular()
}

// logTo writes the line of the log that says which engine serves a slab. It is a
// warning where the engine is not what it could be.
func (e slabEngine) logTo(log *slog.Logger, s config.Slab, file *ioengine.File) {
	st := e.Stats()
	args := []any{"slab", s.Name, "device", s.Device, "engine", st.Name, "depth", st.Depth}
	level := slog.LevelInfo
	if st.Name == "uring" {
		args = append(args, "registered", e.registered)
	} else if e.why != "" && !file.Geometry().Regular {
		level = slog.LevelWarn
	}
	if e.why != "" {
		args = append(args, "why", e.why)
	}
	if e.unregistered != "" {
		level = slog.LevelWarn
		args = append(args, "unregistered", e.unregistered)
	}
	log.Log(context.Background(), level, "engine", args...)
}

// openArena makes the memory of payloads. It comes before the slabs, whose engines
// register it; so far it is address space alone.
func (d *daemon) openArena() (err error) {
	if d.arena, err = ioengine.NewArena(int64(d.cfg.Limits.StreamBytes)); err != nil {
		return fmt.Errorf("limits.stream_bytes %v: %w", d.cfg.Limits.StreamBytes, err)
	}
	return nil
}

// enters returns how many system calls of io_uring have submitted something.
func (e slabEngine) enters() (uint64, bool) {
	u, ok := e.Engine.(*ioengine.Uring)
	if !ok {
		return 0, false
	}
	return u.Enters(), true
}
