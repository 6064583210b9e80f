// SPDX-License-Identifier: Apache-2.0

package testdev

import (
	"os"
	"path/filepath"
	"testing"

	"golang.org/x/sys/unix"
)

// File returns the path of a preallocated regular file of size bytes in the
// test's own temporary folder.
func File(t testing.TB, size int64) string {
	t.Helper()
	return FileIn(t, t.TempDir(), size)
}

// FileIn is File in a folder of the caller's choice, and is removed when the
// test ends.
func FileIn(t testing.TB, dir string, size int64) string {
	t.Helper()
	path := filepath.Join(dir, "device.img")
	f, err := os.OpenFile(path, os.O_RDWR|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		t.Fatalf("create a test file: %v", err)
	}
	defer func() { _ = f.Close() }()
	t.Cleanup(func() { _ = os.Remove(path) })
	if err := unix.Fallocate(int(f.Fd()), 0, 0, size); err != nil {
		t.Fatalf("preallocate %d bytes in %q: %v", size, dir, err)
	}
	return path
}

// Tmpfs returns a folder on a tmpfs, removed when the test ends; it skips the
// test where /dev/shm is none. Direct I/O means nothing there.
func Tmpfs(t testing.TB) string {
	t.Helper()
	var fs unix.Statfs_t
	if err := unix.Statfs("/dev/shm", &fs); err != nil || fs.Type != unix.TMPFS_MAGIC {
		t.Skipf("/dev/shm is not a tmpfs here (%v)", err)
	}
	dir, err := os.MkdirTemp("/dev/shm", "testdev-")
	if err != nil {
		t.Fatalf("make a folder on tmpfs: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}
