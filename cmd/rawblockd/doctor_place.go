// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"

	"github.com/rawblockd/rawblockd/config"
	"github.com/rawblockd/rawblockd/meta"
)

// checkMeta looks at the metadata's folder: what is in it, who has it, whether
// it can be written, and how much room there is.
func (d *doctor) checkMeta() {
	const name = "metadata"
	path := d.cfg.Meta.Path
	found, err := meta.Exists(nil, path)
	if err != nil {
		remedy := "see what is there, or change meta.path"
		if errors.Is(err, fs.ErrPermission) {
			remedy = "give it to the daemon's user: chown -R USER " + path
		}
		d.fail(name, remedy, "%v", metaAdvice(err))
		return
	}
	d.checkFolder("meta.path", path)
	if why := openToOthers(path); why != "" {
		d.warn("meta.path", "chmod o-rwx "+path, "%s", why)
	}
	who, held := meta.LockedBy(path)
	switch {
	case held && d.own != nil && strings.HasPrefix(who, "process "+strings.TrimPrefix(d.own.who, "pid ")+" "):
		d.ok(name, "%s: in use by the daemon of this configuration (%s)", path, d.own)
	case held:
		d.fail(name, "stop that daemon, or change meta.path", "%s is in use by %s", path, who)
	case !found && len(d.mounted) > 0:
		d.fail(name, "set meta.path to the directory that was used with these slabs, or begin anew: rawblockd init DEVICE --wipe for each",
			"%s: none there, but served before: %s; the metadata was lost, or meta.path is wrong", path, strings.Join(d.mounted, ", "))
	case found:
		d.ok(name, "%s: there", path)
	default:
		d.ok(name, "%s: none yet, the first start makes it", path)
	}
	d.checkMetaSpace(path)
}

// rowBytes is about what an entry's row takes on the disk, with what Pebble
// keeps until it has compacted it.
const rowBytes = 512

// checkMetaSpace compares what is free with meta.min_free, below which stores
// are refused, and with what the rows of all slots can take.
func (d *doctor) checkMetaSpace(path string) {
	const name = "metadata space"
	at, _ := nearest(path)
	s, err := spaceAt(at)
	if err != nil {
		d.warn(name, "compare df with meta.min_free", "%s: %v", at, err)
		return
	}
	least := int64(d.cfg.Meta.MinFree)
	rows := d.slots * rowBytes
	switch {
	case s.free < least:
		d.fail(name, "free space there, or lower meta.min_free", "%s has %s free, less than meta.min_free (%v): every store would be refused", at, size(s.free), d.cfg.Meta.MinFree)
	case s.kind == "memory":
		d.warn(name, "set meta.path to a directory on a disk", "%s is in memory: after a reboot the slabs are there and their metadata is gone", at)
	case s.kind == "a network file system" || s.kind == "a FUSE file system":
		d.warn(name, "set meta.path to a directory on a local disk", "%s is on %s: every store waits for it", at, s.kind)
	case s.kind == "an overlay":
		d.warn(name, "mount a volume at meta.path", "%s is a container's own layer, which is gone with the container, and the slabs refuse to start without it", at)
	case s.free < least+rows:
		d.warn(name, "give it more space, or lower the number of slots (a larger slot_size)",
			"%s has %s free; %s slots can take about %s of rows, beside meta.min_free (%v)", at, size(s.free), count(d.slots), size(rows), d.cfg.Meta.MinFree)
	default:
		d.ok(name, "%s of %s are free, meta.min_free is %v", size(s.free), size(s.total), d.cfg.Meta.MinFree)
	}
}

// checkFolder: the daemon can work in a folder, or make it.
func (d *doctor) checkFolder(key, path string) {
	at, exists := nearest(path)
	if !exists {
		if err := permitted(at, unix.W_OK|unix.X_OK); err != nil {
			d.fail(key, "make it, and give it to the daemon's user: install -d -o USER "+path, "%s is not there and cannot be made in %s: %v (%s)", path, at, err, whose(at))
			return
		}
		d.ok(key, "%s is not there; it can be made in %s", path, at)
		return
	}
	fi, err := os.Stat(path)
	switch {
	case err != nil:
		d.fail(key, "correct it, or give the daemon's user a way in", "%s: %v", path, bare(err))
	case !fi.IsDir():
		d.fail(key, "remove it, or change "+key, "%s is no directory", path)
	default:
		if err := permitted(path, unix.R_OK|unix.W_OK|unix.X_OK); err != nil {
			d.fail(key, "give it to the daemon's user: chown USER "+path, "%s cannot be written: %v (%s)", path, err, whose(path))
			return
		}
		if fi.Mode().Perm()&0o002 != 0 && fi.Mode()&os.ModeSticky == 0 {
			d.warn(key, "chmod o-w "+path, "%s can be changed by everybody (%s)", path, whose(path))
			return
		}
		d.ok(key, "%s, %s", path, whose(path))
	}
}

// checkSocket looks at the unix socket: its folder, its group, and who answers.
func (d *doctor) checkSocket() {
	l := d.cfg.Listen
	if l.Unix == "" {
		return
	}
	d.checkFolder("socket folder", filepath.Dir(l.Unix))
	d.checkGroup(l)
	const name = "listen.unix"
	err := checkStale(l.Unix)
	switch {
	case d.own != nil:
		d.ok(name, "%s: the daemon of this configuration (%s) answers", l.Unix, d.own)
	case errors.Is(err, unix.EACCES):
		d.warn(name, "become a member of its group, or run this as the daemon's user", "%s: this user may not connect, so who answers there is not known (%s)", l.Unix, whose(l.Unix))
	case err != nil:
		d.fail(name, "stop who has it, or change listen.unix", "%s: %v", l.Unix, err)
	default:
		d.ok(name, "%s is free", l.Unix)
	}
}

// checkGroup: the socket's mode is the guard of who may come in.
func (d *doctor) checkGroup(l config.Listen) {
	const name = "socket access"
	if l.UnixMode&0o006 != 0 {
		d.warn(name, `set unix_mode: "0660" and a unix_group`, "unix_mode %v lets every user of this host in", l.UnixMode)
		return
	}
	if l.UnixGroup == "" {
		d.ok(name, "unix_mode %v, group of the daemon", l.UnixMode)
		return
	}
	gid, err := strconv.Atoi(l.UnixGroup)
	if err != nil {
		g, lookup := user.LookupGroup(l.UnixGroup)
		if lookup != nil {
			d.fail(name, "make it (groupadd --system "+l.UnixGroup+"), or correct listen.unix_group", "the group %q is not there", l.UnixGroup)
			return
		}
		if gid, err = strconv.Atoi(g.Gid); err != nil {
			d.fail(name, "correct listen.unix_group", "the group %q has no number", l.UnixGroup)
			return
		}
	}
	mine, err := os.Getgroups()
	if os.Geteuid() != 0 && (err != nil || !slices.Contains(mine, gid) && gid != os.Getegid()) {
		d.fail(name, "make the daemon's user a member: usermod -aG "+l.UnixGroup+" USER", "this user is no member of the group %s, so it cannot give the socket to it", l.UnixGroup)
		return
	}
	d.ok(name, "unix_mode %v, group %s", l.UnixMode, l.UnixGroup)
}
