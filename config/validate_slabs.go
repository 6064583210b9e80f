// SPDX-License-Identifier: Apache-2.0

package config

import (
	"fmt"
	"path/filepath"

	"golang.org/x/sys/unix"
)

const (
	minSlot    = 4 * KiB
	maxSlot    = 64 * MiB
	maxWorkers = 1024
	maxQueue   = 4096
	pieceSize  = MiB // of checksums, a format constant
)

func (c *Config) checkSlabs(fs *faults) {
	if len(c.Slabs) == 0 {
		fs.add("slabs", "there is none: add one with name and device")
	}
	names, devices := map[string]int{}, map[string]int{}
	for i, s := range c.Slabs {
		path := fmt.Sprintf("slabs[%d]", i)
		checkName(fs, path+".name", s.Name)
		if first, dup := names[s.Name]; dup && s.Name != "" {
			fs.add(path+".name", "%q is also the name of slabs[%d]: names must be unique", s.Name, first)
		} else {
			names[s.Name] = i
		}
		absolute(fs, path+".device", s.Device, false)
		dev := identity(s.Device)
		if first, dup := devices[dev]; dup && s.Device != "" {
			fs.add(path+".device", "%q is also the device of slabs[%d]: %q and %q would overwrite each other on %s: give each slab a device of its own",
				s.Device, first, c.Slabs[first].Name, s.Name, resolved(s.Device))
		} else {
			devices[dev] = i
		}
		c.checkSlab(fs, path, s)
	}
}

// identity tells devices apart whatever names they have: block devices by their
// numbers, files by where they lie. What cannot be looked at is told by name.
func identity(path string) string {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return resolved(path)
	}
	if st.Mode&unix.S_IFMT == unix.S_IFBLK {
		return fmt.Sprintf("block device %d:%d", unix.Major(st.Rdev), unix.Minor(st.Rdev))
	}
	return fmt.Sprintf("inode %d of %d:%d", st.Ino, unix.Major(st.Dev), unix.Minor(st.Dev))
}

// resolved returns path without symbolic links, as far as it exists.
func resolved(path string) string {
	path = filepath.Clean(path)
	if real, err := filepath.EvalSymlinks(path); err == nil {
		return real
	}
	if dir, err := filepath.EvalSymlinks(filepath.Dir(path)); err == nil {
		return filepath.Join(dir, filepath.Base(path))
	}
	return path
}

func (c *Config) checkSlab(fs *faults, path string, s Slab) {
	if s.SlotSize < minSlot || s.SlotSize > maxSlot || s.SlotSize%minSlot != 0 {
		fs.add(path+".slot_size", "%v is not allowed: want a multiple of 4KiB from 4KiB to 64MiB", s.SlotSize)
	}
	oneOf(fs, path+".durability", s.Durability, "sync", "relaxed")
	oneOf(fs, path+".verify", s.Verify, "always", "off")
	oneOf(fs, path+".engine", s.Engine, "auto", "pread", "uring")
	oneOf(fs, path+".discard", s.Discard, "off", "on_init", "on_free")
	if s.Durability == "relaxed" && s.Verify == "off" {
		fs.add(path+".verify", "off together with durability relaxed would serve wrong bytes after a crash: set verify: always or durability: sync")
	}
	between(fs, path+".workers", s.Workers, 1, maxWorkers)
	between(fs, path+".queue_depth", s.QueueDepth, 1, maxQueue)
	if s.IOSize < pieceSize || s.IOSize%pieceSize != 0 {
		fs.add(path+".io_size", "%v is not allowed: want a multiple of 1MiB", s.IOSize)
	}
	if least := max(2*c.Limits.Payload, s.IOSize); s.InflightBytes < least {
		fs.add(path+".inflight_bytes", "%v is too small: want at least %v, which is twice limits.payload and no less than io_size", s.InflightBytes, least)
	}
}
