// SPDX-License-Identifier: Apache-2.0

package ioengine

import (
	"errors"
	"fmt"
	"os"
	"sync"

	"golang.org/x/sys/unix"
)

// iovMax is the most parts that one system call takes (IOV_MAX).
const iovMax = 1024

// File is a block device or a regular file opened by Open. It implements
// Device.
type File struct {
	path     string // as asked for
	resolved string // without symbolic links
	geo      Geometry
	locked   bool  // flock held for life
	claims   []int // descriptors that hold what lies under the device

	// life is held for reading by every call that uses fd, and by Close for
	// writing: the number must not be somebody else's file while a call is on
	// its way to the kernel. Close therefore waits for I/O.
	life sync.RWMutex
	fd   int // -1 after Close

	flock sync.Mutex // one WithFlock at a time: a second flock on one descriptor is no lock
}

var _ Device = (*File)(nil)

// Path returns the path that Open was given: a by-id link says more than
// /dev/nvme1n1.
func (f *File) Path() string { return f.path }

// RealPath returns the path without symbolic links, as sysfs and blkid know it.
func (f *File) RealPath() string { return f.resolved }

// Geometry returns what the device said of itself when it was opened.
func (f *File) Geometry() Geometry { return f.geo }

// withFd calls fn with the descriptor, which stays open for as long.
func (f *File) withFd(fn func(fd int) error) error {
	f.life.RLock()
	defer f.life.RUnlock()
	if f.fd < 0 {
		return os.ErrClosed
	}
	return fn(f.fd)
}

// Preadv implements Device. A vector of any number of parts is taken; a short
// count means that the kernel stopped early.
func (f *File) Preadv(vec [][]byte, off int64) (int, error) {
	return f.move(Read, vec, off)
}

// Pwritev implements Device.
func (f *File) Pwritev(vec [][]byte, off int64) (int, error) {
	return f.move(Write, vec, off)
}

func (f *File) move(dir Dir, vec [][]byte, off int64) (int, error) {
	f.life.RLock()
	defer f.life.RUnlock()
	if f.fd < 0 {
		return 0, os.ErrClosed
	}
	done := 0
	for {
		part := vec[:min(len(vec), iovMax)]
		vec = vec[len(part):]
		n, err := syscallMove(f.fd, dir, part, off+int64(done))
		done += n
		if err != nil || len(vec) == 0 || int64(n) < vecLen(part) {
			return done, err
		}
	}
}

// syscallMove is one system call, repeated only if a signal came before it
// moved anything.
func syscallMove(fd int, dir Dir, vec [][]byte, off int64) (n int, err error) {
	for {
		if dir == Write {
			n, err = unix.Pwritev(fd, vec, off)
		} else {
			n, err = unix.Preadv(fd, vec, off)
		}
		if err != unix.EINTR {
			return max(n, 0), err // -1 with an error
		}
	}
}

// Flush implements Device: fdatasync, for a block device a cache flush. It is
// never repeated after an error: the kernel reports a lost write once (H15).
func (f *File) Flush() error {
	f.life.RLock()
	defer f.life.RUnlock()
	if f.fd < 0 {
		return os.ErrClosed
	}
	return unix.Fdatasync(f.fd)
}

// WithFlock runs fn while the device is flocked, so that udev, which skips
// locked devices, does not probe half-written labels. A regular file opened
// Exclusive is locked anyway. If somebody else keeps the lock for more than two
// seconds fn does not run and the error is ErrHeld.
func (f *File) WithFlock(fn func() error) error {
	if f.locked {
		return fn()
	}
	f.flock.Lock()
	defer f.flock.Unlock()
	if err := f.setFlock(unix.LOCK_EX | unix.LOCK_NB); err != nil {
		return fmt.Errorf("lock device %q: %w", f.path, err)
	}
	err := fn()
	if unlock := f.setFlock(unix.LOCK_UN); unlock != nil {
		err = errors.Join(err, fmt.Errorf("unlock device %q: %w", f.path, unlock))
	}
	return err
}

func (f *File) setFlock(how int) error {
	return retryHeld(unix.EWOULDBLOCK, func() error {
		f.life.RLock()
		defer f.life.RUnlock()
		if f.fd < 0 {
			return os.ErrClosed
		}
		return unix.Flock(f.fd, how)
	})
}

// Close implements Device. It waits for calls under way, but not for a Uring engine on
// it, which is to be closed first: its ring keeps the device open, and claimed. It gives up the claim
// or lock that Open took. A second call returns os.ErrClosed.
func (f *File) Close() error {
	f.life.Lock()
	defer f.life.Unlock()
	if f.fd < 0 {
		return fmt.Errorf("close device %q: %w", f.path, os.ErrClosed)
	}
	fd := f.fd
	f.fd = -1
	err := unix.Close(fd)
	for _, claim := range f.claims {
		err = errors.Join(err, unix.Close(claim))
	}
	f.claims = nil
	if err != nil {
		return fmt.Errorf("close device %q: %w", f.path, err)
	}
	return nil
}
