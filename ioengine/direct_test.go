// SPDX-License-Identifier: Apache-2.0

package ioengine_test

import (
	"errors"
	"os/exec"
	"path/filepath"
	"runtime"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"

	"github.com/rawblockd/rawblockd/internal/testdev"
	"github.com/rawblockd/rawblockd/ioengine"
)

// withExt4 makes a file system on a loop device and runs fn with it mounted.
//
// The mount exists only in a namespace of the thread that fn runs on. The
// thread is never unlocked, so it ends with its goroutine, and the mount with
// it, however the test ends.
func withExt4(t *testing.T, options string, fn func(device, dir string)) {
	mkfs, err := exec.LookPath("mkfs.ext4")
	if err != nil {
		t.Skip("no mkfs.ext4 here")
	}
	device := testdev.Loop(t, 64<<20, 512)
	if out, err := exec.Command(mkfs, "-q", device).CombinedOutput(); err != nil {
		t.Fatalf("mkfs.ext4: %v\n%s", err, out)
	}
	dir := t.TempDir()
	done := make(chan string)
	go func() {
		defer close(done)
		runtime.LockOSThread()
		err := errors.Join(
			unix.Unshare(unix.CLONE_NEWNS),
			unix.Mount("", "/", "", unix.MS_REC|unix.MS_PRIVATE, ""),
			unix.Mount(device, dir, "ext4", 0, options),
		)
		if err != nil {
			done <- "cannot mount here: " + err.Error()
			return
		}
		defer func() { _ = unix.Unmount(dir, 0) }()
		fn(device, dir)
	}()
	if skip, ok := <-done; ok {
		t.Skip(skip)
	}
}

// TestOpenJournalledFile opens a file whose data ext4 journals: it accepts
// O_DIRECT and buffers, so the flag alone would claim what is not true.
func TestOpenJournalledFile(t *testing.T) {
	for options, direct := range map[string]bool{"data=ordered": true, "data=journal": false} {
		withExt4(t, options, func(_, dir string) {
			path := filepath.Join(dir, "slab")
			if err := ioengine.Create(path, devSize); err != nil {
				t.Error(err)
				return
			}
			f, err := ioengine.Open(path, ioengine.OpenOptions{Exclusive: true})
			if err != nil {
				t.Error(err)
				return
			}
			if g := f.Geometry(); g.Direct != direct || g.Size != devSize {
				t.Errorf("%s: got %+v, want Direct %v", options, g, direct)
			}
			if err := f.Close(); err != nil {
				t.Error(err)
			}
		})
	}
}

func TestOpenMountedDevice(t *testing.T) {
	withExt4(t, "", func(device, _ string) {
		synctest.Test(t, func(t *testing.T) {
			f, err := ioengine.Open(device, ioengine.OpenOptions{Exclusive: true})
			if !errors.Is(err, ioengine.ErrHeld) {
				t.Errorf("got %v, %v, want %v", f, err, ioengine.ErrHeld)
			}
		})
	})
}
