// SPDX-License-Identifier: Apache-2.0

package slab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"github.com/rawblockd/rawblockd/ioengine"
)

// inUse refuses a target that somebody uses right now; --wipe is no answer to that.
func (h host) inUse(t target) error {
	mounts, err := h.mounts()
	if err != nil {
		return err
	}
	if err := h.loopBacked(t, mounts); err != nil || t.regular {
		return err
	}
	if err := h.claimed(t.path, t.sysdir, t.devno, mounts); err != nil {
		return err
	}
	return h.partitioned(t, mounts)
}

// claimed refuses what is mounted, swapped to, or part of something larger.
func (h host) claimed(name, sysdir, devno string, mounts []mount) error {
	if point := systemOn(mounts, name, devno); point != "" {
		return systemDisk(name + " is mounted on " + point)
	}
	for _, m := range mounts {
		if m.devno == devno || m.source == name {
			return fmt.Errorf("%w: %s is mounted on %s; if nothing needs it, run: umount %s", ErrRefused, name, m.point, quote(m.point))
		}
	}
	if h.swap(name) {
		return fmt.Errorf("%w: %s is in use as swap; run: swapoff %s", ErrRefused, name, quote(name))
	}
	holders, err := os.ReadDir(filepath.Join(sysdir, "holders"))
	if err != nil && !errors.Is(err, os.ErrNotExist) {
		return fmt.Errorf("look for holders of %s: %w", name, err)
	}
	for _, holder := range holders {
		if point := systemOn(mounts, "/dev/"+holder.Name(), readLine(filepath.Join(sysdir, "holders", holder.Name(), "dev"))); point != "" {
			return systemDisk(fmt.Sprintf("%s is part of /dev/%s, which is mounted on %s", name, holder.Name(), point))
		}
	}
	if len(holders) > 0 {
		first := holders[0].Name()
		return fmt.Errorf("%w: %s is part of /dev/%s; run: %s", ErrRefused, name, first, h.release(first))
	}
	return nil
}

// systemOn returns where the running system has a device mounted, or "": no command
// makes such a one free.
func systemOn(mounts []mount, name, devno string) (point string) {
	for _, m := range mounts {
		switch m.point {
		case "/", "/usr", "/boot", "/boot/efi":
			if m.source == name || devno != "" && m.devno == devno {
				return m.point
			}
		}
	}
	return ""
}

func systemDisk(why string) error {
	return fmt.Errorf("%w: %s: it is the system's disk; name another device (lsblk -o NAME,SIZE,MODEL,MOUNTPOINTS shows them)", ErrRefused, why)
}

// release returns the command that stops a holder.
func (h host) release(holder string) string {
	dir := filepath.Join(h.sys, "class/block", holder)
	if name := readLine(filepath.Join(dir, "dm/name")); name != "" {
		return "dmsetup remove " + quote(name)
	}
	if exists(filepath.Join(dir, "md")) {
		return "mdadm --stop /dev/" + holder
	}
	return "lsblk /dev/" + holder + " (and stop what it belongs to)"
}

// partitioned refuses a disk whose partitions the kernel knows: a slab on the whole
// would lie under all of them.
func (h host) partitioned(t target, mounts []mount) error {
	found, err := partitions(t)
	if err != nil {
		return err
	}
	for _, p := range found {
		dir := filepath.Join(t.sysdir, filepath.Base(p))
		if err := h.claimed(p, dir, readLine(filepath.Join(dir, "dev")), mounts); err != nil {
			return err
		}
	}
	if len(found) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s has partitions (%s); name one of them, or delete them all with: sfdisk --delete %s",
		ErrRefused, t.path, strings.Join(found, ", "), quote(t.path))
}

// partitions returns the paths of a disk's partitions.
func partitions(t target) ([]string, error) {
	entries, err := os.ReadDir(t.sysdir)
	if err != nil {
		return nil, fmt.Errorf("look for partitions of %s: %w", t.path, err)
	}
	var found []string
	for _, e := range entries {
		if exists(filepath.Join(t.sysdir, e.Name(), "partition")) {
			found = append(found, "/dev/"+e.Name())
		}
	}
	return found, nil
}

// loopBacked refuses a file or device that a loop device shows to somebody else.
func (h host) loopBacked(t target, mounts []mount) error {
	if h.loops == nil {
		return nil
	}
	loops, err := h.loops(t.path)
	if err != nil {
		return err
	}
	for _, loop := range loops {
		dir := filepath.Join(h.sys, "class/block", filepath.Base(loop))
		if err := h.claimed(loop, dir, readLine(filepath.Join(dir, "dev")), mounts); err != nil {
			return fmt.Errorf("%s is attached as %s: %w", t.path, loop, err)
		}
	}
	if len(loops) == 0 {
		return nil
	}
	return fmt.Errorf("%w: %s is attached as %s; run: losetup -d %s", ErrRefused, t.path, strings.Join(loops, ", "), strings.Join(loops, " "))
}

// mount is one line of mountinfo.
type mount struct{ devno, point, source string }

// mounts reads /proc/self/mountinfo. Some file systems show a device number of their
// own there, so the source counts as well.
func (h host) mounts() ([]mount, error) {
	b, err := os.ReadFile(filepath.Join(h.proc, "self/mountinfo"))
	if err != nil {
		return nil, fmt.Errorf("look for mounts: %w", err)
	}
	var all []mount
	for line := range strings.Lines(string(b)) {
		before, after, ok := strings.Cut(line, " - ")
		left, right := strings.Fields(before), strings.Fields(after)
		if !ok || len(left) < 5 || len(right) < 2 {
			continue
		}
		m := mount{devno: left[2], point: unescape(left[4]), source: unescape(right[1])}
		if real, err := filepath.EvalSymlinks(m.source); err == nil {
			m.source = real
		}
		all = append(all, m)
	}
	return all, nil
}

// unescape undoes the kernel's octal escapes of blanks in /proc files.
func unescape(s string) string {
	var b strings.Builder
	for i := 0; i < len(s); i++ {
		if s[i] == '\\' && i+3 < len(s) {
			if c, err := strconv.ParseUint(s[i+1:i+4], 8, 8); err == nil {
				b.WriteByte(byte(c))
				i += 3
				continue
			}
		}
		b.WriteByte(s[i])
	}
	return b.String()
}

func (h host) swap(path string) bool {
	b, err := os.ReadFile(filepath.Join(h.proc, "swaps"))
	if err != nil {
		return false // no swap in this kernel; O_EXCL would find it anyway
	}
	for line := range strings.Lines(string(b)) {
		if f := strings.Fields(line); len(f) > 0 && unescape(f[0]) == path {
			return true
		}
	}
	return false
}

// explainHeld adds to ErrHeld who mounted the slab on the device, if there is one.
func explainHeld(path string, err error) error {
	if !errors.Is(err, ioengine.ErrHeld) {
		return err
	}
	look := path
	var held *ioengine.HeldError
	if errors.As(err, &held) && exists(held.Path) {
		look = held.Path // whoever has it does not have the device that was named
	}
	r, inspectErr := Inspect(path)
	if inspectErr != nil {
		return fmt.Errorf("%w: %w; to see who it is, run: fuser -v %s", ErrRefused, err, quote(look))
	}
	return fmt.Errorf("%w: %w: %s (incarnation %s), mounted by %s; to see all who have it open, run: fuser -v %s",
		ErrRefused, err, r.Label.Title(), UUID(r.Label.Incarnation), r.Label.Holder, quote(look))
}
