// SPDX-License-Identifier: Apache-2.0

package testdev

import (
	"errors"
	"fmt"
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

// loopTries bounds how often a free loop number may be lost to another process
// between asking for it and taking it.
const loopTries = 64

// Loop returns the path of a loop device of size bytes (a multiple of sector)
// with logical blocks of sector bytes (512 to 4096), backed with direct I/O by
// a preallocated file. Both are gone when the test ends.
//
// It skips the test where loop devices cannot be had: not root, or no
// /dev/loop-control (usual in containers).
func Loop(t testing.TB, size int64, sector int) string {
	t.Helper()
	return LoopOver(t, File(t, size), sector)
}

// LoopOver is Loop over a file that exists already, which stays: for tests that
// detach a device and meet its bytes again under another name or sector size.
func LoopOver(t testing.TB, file string, sector int) string {
	t.Helper()
	needLoop(t)
	backing, err := os.OpenFile(file, os.O_RDWR, 0)
	if err != nil {
		t.Fatalf("open the backing file of a loop device: %v", err)
	}
	defer func() { _ = backing.Close() }() // the loop device holds its own reference
	for range loopTries {
		dev, err := attach(backing, sector)
		if errors.Is(err, unix.EBUSY) {
			continue
		}
		if err != nil {
			t.Fatalf("attach a loop device to %q: %v", file, err)
		}
		t.Cleanup(func() { _ = dev.Close() }) // the last close detaches: autoclear
		return dev.Name()
	}
	t.Fatalf("attach a loop device to %q: lost %d loop numbers to other processes", file, loopTries)
	return ""
}

func needLoop(t testing.TB) {
	t.Helper()
	if os.Geteuid() != 0 {
		t.Skip("loop devices need root")
	}
	if _, err := os.Stat("/dev/loop-control"); err != nil {
		t.Skipf("no loop devices here: %v", err)
	}
}

// attach takes the next free loop number. EBUSY means that another process was
// faster.
func attach(backing *os.File, sector int) (*os.File, error) {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = control.Close() }()
	number, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
	if err != nil {
		return nil, fmt.Errorf("LOOP_CTL_GET_FREE: %w", err)
	}
	dev, err := os.OpenFile(fmt.Sprintf("/dev/loop%d", number), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	config := unix.LoopConfig{Fd: uint32(backing.Fd()), Size: uint32(sector)}
	config.Info.Flags = unix.LO_FLAGS_AUTOCLEAR | unix.LO_FLAGS_DIRECT_IO
	copy(config.Info.File_name[:len(config.Info.File_name)-1], backing.Name())
	if err := unix.IoctlLoopConfigure(int(dev.Fd()), &config); err != nil {
		_ = dev.Close()
		return nil, fmt.Errorf("LOOP_CONFIGURE %s: %w", dev.Name(), err)
	}
	return dev, nil
}
