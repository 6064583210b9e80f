// SPDX-License-Identifier: Apache-2.0

package ioengine

import (
	"errors"
	"fmt"
	"path/filepath"
	"time"

	"golang.org/x/sys/unix"
)

// A device that somebody else has is tried again for heldFor before it counts
// as held: a daemon that is being replaced needs a moment to let go, and udev
// claims a device it has just been told about.
const (
	heldFor   = 2 * time.Second
	heldRetry = 50 * time.Millisecond
)

// OpenOptions says how to open a device.
type OpenOptions struct {
	ReadOnly bool
	// Exclusive keeps everybody else out for as long as the File is open: a
	// block device by O_EXCL, which also fails while it is mounted, a regular
	// file, where O_EXCL means nothing, by flock. Somebody who has it already is
	// waited for up to two seconds, then Open fails with ErrHeld. The same bytes
	// under another name count: the file behind a loop device is claimed with it.
	Exclusive bool
}

// Open opens a block device or a regular file for direct I/O and asks it for
// its geometry. Symbolic links are followed. It never creates anything: O_CREAT
// together with O_EXCL would put a file where a device has gone (H24).
//
// A regular file on a file system without direct I/O (tmpfs) is opened for
// buffered I/O, with Geometry.Direct false. A block device is never.
func Open(path string, o OpenOptions) (*File, error) {
	f, err := open(path, o)
	if err != nil {
		return nil, fmt.Errorf("open device %q: %w", path, explainOpen(path, err))
	}
	return f, nil
}

func open(path string, o OpenOptions) (*File, error) {
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		return nil, err
	}
	var named unix.Stat_t
	if err := unix.Stat(resolved, &named); err != nil {
		return nil, err
	}
	regular, err := kind(named.Mode)
	if err != nil {
		return nil, err
	}
	// O_NOFOLLOW: what is opened is what was looked at.
	flags := unix.O_CLOEXEC | unix.O_NOFOLLOW | unix.O_RDWR
	if o.ReadOnly {
		flags = unix.O_CLOEXEC | unix.O_NOFOLLOW | unix.O_RDONLY
	}
	if o.Exclusive && !regular {
		flags |= unix.O_EXCL
	}
	fd, err := openDirect(resolved, flags, regular)
	if err != nil {
		return nil, err
	}
	f := &File{path: path, resolved: resolved, fd: fd}
	if err := f.prepare(o, regular, &named); err != nil {
		return nil, errors.Join(err, f.Close())
	}
	return f, nil
}

// prepare does what needs the open descriptor.
func (f *File) prepare(o OpenOptions, regular bool, named *unix.Stat_t) error {
	var opened unix.Stat_t
	if err := unix.Fstat(f.fd, &opened); err != nil {
		return err
	}
	if opened.Dev != named.Dev || opened.Ino != named.Ino || opened.Rdev != named.Rdev {
		return errors.New("replaced by another file while it was opened")
	}
	if !o.ReadOnly && !regular {
		if err := writable(f.fd, f.resolved); err != nil {
			return err
		}
	}
	if o.Exclusive {
		if err := f.claim(regular, &opened); err != nil {
			return err
		}
	}
	var err error
	f.geo, err = geometry(f.fd, f.resolved, regular)
	return err
}

// claim keeps everybody else out, under whatever name. A block device has been opened
// with O_EXCL already.
func (f *File) claim(regular bool, st *unix.Stat_t) error {
	if regular {
		if err := retryHeld(unix.EWOULDBLOCK, func() error { return unix.Flock(f.fd, unix.LOCK_EX|unix.LOCK_NB) }); err != nil {
			return err
		}
		f.locked = true
	} else if err := f.claimBelow(st.Rdev); err != nil {
		return err
	}
	return loopsFree(st, whole, "")
}

// kind tells a regular file from a block device and refuses the rest.
func kind(mode uint32) (regular bool, err error) {
	switch mode & unix.S_IFMT {
	case unix.S_IFREG:
		return true, nil
	case unix.S_IFBLK:
		return false, nil
	case unix.S_IFDIR:
		return false, errors.New("is a directory, want a block device or a regular file")
	case unix.S_IFCHR:
		return false, errors.New("is a character device, want a block device or a regular file")
	default:
		return false, fmt.Errorf("is of file type %#o, want a block device or a regular file", mode&unix.S_IFMT)
	}
}

// openDirect opens with O_DIRECT, or, where a file system refuses that for a
// regular file, without.
func openDirect(path string, flags int, regular bool) (fd int, err error) {
	fd, err = openHeld(path, flags|unix.O_DIRECT)
	if regular && errors.Is(err, unix.EINVAL) {
		return openRetry(path, flags)
	}
	return fd, err
}

// openHeld waits for a device that somebody has claimed.
func openHeld(path string, flags int) (fd int, err error) {
	err = retryHeld(unix.EBUSY, func() error {
		fd, err = openRetry(path, flags)
		return err
	})
	return fd, err
}

func openRetry(path string, flags int) (int, error) {
	for {
		fd, err := unix.Open(path, flags, 0)
		if err != unix.EINTR {
			return fd, err
		}
	}
}

// retryHeld repeats try for up to heldFor while it fails with held, which then
// becomes ErrHeld.
func retryHeld(held error, try func() error) error {
	for waited := time.Duration(0); ; waited += heldRetry {
		err := try()
		switch {
		case errors.Is(err, unix.EINTR):
			continue
		case !errors.Is(err, held):
			return err
		case waited >= heldFor:
			return fmt.Errorf("%w (still after %v: %w)", ErrHeld, heldFor, held)
		}
		time.Sleep(heldRetry)
	}
}
