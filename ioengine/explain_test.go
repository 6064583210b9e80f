// SPDX-License-Identifier: Apache-2.0

package ioengine_test

import (
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rawblockd/rawblockd/internal/testdev"
	"github.com/rawblockd/rawblockd/ioengine"
)

// readOnly sets or clears the kernel's read-only flag, which outlives the attachment.
func readOnly(t *testing.T, path string, on int) {
	t.Helper()
	dev, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer dev.Close()
	if err := unix.IoctlSetPointerInt(int(dev.Fd()), unix.BLKROSET, on); err != nil {
		t.Fatal(err)
	}
}

func TestOpenReadOnlyDevice(t *testing.T) {
	path := testdev.Loop(t, devSize, 512)
	readOnly(t, path, 1)
	t.Cleanup(func() { readOnly(t, path, 0) })
	for _, exclusive := range []bool{false, true} {
		_, err := ioengine.Open(path, ioengine.OpenOptions{Exclusive: exclusive})
		if !errors.Is(err, ioengine.ErrReadOnly) || !strings.HasSuffix(err.Error(), "run: blockdev --setrw "+path) {
			t.Errorf("got %v, want ErrReadOnly and the remedy", err)
		}
		mustOpen(t, path, ioengine.OpenOptions{ReadOnly: true, Exclusive: exclusive}).Close()
	}
	readOnly(t, path, 0)
	mustOpen(t, path, ioengine.OpenOptions{})
}

// TestOpenLoopAttachedReadOnly: here setrw does nothing, so another remedy is named.
func TestOpenLoopAttachedReadOnly(t *testing.T) {
	testdev.Loop(t, devSize, 512) // skips where there are none
	out, err := exec.Command("losetup", "-r", "-f", "--show", testdev.File(t, devSize)).Output()
	if err != nil {
		t.Skipf("losetup does not work here: %v", err)
	}
	path := strings.TrimSpace(string(out))
	defer func() {
		if err := exec.Command("losetup", "-d", path).Run(); err != nil {
			t.Error(err)
		}
	}()
	_, err = ioengine.Open(path, ioengine.OpenOptions{})
	if !errors.Is(err, ioengine.ErrReadOnly) || !strings.Contains(err.Error(), "losetup -d "+path) || strings.Contains(err.Error(), "--setrw") {
		t.Errorf("got %v, want ErrReadOnly and its remedy", err)
	}
}

// as runs fn with the file access of another user.
func as(t *testing.T, uid int, fn func()) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("becoming another user needs root")
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		runtime.LockOSThread() // for good: the thread ends with the goroutine
		if err := unix.Setfsuid(uid); err != nil {
			t.Error(err)
			return
		}
		fn()
	}()
	<-done
}

func TestOpenWithoutPermission(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "closed")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	file := testdev.File(t, devSize)
	for d := filepath.Dir(file); d != os.TempDir() && d != "/"; d = filepath.Dir(d) {
		if err := os.Chmod(d, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	for path, want := range map[string]string{
		testdev.Loop(t, devSize, 512): "permission denied; run as root, or as a member of the group that owns the device (",
		file:                          "permission denied; run as root, or as the user that owns the file (root)",
		testdev.FileIn(t, dir, 4096):  "permission denied; run as root, or as a user who may enter the folders above it",
	} {
		as(t, 65534, func() {
			_, err := ioengine.Open(path, ioengine.OpenOptions{})
			if !errors.Is(err, os.ErrPermission) || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: got %v, want %q", path, err, want)
			}
		})
	}
}
