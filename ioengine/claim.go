// SPDX-License-Identifier: Apache-2.0

package ioengine

import (
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strings"

	"golang.org/x/sys/unix"
)

// O_EXCL on a block device says nothing of what lies under it. A loop device shows
// bytes that have another name, and whoever claimed them by that one must be met
// here, and keep meeting this claim:
//
//   - the backing file of a loop device is flocked shared, which excludes whoever
//     has the file itself (exclusively);
//   - a backing block device must be unclaimed when a loop device over it is opened
//     (O_EXCL cannot be shared by two loop devices over parts of it, so it is not kept);
//   - whoever opens a file, a device or a loop device asks whether another loop
//     device over the same bytes is claimed.

// span is a part of a device or file.
type span struct{ off, len int64 }

// whole is all of anything.
var whole = span{len: math.MaxInt64}

func (s span) overlaps(o span) bool { return s.off < o.off+o.len && o.off < s.off+s.len }

// claimBelow claims what lies under the block device, for as long as f is open.
func (f *File) claimBelow(rdev uint64) error {
	dir, err := filepath.EvalSymlinks(sysFolder(rdev))
	if errors.Is(err, os.ErrNotExist) || errors.Is(err, os.ErrPermission) {
		return nil // no sysfs here, not in it, or not for us
	}
	if err != nil {
		return err
	}
	return f.claimUnder(dir, span{len: sector * sysNumber(filepath.Join(dir, "size"))})
}

// claimUnder claims what lies under a part of the block device with this folder.
func (f *File) claimUnder(dir string, part span) error {
	if sysLine(filepath.Join(dir, "partition")) != "" {
		part.off += sector * sysNumber(filepath.Join(dir, "start"))
		return f.claimUnder(filepath.Dir(dir), part)
	}
	if l, ok := readLoop(filepath.Base(dir)); ok {
		part.off += l.part.off
		return f.claimBacking(&l, part)
	}
	below, err := filepath.Glob(filepath.Join(dir, "slaves/*"))
	if err != nil {
		return err
	}
	for _, link := range below {
		slave, err := filepath.EvalSymlinks(link)
		if err != nil {
			return err
		}
		if err := f.claimUnder(slave, span{len: sector * sysNumber(filepath.Join(slave, "size"))}); err != nil {
			return err
		}
	}
	return nil
}

// claimBacking claims what a loop device shows. What cannot be reached by its path
// (deleted, another mount namespace, not permitted) cannot be locked; then the
// kernel's list of locks says at least who has it now.
func (f *File) claimBacking(l *loopDevice, part span) error {
	var st unix.Stat_t
	err := unix.Stat(l.file, &st)
	switch {
	case err == nil && st.Mode&unix.S_IFMT == unix.S_IFBLK && (!l.known || st.Rdev == l.rdev):
		return f.claimDevice(l, &st, part)
	case err == nil && st.Mode&unix.S_IFMT == unix.S_IFREG && (!l.known || st.Dev == l.dev && st.Ino == l.ino):
		return f.claimFile(l, &st, part)
	}
	return l.lockedElsewhere()
}

func (f *File) claimDevice(l *loopDevice, st *unix.Stat_t, part span) error {
	fd, err := openHeld(l.file, unix.O_RDONLY|unix.O_EXCL|unix.O_CLOEXEC)
	if errors.Is(err, ErrHeld) {
		return &HeldError{Path: l.file, Err: err}
	}
	if err == nil {
		// Not kept: another part of it may be another slab. Who opens it whole
		// later looks for claimed loop devices over it.
		_ = unix.Close(fd)
	}
	if err := loopsFree(st, part, l.name); err != nil {
		return err
	}
	dir, err := filepath.EvalSymlinks(sysFolder(st.Rdev))
	if err != nil {
		return fmt.Errorf("look for what %s shows: %w", l.path(), err)
	}
	return f.claimUnder(dir, part)
}

func (f *File) claimFile(l *loopDevice, st *unix.Stat_t, part span) error {
	fd, err := openRetry(l.file, unix.O_RDONLY|unix.O_CLOEXEC)
	if err != nil {
		return l.lockedElsewhere()
	}
	f.claims = append(f.claims, fd)
	err = retryHeld(unix.EWOULDBLOCK, func() error { return unix.Flock(fd, unix.LOCK_SH|unix.LOCK_NB) })
	if errors.Is(err, ErrHeld) {
		return &HeldError{Path: l.file, Err: err}
	}
	if err != nil { // a file system without locks is no reason to refuse the device
		return l.lockedElsewhere()
	}
	return loopsFree(st, part, l.name)
}

// lockedElsewhere looks a backing file up in /proc/locks.
func (l *loopDevice) lockedElsewhere() error {
	if !l.known {
		return nil
	}
	err := retryHeld(unix.EWOULDBLOCK, func() error {
		locks, err := os.ReadFile("/proc/locks")
		if err == nil && locked(string(locks), l.dev, l.ino) {
			return unix.EWOULDBLOCK
		}
		return nil
	})
	if err != nil {
		return &HeldError{Path: l.file, Err: err}
	}
	return nil
}

// locked finds an exclusive flock in the text of /proc/locks:
//
//	1: FLOCK  ADVISORY  WRITE 4711 fe:00:1234 0 EOF
func locked(text string, dev, ino uint64) bool {
	id := fmt.Sprintf("%02x:%02x:%d", unix.Major(dev), unix.Minor(dev), ino)
	for line := range strings.Lines(text) {
		w := strings.Fields(line)
		if len(w) >= 6 && w[1] == "FLOCK" && w[3] == "WRITE" && w[5] == id {
			return true
		}
	}
	return false
}

// HeldError names what somebody else has: the device, or something that has the same
// bytes under another name. It is an ErrHeld.
type HeldError struct {
	Path string
	Err  error
}

// Error names what is held.
func (e *HeldError) Error() string {
	return fmt.Sprintf("%s, which has the same bytes: %v", e.Path, e.Err)
}

// Unwrap makes it an ErrHeld, and gives what the kernel said.
func (e *HeldError) Unwrap() []error { return []error{ErrHeld, e.Err} }
