// SPDX-License-Identifier: Apache-2.0

package slab

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"

	"golang.org/x/sys/unix"

	"github.com/rawblockd/rawblockd/ioengine"
)

// daemonName is what the kernel calls our process.
const daemonName = "rawblockd"

// servedElsewhere refuses a block device whose slab is open in the process that its
// label names, under a name that no claim covers: a file of another mount namespace
// behind a loop device, another path to the same disk.
//
// That the process runs says little, for numbers are used again and differ between
// containers. What counts is that it has something open that carries this very label.
// Only if we may not look does it count that it is called like ours.
func (h host) servedElsewhere(t target, dev ioengine.Device) error {
	copies, err := readLabels(dev)
	if err != nil {
		return nil // too small for a label
	}
	best, ok := bestLabel(copies)
	here, err := CurrentHolder()
	last := best.Label.Holder
	if !ok || err != nil || t.regular || last.BootID != here.BootID || last.PID <= 0 || last.PID == here.PID {
		return nil
	}
	proc := filepath.Join(h.proc, strconv.Itoa(last.PID))
	fds, err := h.readDir(filepath.Join(proc, "fd"))
	if errors.Is(err, os.ErrPermission) && readLine(filepath.Join(proc, "comm")) == daemonName {
		return fmt.Errorf("%w: %s holds %s, mounted by pid %d, and a %s of that number is running; stop it, or, if it serves something else, run this as root",
			ErrRefused, t.path, best.Label.Title(), last.PID, daemonName)
	}
	for _, fd := range fds { // none: not running any more
		path := filepath.Join(proc, "fd", fd.Name())
		if h.showsLabel(path, best.Label) {
			name, _ := os.Readlink(path) // as that process sees it
			return fmt.Errorf("%w: %s holds %s (incarnation %s), which pid %d has open as %s; stop that process first",
				ErrRefused, t.path, best.Label.Title(), UUID(best.Label.Incarnation), last.PID, name)
		}
	}
	return nil
}

// showsLabel reports whether a block device, or a file behind a loop device, carries
// this very label. A copy that is in use has been mounted since, and has another. A file that no loop device shows is a copy: it has no
// bytes in common with a block device.
func (h host) showsLabel(path string, this Label) bool {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return false
	}
	switch st.Mode & unix.S_IFMT {
	case unix.S_IFBLK:
	case unix.S_IFREG:
		if h.loops == nil {
			return false
		}
		if loops, err := h.loops(path); err != nil || len(loops) == 0 {
			return false
		}
	default:
		return false
	}
	f, err := os.Open(path)
	if err != nil {
		return false
	}
	defer func() { _ = f.Close() }()
	size, err := f.Seek(0, 2)
	if err != nil || size < dataOffset+endZone {
		return false
	}
	b := make([]byte, LabelSize)
	return slices.ContainsFunc(labelOffsets(size), func(off int64) bool {
		if _, err := f.ReadAt(b, off); err != nil {
			return false
		}
		l, err := DecodeLabel(b)
		return err == nil && l.Incarnation == this.Incarnation && l.Epoch == this.Epoch && l.Mount == this.Mount
	})
}
