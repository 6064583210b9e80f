// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"time"

	"golang.org/x/sys/unix"

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
	if err := d.openArena(); err != nil {
		return err
	}
	if err := d.openSlabs(); err != nil {
		return err
	}
	if err := d.checkMounts(); err != nil {
		return err
	}
	if err := d.openMeta(); err != nil {
		return err
	}
	if err := d.admitUnfit(); err != nil {
		return err
	}
	err := d.srv.Registry().Register(&ballastCollector{d.meta})
	if err != nil {
		return fmt.Errorf("register metrics: %w", err)
	}
	d.store, err = store.Open(ctx, d.storeOptions())
	if err != nil {
		return fmt.Errorf("open store: %w", err)
	}
	return nil
}

// openSlabs opens all slabs. A device that is away or dead does not keep the others
// from being served, nor does one that is unfit, if admitUnfit agrees; a wrong one, or
// one that somebody holds, is a mistake that is better not served around.
func (d *daemon) openSlabs() error {
	d.missing = map[string]error{}
	for _, s := range d.cfg.Slabs {
		file, err := openDevice(s)
		if err != nil && !slab.Gone(err) {
			return fmt.Errorf("slab %q: %w", s.Name, err)
		}
		if err == nil {
			err = d.openSlab(s, file)
		}
		switch {
		case err == nil:
		case slab.Gone(err):
			d.missing[s.Name] = err
		case slab.Unfit(err):
			d.missing[s.Name] = err
			d.unfit = append(d.unfit, unfitSlab{s, err})
		default:
			return err
		}
	}
	if len(d.missing) < len(d.cfg.Slabs) {
		return nil
	}
	first := d.cfg.Slabs[0]
	err := d.missing[first.Name]
	if !slab.Unfit(err) { // that would name the slab twice
		err = fmt.Errorf("slab %q: %w", first.Name, err)
	}
	if errors.Is(err, fs.ErrNotExist) {
		err = fmt.Errorf("%w; correct slabs.device, or make it: rawblockd init %s --size SIZE creates a file", err, first.Device)
	}
	if n := len(d.cfg.Slabs); n > 1 {
		err = fmt.Errorf("none of the %d slabs could be opened: %w", n, err)
	}
	return err
}

// openDevice claims the device of a slab.
func openDevice(s config.Slab) (*ioengine.File, error) {
	file, err := slab.OpenDevice(s.Device)
	if err != nil {
		return nil, err
	}
	if g := file.Geometry(); !g.Regular && g.Size == 0 { // what is left of a drive that has died, or a reader without a card
		return nil, errors.Join(fmt.Errorf("open device %q: it has no capacity: %w", s.Device, unix.ENOMEDIUM), file.Close())
	}
	return file, nil
}

// openSlab opens one slab on its device, or leaves neither open.
func (d *daemon) openSlab(s config.Slab, file *ioengine.File) (err error) {
	v := &device{name: s.Name, file: file}
	if v.engine, err = d.startEngine(s, file); err != nil {
		return errors.Join(err, file.Close())
	}
	v.slab, err = slab.Open(file, v.engine, slab.Options{
		Name: s.Name, SlotSize: int64(s.SlotSize), VerifyOff: s.Verify == "off", IOSize: int64(s.IOSize), Log: d.log,
	})
	if err != nil {
		return errors.Join(err, v.engine.Close(), file.Close())
	}
	d.mu.Lock()
	d.devices = append(d.devices, v)
	d.mu.Unlock()
	v.engine.logTo(d.log, s, file)
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
	if !found && len(d.unfit) > 0 {
		return d.unfit[0].err // nobody can have served it
	}
	for _, s := range d.cfg.Slabs {
		v := d.device(s.Name)
		if v == nil {
			continue // missing
		}
		if l := v.slab.Label(); !found && l.Mount > 0 {
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
	if why := openToOthers(m.Path); why != "" {
		d.log.Warn("configuration", "warning", "meta.path: "+why+": chmod o-rwx it")
	}
	return nil
}

// openToOthers says how every user of the host may read keys and what is known of them;
// "": they may not. Made by the daemon the directory is closed to them.
func openToOthers(path string) string {
	fi, err := os.Stat(path)
	if err != nil || fi.Mode().Perm()&0o005 == 0 {
		return ""
	}
	return fmt.Sprintf("its mode %04o lets every user of this host read the metadata in %s, keys among it", fi.Mode().Perm(), path)
}

func (d *daemon) storeOptions() store.Options {
	c := d.cfg
	o := store.Options{
		Meta: d.meta, DefaultTTL: c.Leases.DefaultTTL, MaxTTL: c.Leases.MaxTTL, MaxPinned: c.Leases.MaxPinned,
		MaxPayload: int64(c.Limits.Payload), MinFree: int64(c.Meta.MinFree), Buffers: d.arena, Now: time.Now, Log: d.log,
		SyncInterval: syncInterval, Progress: d.srv.SetProgress,
	}
	for _, s := range c.Slabs {
		c := store.SlabConfig{Name: s.Name, Device: s.Device, Relaxed: s.Durability == "relaxed", Missing: d.missing[s.Name]}
		if v := d.device(s.Name); v != nil {
			c.Slab = v.slab
		} else {
			c.Advice = missingAdvice(s.Device, c.Missing)
		}
		o.Slabs = append(o.Slabs, c)
	}
	o.Namespaces = seeds(c)
	return o
}
