// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"time"

	"github.com/rawblockd/rawblockd/config"
	"github.com/rawblockd/rawblockd/ioengine"
	"github.com/rawblockd/rawblockd/meta"
	"github.com/rawblockd/rawblockd/slab"
	"github.com/rawblockd/rawblockd/store"
)

// syncInterval is how much of the past a crash may cost a relaxed slab.
const syncInterval = 100 * time.Millisecond

// open opens what lies under the store, and the store. Devices come first,
// because claiming them and reading their labels writes nothing: a wrong path,
// a held device or a wrong geometry is refused before there is even a metadata
// directory. After an error stop closes what was opened.
func (d *daemon) open(ctx context.Context) error {
	for _, n := range d.cfg.Notes() {
		d.log.Info("configuration", "note", n)
	}
	for _, s := range d.cfg.Slabs {
		if err := d.openSlab(s); err != nil {
			return err
		}
	}
	if err := d.checkMounts(); err != nil {
		return err
	}
	if err := d.openMeta(); err != nil {
		return err
	}
	err := d.srv.Registry().Register(&ballastCollector{d.meta})
	if err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	if d.arena, err = ioengine.NewArena(int64(d.cfg.Limits.StreamBytes)); err != nil {
		return fmt.Errorf("limits.stream_bytes %v: %w", d.cfg.Limits.StreamBytes, err)
	}
	d.store, err = store.Open(ctx, d.storeOptions())
	if err != nil {
		return fmt.Errorf("open store: %w", err)
	}
	return nil
}

func (d *daemon) openSlab(s config.Slab) error {
	file, err := slab.OpenDevice(s.Device)
	if errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("slab %q: %w; correct slabs.device, or make it: rawblockd init %s --size SIZE creates a file", s.Name, err, s.Device)
	}
	if err != nil {
		return fmt.Errorf("slab %q: %w", s.Name, err)
	}
	v := &device{name: s.Name, file: file}
	name, _ := s.ResolveEngine()
	v.engine = ioengine.NewPread(file, d.timings.observe(s.Name, name, ioengine.PreadOptions{Workers: s.Workers, InflightBytes: int64(s.InflightBytes)}))
	d.mu.Lock()
	d.devices = append(d.devices, v)
	d.mu.Unlock()
	v.slab, err = slab.Open(file, v.engine, slab.Options{
		Name: s.Name, SlotSize: int64(s.SlotSize), VerifyOff: s.Verify == "off", IOSize: int64(s.IOSize), Log: d.log,
	})
	if err != nil {
		return err
	}
	if g := file.Geometry(); !g.Direct {
		d.log.Warn("O_DIRECT is not in effect: this file system refuses it, the page cache is in the way", "slab", s.Name, "device", s.Device)
	}
	return nil
}

// checkMounts refuses slabs that were mounted with metadata that is not there,
// before that is made anew. What the metadata says of slabs that it knows is the
// store's to judge.
func (d *daemon) checkMounts() error {
	found, err := meta.Exists(d.metaOpen.FS, d.cfg.Meta.Path)
	if err != nil {
		return metaAdvice(err)
	}
	for _, s := range d.cfg.Slabs {
		l := d.device(s.Name).slab.Label()
		if !found && l.Mount > 0 {
			return fmt.Errorf("%w: slab %q on %s (%s) was mounted %d times, but there is no metadata at meta.path %q: "+
				"the metadata was lost or meta.path is wrong; set meta.path to the directory that was used with this device, or begin anew: rawblockd init %[3]s --wipe",
				store.ErrMount, s.Name, s.Device, slab.UUID(l.Incarnation), l.Mount, d.cfg.Meta.Path)
		}
	}
	return nil
}

// metaAdvice adds what to do about metadata that cannot be opened.
func metaAdvice(err error) error {
	switch {
	case errors.Is(err, meta.ErrHeld):
		return fmt.Errorf("meta.path: %w; stop that daemon, or change meta.path", err)
	case errors.Is(err, meta.ErrForeign):
		return fmt.Errorf("meta.path: %w; nothing was changed; set meta.path to an empty directory, or to the one that was used with these slabs", err)
	case errors.Is(err, meta.ErrDamaged):
		return fmt.Errorf("meta.path: %w; bring its files back, or begin anew: move the directory away and run rawblockd init DEVICE --wipe for every slab", err)
	}
	return fmt.Errorf("meta.path: %w", err)
}

func (d *daemon) openMeta() error {
	m, o := d.cfg.Meta, d.metaOpen
	o.Path, o.CacheSize, o.MinFree = m.Path, int64(m.CacheSize), int64(m.MinFree)
	o.Log, o.Fatal = d.log, d.metaFatal
	db, err := meta.Open(o)
	if err != nil {
		return metaAdvice(err)
	}
	d.meta = db
	return nil
}

func (d *daemon) storeOptions() store.Options {
	c := d.cfg
	o := store.Options{
		Meta: d.meta, DefaultTTL: c.Leases.DefaultTTL, MaxTTL: c.Leases.MaxTTL, MaxPinned: c.Leases.MaxPinned,
		MaxPayload: int64(c.Limits.Payload), MinFree: int64(c.Meta.MinFree), Buffers: d.arena, Now: time.Now, Log: d.log,
		SyncInterval: syncInterval, Progress: d.srv.SetProgress,
	}
	for _, s := range c.Slabs {
		o.Slabs = append(o.Slabs, store.SlabConfig{Slab: d.device(s.Name).slab, Relaxed: s.Durability == "relaxed"})
	}
	o.Namespaces = seeds(c)
	return o
}
