// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rawblockd/rawblockd/config"
	"github.com/rawblockd/rawblockd/ioengine"
	"github.com/rawblockd/rawblockd/slab"
)

func (d *doctor) checkSlabs() {
	seen := map[[16]byte]string{}
	for _, s := range d.cfg.Slabs {
		d.of(s.Name, func() { d.checkSlab(s, seen) })
	}
	d.judgeLost(seen)
}

// checkSlab looks at one slab's device, and at its label if the device can be
// read.
func (d *doctor) checkSlab(s config.Slab, seen map[[16]byte]string) {
	_, err := os.Stat(s.Device)
	switch {
	case errors.Is(err, fs.ErrNotExist):
		d.fail("device", fmt.Sprintf("correct slabs.device (lsblk -o NAME,SIZE,MODEL,SERIAL shows what there is), or make a file: rawblockd init %s --size SIZE", s.Device), "%s is not there", s.Device)
		d.lose(s, err)
		return
	case err != nil:
		d.fail("device", "run this as the daemon's user, who must be able to reach it", "%s: %v", s.Device, bare(err))
		return
	}
	r, err := slab.Inspect(s.Device)
	if r.Geometry.Size == 0 && err != nil {
		remedy := "correct slabs.device"
		if errors.Is(err, fs.ErrPermission) {
			remedy = "run this as the daemon's user, and let that user use it: by its group, or by a udev rule"
		}
		d.fail("device", remedy, "%v", err)
		if g := r.Geometry; g.Block > 0 && !g.Regular {
			err = unix.ENOMEDIUM // opened, and without capacity
		}
		d.lose(s, err)
		return
	}
	d.checkDevice(s, r)
	d.checkDirect(s, r)
	if !r.Geometry.Regular {
		d.checkQueue(d.disk(r.RealPath), r)
	}
	if d.checkLabel(s, r, err, seen) {
		d.checkHolder(s, r)
	}
}

func (d *doctor) checkDevice(s config.Slab, r slab.Report) {
	const name = "device"
	g := r.Geometry
	what := "block device"
	if g.Regular {
		what = "regular file"
	}
	detail := fmt.Sprintf("%s: %s of %s", s.Device, what, size(g.Size))
	if r.Model != "" || r.Serial != "" {
		detail += fmt.Sprintf(" (%s, serial %s)", firstOf(r.Model, "no model"), firstOf(r.Serial, "none"))
	}
	if err := permitted(r.RealPath, unix.R_OK|unix.W_OK); err != nil {
		remedy := "run the daemon as a member of the group that owns it, or change the owner by a udev rule"
		if errors.Is(err, unix.EROFS) {
			remedy = "mount its file system writable"
		}
		d.fail(name, remedy, "%s; it cannot be opened for writing here: %v (%s)", detail, err, whose(r.RealPath))
		return
	}
	switch {
	case !g.Regular && d.disk(r.RealPath).line("ro") == "1":
		d.fail(name, ioengine.ReadOnlyRemedy(s.Device), "%s; it is read-only", detail)
	case g.Regular && sparse(s.Device) > 0:
		d.checkSparse(detail, s.Device, sparse(s.Device))
	case g.Regular:
		d.ok(name, "%s; for trying out: a device of its own is faster", detail)
	default:
		if stable := stableName(s.Device, r.RealPath); stable != "" {
			d.warn(name, "write device: "+stable, "%s; the name may be another disk's after the next boot", detail)
			return
		}
		d.ok(name, "%s", detail)
	}
}

// sparse returns how many bytes of a file have no place on the disk yet.
func sparse(path string) int64 {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return 0
	}
	return st.Size - 512*st.Blocks
}

// checkSparse: a store into a file with holes fails when its file system is
// full.
func (d *doctor) checkSparse(detail, path string, missing int64) {
	s, err := spaceAt(path)
	if err != nil || s.free >= missing {
		d.ok("device", "%s, %s of it not allocated yet", detail, size(missing))
		return
	}
	d.warn("device", "free space there, or run: fallocate -l SIZE "+path, "%s has holes of %s, but its file system has only %s free", detail, size(missing), size(s.free))
}

// stableName returns the by-id path of a device that was named in a way which
// depends on the order of discovery, or "".
func stableName(given, real string) string {
	if !strings.HasPrefix(filepath.Base(given), "nvme") && !strings.HasPrefix(filepath.Base(given), "sd") || filepath.Dir(given) != "/dev" {
		return ""
	}
	links, _ := filepath.Glob("/dev/disk/by-id/*")
	for _, l := range links {
		if at, err := filepath.EvalSymlinks(l); err == nil && at == real {
			return l
		}
	}
	return ""
}

func (d *doctor) checkDirect(s config.Slab, r slab.Report) {
	const name = "direct I/O"
	g := r.Geometry
	if !g.Direct {
		d.warn(name, "put the file on ext4 or XFS, or use a block device", "O_DIRECT is not in effect on this file system: the page cache takes memory and time")
		return
	}
	detail := fmt.Sprintf("O_DIRECT in effect; blocks of %d bytes, %d physical; memory aligned to %d", g.Block, g.Physical, g.MemAlign)
	if int64(s.SlotSize)%int64(g.Block) != 0 || g.Block > 64<<10 {
		d.fail(name, "use a device with blocks of at most 64 KiB that divide slot_size", "%s: slot_size %v cannot be kept on it", detail, s.SlotSize)
		return
	}
	d.ok(name, "%s", detail)
}

// checkLabel compares the label with the configuration; ok is false when there
// is no label to go on with.
func (d *doctor) checkLabel(s config.Slab, r slab.Report, err error, seen map[[16]byte]string) (ok bool) {
	const name = "label"
	l := r.Label
	switch {
	case errors.Is(err, slab.ErrNoLabel):
		d.checkUnlabelled(s, r)
		d.lose(s, err)
		return false
	case err != nil:
		d.fail(name, "see rawblockd inspect "+s.Device, "%v", err)
		d.lose(s, err)
		return false
	}
	d.slots += int64(l.SlotCount)
	what := fmt.Sprintf("%s, incarnation %s, %s slots of %s", l.Title(), slab.UUID(l.Incarnation), count(l.SlotCount), config.Size(l.SlotSize))
	if first, dup := seen[l.Incarnation]; dup {
		d.fail(name, "take the copy out of slabs; two slabs with one incarnation are never served together", "%s: slab %s has the same incarnation, so one is a copy of the other", what, first)
		return false
	}
	seen[l.Incarnation] = s.Name
	if l.Mount > 0 {
		d.mounted = append(d.mounted, s.Name)
	}
	if l.SlotSize != int64(s.SlotSize) {
		d.fail(name, fmt.Sprintf("set slot_size: %s, or lose all its data with: rawblockd init %s --slot-size %s --wipe", config.Size(l.SlotSize), s.Device, s.SlotSize),
			"slot_size is %v in the configuration, but %s on the label", s.SlotSize, config.Size(l.SlotSize))
		return true
	}
	bad := 0
	for _, c := range r.Copies {
		if c.Err != nil || c.Label.Incarnation != l.Incarnation {
			bad++
		}
	}
	if bad > 0 {
		d.warn(name, "nothing: the next start rewrites them; if it comes back, see dmesg for errors of the device", "%s; %d of its %d copies are bad", what, bad, len(r.Copies))
		return true
	}
	d.ok(name, "%s; slot_size is the configuration's", what)
	return true
}

// checkUnlabelled says what init would find.
func (d *doctor) checkUnlabelled(s config.Slab, r slab.Report) {
	const name = "label"
	d.slots += r.Geometry.Size / int64(s.SlotSize)
	survey, _ := slab.Survey(s.Device) // what it could not look at, init will say
	init := fmt.Sprintf("rawblockd init %s --slot-size %v", s.Device, s.SlotSize)
	if held := survey.Contents(); len(held) > 0 {
		d.fail(name, "correct slabs.device, or destroy it: "+init+" --wipe", "it is no slab; it holds %s", strings.Join(held, "; "))
		return
	}
	d.fail(name, init, "it is no slab yet, and it is blank")
}

// checkHolder: a slab is served by one daemon, which has claimed its device.
func (d *doctor) checkHolder(s config.Slab, r slab.Report) {
	const name = "holder"
	if health, ok := d.own.serves(r.Label); ok {
		if strings.HasPrefix(health, "missing") {
			d.warn(name, "restart the daemon", "the device is there, but the daemon of this configuration (%s) started without it", d.own)
			return
		}
		if health != "online" {
			d.warn(name, "see rawblockd status, and dmesg for errors of the device", "the daemon of this configuration (%s) has it, and says %s", d.own, health)
			return
		}
		d.ok(name, "the daemon of this configuration (%s) serves it", d.own)
		return
	}
	switch err := slab.Claimable(s.Device); {
	case errors.Is(err, ioengine.ErrHeld):
		d.fail(name, "stop who has it; if it is this configuration's daemon, which does not answer on listen.unix, all is well", "%v", err)
	case err != nil:
		d.fail(name, "correct slabs.device", "%v", err)
	default:
		d.ok(name, "free; mounted %d times, last by %s", r.Label.Mount, r.Label.Holder)
	}
}
