// SPDX-License-Identifier: Apache-2.0

package ioengine

import (
	"errors"
	"fmt"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// writable refuses a block device that the kernel writes nothing to. Opening one for
// writing succeeds, and then every write fails with EPERM.
func writable(fd int, path string) error {
	ro, err := unix.IoctlGetInt(fd, unix.BLKROGET)
	if err != nil || ro == 0 {
		return nil // a device that cannot say will say so when it is written
	}
	return readOnlyError(path)
}

func readOnlyError(path string) error {
	return fmt.Errorf("%w; %s", ErrReadOnly, ReadOnlyRemedy(path))
}

// ReadOnlyRemedy is what makes a block device writable.
func ReadOnlyRemedy(path string) string {
	if resolved, err := filepath.EvalSymlinks(path); err == nil {
		path = resolved
	}
	if disk := loopNameOf(path); disk != "" && sysLine(filepath.Join(sysBlock, disk, "ro")) == "1" && attachedReadOnly(disk) {
		// The kernel does not let go of this one.
		return fmt.Sprintf("it was attached so; to make it writable, run: losetup -d /dev/%s, and then losetup it again without -r", disk)
	}
	return "to make it writable, run: blockdev --setrw " + path
}

// loopNameOf returns the name of the attached loop device that a path is, or is a
// partition of, or "".
func loopNameOf(path string) string {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil || st.Mode&unix.S_IFMT != unix.S_IFBLK {
		return ""
	}
	dir, err := filepath.EvalSymlinks(sysFolder(diskOf(st.Rdev)))
	if name := filepath.Base(dir); err == nil && strings.HasPrefix(name, "loop") {
		return name
	}
	return ""
}

func attachedReadOnly(loop string) bool {
	fd, err := openRetry("/dev/"+loop, unix.O_RDONLY|unix.O_CLOEXEC)
	if err != nil {
		return false
	}
	defer func() { _ = unix.Close(fd) }()
	info, err := unix.IoctlLoopGetStatus64(fd)
	return err == nil && info.Flags&unix.LO_FLAGS_READ_ONLY != 0
}

// explainOpen adds the remedy to what the kernel says.
func explainOpen(path string, err error) error {
	var st unix.Stat_t
	statErr := unix.Stat(path, &st)
	device := statErr == nil && st.Mode&unix.S_IFMT == unix.S_IFBLK
	switch {
	case errors.Is(err, unix.EROFS) && device:
		return fmt.Errorf("%w: %w", readOnlyError(path), err)
	case errors.Is(err, unix.EACCES) && device:
		return fmt.Errorf("%w; run as root, or as a member of the group that owns the device (%s)", err, groupName(st.Gid))
	case errors.Is(err, unix.EACCES) && statErr == nil:
		return fmt.Errorf("%w; run as root, or as the user that owns the file (%s)", err, userName(st.Uid))
	case errors.Is(err, unix.EACCES):
		return fmt.Errorf("%w; run as root, or as a user who may enter the folders above it", err)
	case errors.Is(err, unix.EPERM) && device:
		return fmt.Errorf("%w; this container or service may not use the device: allow it there", err)
	}
	return err
}

func groupName(gid uint32) string {
	id := strconv.FormatUint(uint64(gid), 10)
	if g, err := user.LookupGroupId(id); err == nil {
		return g.Name
	}
	return "gid " + id
}

func userName(uid uint32) string {
	id := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return "uid " + id
}
