// SPDX-License-Identifier: Apache-2.0

package ioengine

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

const (
	sysBlock   = "/sys/class/block" // one link per block device, partitions too
	sysDevices = "/sys/dev/block"   // the same by "major:minor"
	sector     = 512                // sysfs's unit, whatever the device's own is
)

// loopDevice is an attached loop device and what it shows.
type loopDevice struct {
	name     string // loop0
	file     string // the path it was attached by, as seen from here
	dev, ino uint64 // of the file; only if known
	rdev     uint64 // if the file is a block device
	known    bool
	part     span // of the file
}

func (l *loopDevice) path() string { return "/dev/" + l.name }

// readLoop looks at one loop device; false if nothing is attached. The path in sysfs
// may name another file here than where the device was attached (mount namespaces,
// renames), so the kernel is also asked for the inode, where it may be asked.
func readLoop(name string) (loopDevice, bool) {
	file := sysLine(filepath.Join(sysBlock, name, "loop/backing_file"))
	if file == "" {
		return loopDevice{}, false
	}
	dir := filepath.Join(sysBlock, name)
	l := loopDevice{name: name, file: file, part: span{
		off: sysNumber(filepath.Join(dir, "loop/offset")), len: sector * sysNumber(filepath.Join(dir, "size")),
	}}
	fd, err := openRetry(l.path(), unix.O_RDONLY|unix.O_CLOEXEC)
	if err != nil {
		return l, true
	}
	defer func() { _ = unix.Close(fd) }()
	if info, err := unix.IoctlLoopGetStatus64(fd); err == nil {
		l.dev, l.ino, l.rdev, l.known = info.Device, info.Inode, info.Rdevice, true
	}
	return l, true
}

// shows reports whether the bytes of a file, or of a block device or of what it is a
// partition of, are those that a loop device shows.
func (l *loopDevice) shows(st *unix.Stat_t) bool {
	dev, ino, rdev := l.dev, l.ino, l.rdev
	if !l.known {
		var named unix.Stat_t
		if err := unix.Stat(l.file, &named); err != nil {
			return false
		}
		dev, ino, rdev = named.Dev, named.Ino, named.Rdev
	}
	if st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return dev == st.Dev && ino == st.Ino
	}
	return rdev != 0 && (rdev == st.Rdev || diskOf(rdev) == st.Rdev || rdev == diskOf(st.Rdev))
}

// onDisk turns a part of a partition into the same part of its disk; anything else
// stays as it is.
func onDisk(rdev uint64, part span) span {
	dir, err := filepath.EvalSymlinks(sysFolder(rdev))
	if rdev == 0 || err != nil || sysLine(filepath.Join(dir, "partition")) == "" {
		return part
	}
	return span{
		off: part.off + sector*sysNumber(filepath.Join(dir, "start")),
		len: min(part.len, sector*sysNumber(filepath.Join(dir, "size"))),
	}
}

// diskOf returns the number of the disk that a partition lies on; of anything else
// its own.
func diskOf(rdev uint64) uint64 {
	dir, err := filepath.EvalSymlinks(sysFolder(rdev))
	if err != nil || sysLine(filepath.Join(dir, "partition")) == "" {
		return rdev
	}
	var major, minor uint32
	if _, err := fmt.Sscanf(sysLine(filepath.Join(filepath.Dir(dir), "dev")), "%d:%d", &major, &minor); err != nil {
		return rdev
	}
	return unix.Mkdev(major, minor)
}

// LoopsOver returns the loop devices that show a file, or a block device, a partition
// of it or the disk it is a partition of, under whatever name it was attached.
func LoopsOver(path string) ([]string, error) {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return nil, fmt.Errorf("look for loop devices over %q: %w", path, err)
	}
	loops, err := loopsOver(&st)
	if err != nil {
		return nil, fmt.Errorf("look for loop devices over %q: %w", path, err)
	}
	var paths []string
	for _, l := range loops {
		paths = append(paths, l.path())
	}
	return paths, nil
}

func loopsOver(st *unix.Stat_t) ([]loopDevice, error) {
	files, err := filepath.Glob(filepath.Join(sysBlock, "loop*/loop/backing_file"))
	if err != nil {
		return nil, err
	}
	var loops []loopDevice
	for _, f := range files {
		name := filepath.Base(filepath.Dir(filepath.Dir(f)))
		if l, ok := readLoop(name); ok && l.shows(st) {
			loops = append(loops, l)
		}
	}
	return loops, nil
}

// loopsFree fails with ErrHeld if somebody has claimed a loop device, other than
// self, that shows a part of a file or device: mounted it, or serves it. Who only
// looks at it does no harm.
func loopsFree(st *unix.Stat_t, part span, self string) error {
	loops, err := loopsOver(st)
	if err != nil {
		return fmt.Errorf("look for loop devices: %w", err)
	}
	for _, l := range loops {
		var loop unix.Stat_t
		if l.name == self || !onDisk(st.Rdev, part).overlaps(onDisk(l.rdev, l.part)) || unix.Stat(l.path(), &loop) != nil || loop.Rdev == st.Rdev {
			continue // a device without a node here is nobody's here
		}
		fd, err := openHeld(l.path(), unix.O_RDONLY|unix.O_EXCL|unix.O_CLOEXEC|unix.O_NOFOLLOW)
		if errors.Is(err, ErrHeld) {
			return &HeldError{Path: l.path(), Err: err}
		}
		if err == nil {
			_ = unix.Close(fd)
		}
		if err := loopsFree(&loop, whole, ""); err != nil {
			return err
		}
	}
	return nil
}

func sysFolder(rdev uint64) string {
	return filepath.Join(sysDevices, fmt.Sprintf("%d:%d", unix.Major(rdev), unix.Minor(rdev)))
}

// sysLine returns a small file of sysfs without its newline, or "".
func sysLine(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return strings.TrimSuffix(string(b), "\n")
}

// sysNumber returns a number that sysfs keeps, or 0.
func sysNumber(path string) int64 {
	n, err := strconv.ParseInt(strings.TrimSpace(sysLine(path)), 10, 64)
	if err != nil {
		return 0
	}
	return n
}
