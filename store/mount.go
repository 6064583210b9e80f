// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"syscall"

	"github.com/rawblockd/rawblockd/ioengine"
	"github.com/rawblockd/rawblockd/meta"
	"github.com/rawblockd/rawblockd/slab"
)

// mount ties a slab to the metadata store: both carry a mount number, raised at
// each mount, the metadata's first. If they differ by more than one crash could
// explain, one of the two is another one's, or an older one, and serving would
// mix them up.
func (s *Store) mount(v *volume) error {
	next, err := s.nextMount(v)
	if err != nil {
		return err
	}
	if why, ro := v.slab.ReadOnly(); ro { // of a later release: served as it is, mounted by none
		s.o.Log.Warn("slab is read-only", "slab", v.slab.Name(), "why", why)
		return nil
	}
	b := s.o.Meta.NewBatch()
	b.SetMount(v.inc, next)
	if err := s.o.Meta.Commit(b, true); err != nil {
		return fmt.Errorf("mount slab %q: %w", v.slab.Name(), err)
	}
	err = v.slab.SetMount(next, holder())
	switch {
	case err == nil:
	case refusesWrites(err):
		// It may be near its end and can be read still. What label and metadata say
		// then is what a crash between the two leaves.
		v.slab.ServeOnly("its label could not be written: " + err.Error())
	default:
		return fmt.Errorf("mount slab %q: write label: %w", v.slab.Name(), err)
	}
	return nil
}

// refusesWrites tells errors of a device that does not take writes, at least not
// these, from those of a wrong one or of one that somebody else uses.
func refusesWrites(err error) bool {
	for _, e := range []error{ioengine.ErrReadOnly, syscall.EIO, syscall.EROFS, syscall.ENODEV, syscall.ENXIO} {
		if errors.Is(err, e) {
			return true
		}
	}
	return false
}

// describe notes what must be known of the slab while its device is away. What a
// later release added to that stays. Of all slabs it becomes durable as one, at the
// end of a start that went well: one that fails changes no names.
func (s *Store) describe(b *meta.Batch, v *volume) error {
	r, _, err := s.o.Meta.Slab(v.inc)
	if err != nil && !errors.Is(err, meta.ErrRow) {
		return err
	}
	r.Name, r.Device, r.SlotSize, r.Slots = v.slab.Name(), v.slab.Device(), v.slab.SlotSize(), v.slab.SlotCount()
	b.SetSlab(v.inc, r)
	// While a device is away its slab is known by its name: that is now this one's.
	for _, other := range s.records {
		if other.Name == r.Name && other.Inc != v.inc && !s.hasDevice(other.Inc) {
			other.Name = ""
			b.SetSlab(other.Inc, other)
		}
	}
	return nil
}

// nextMount decides whether label and metadata belong together.
func (s *Store) nextMount(v *volume) (uint64, error) {
	l := v.slab.Label().Mount
	p, known, err := s.o.Meta.Mount(v.inc)
	if err != nil {
		return 0, fmt.Errorf("mount slab %q: %w", v.slab.Name(), err)
	}
	if known && (p == l || p == l+1) || !known && l == 0 {
		return l + 1, nil
	}
	if !known {
		return 0, fmt.Errorf("%w: slab %q on %s (%s) was mounted %d times, but the directory at meta.path does not know it: "+
			"the metadata was lost or meta.path is wrong; set meta.path to the directory that was used with this device, or begin anew: rawblockd init %[3]s --wipe",
			ErrMount, v.slab.Name(), v.slab.Device(), v.inc, l)
	}
	return 0, fmt.Errorf("%w: slab %q on %s (%s) has mount number %d, the directory at meta.path has %d: "+
		"one of the two is an older copy; set meta.path to the directory last used with this device, or begin anew: rawblockd init %[3]s --wipe",
		ErrMount, v.slab.Name(), v.slab.Device(), v.inc, l, p)
}

// holder names this process in labels, for those who find the device held.
func holder() slab.Holder {
	host, err := os.Hostname()
	if err != nil {
		host = "unknown"
	}
	boot, err := os.ReadFile("/proc/sys/kernel/random/boot_id")
	if err != nil {
		boot = nil // not Linux, or /proc is hidden: the label then says less
	}
	return slab.Holder{Host: host, BootID: strings.TrimSpace(string(boot)), PID: os.Getpid()}
}

// incarnations of slabs that rows exist for but that are not open.
func (s *Store) absent() ([]meta.Incarnation, error) {
	all, err := s.o.Meta.Incarnations()
	if err != nil {
		return nil, err
	}
	var out []meta.Incarnation
	for _, inc := range all {
		open := false
		for _, v := range s.volumes {
			open = open || v.inc == inc
		}
		if !open {
			out = append(out, inc)
		}
	}
	return out, nil
}
