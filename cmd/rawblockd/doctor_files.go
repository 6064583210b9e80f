// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/user"
	"path/filepath"
	"strconv"
	"strings"

	"golang.org/x/sys/unix"
)

// readText returns a small file, or "" where there is none.
func readText(path string) string {
	b, err := os.ReadFile(path)
	if err != nil {
		return ""
	}
	return string(b)
}

// readLine returns a small file without surrounding blanks, or "".
func readLine(path string) string { return strings.Trim(readText(path), " \n\x00") }

// valueOf returns the word behind name in the text of a /proc file.
func valueOf(text, name string) string {
	for line := range strings.Lines(text) {
		if rest, ok := strings.CutPrefix(line, name); ok {
			if f := strings.Fields(rest); len(f) > 0 {
				return f[0]
			}
		}
	}
	return ""
}

// nearest returns path, or the closest folder above it that exists.
func nearest(path string) (at string, exists bool) {
	for at = filepath.Clean(path); ; at = filepath.Dir(at) {
		if _, err := os.Stat(at); err == nil || !errors.Is(err, fs.ErrNotExist) || at == filepath.Dir(at) {
			return at, at == filepath.Clean(path)
		}
	}
}

// permitted asks whether this process may use a path so.
func permitted(path string, mode uint32) error {
	return unix.Faccessat(unix.AT_FDCWD, path, mode, unix.AT_EACCESS)
}

// whose says who may do what with a path, as in "mode 0755 of root:disk".
func whose(path string) string {
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		return err.Error()
	}
	return fmt.Sprintf("mode %04o of %s:%s", st.Mode&0o7777, userOf(st.Uid), groupOf(st.Gid))
}

func userOf(uid uint32) string {
	id := strconv.FormatUint(uint64(uid), 10)
	if u, err := user.LookupId(id); err == nil {
		return u.Username
	}
	return id
}

func groupOf(gid uint32) string {
	id := strconv.FormatUint(uint64(gid), 10)
	if g, err := user.LookupGroupId(id); err == nil {
		return g.Name
	}
	return id
}

// space is what statfs says.
type space struct {
	total, free int64
	kind        string // of file system, where it matters; else ""
}

func spaceAt(path string) (space, error) {
	var st unix.Statfs_t
	if err := unix.Statfs(path, &st); err != nil {
		return space{}, err
	}
	return space{total: int64(st.Blocks) * st.Bsize, free: int64(st.Bavail) * st.Bsize, kind: kindOf(int64(st.Type))}, nil
}

// kindOf names the file systems that are no place for what must last, or no
// disk at all.
func kindOf(magic int64) string {
	switch magic {
	case unix.TMPFS_MAGIC, unix.RAMFS_MAGIC:
		return "memory"
	case unix.NFS_SUPER_MAGIC, unix.CIFS_SUPER_MAGIC, unix.SMB2_SUPER_MAGIC, unix.SMB_SUPER_MAGIC, unix.CEPH_SUPER_MAGIC, unix.V9FS_MAGIC, unix.AFS_SUPER_MAGIC:
		return "a network file system"
	case unix.FUSE_SUPER_MAGIC:
		return "a FUSE file system"
	case unix.OVERLAYFS_SUPER_MAGIC:
		return "an overlay"
	}
	return ""
}
