// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"time"

	"golang.org/x/sys/unix"
)

// loopDevice is attached for as long as its descriptor is open: autoclear lets
// go of it with the last one, so even a demo that is killed leaves none behind.
type loopDevice struct {
	path   string
	image  string
	direct bool
	dev    *os.File
}

// loopTries bounds how often a free number may be lost to another process.
const loopTries = 64

// loopSector is a block size that every file system can do direct I/O in.
const loopSector = 4096

// attachLoop makes a loop device of a file, with direct I/O where it can.
func attachLoop(image string) (*loopDevice, error) {
	if os.Geteuid() != 0 {
		return nil, errors.New("that needs root")
	}
	image, err := realPath(image)
	if err != nil {
		return nil, err
	}
	f, err := os.OpenFile(image, os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }() // the device has its own reference
	for range loopTries {
		l, err := tryLoop(f)
		if !errors.Is(err, unix.EBUSY) {
			return l, err
		}
	}
	return nil, errors.New("other processes took every free one")
}

// realPath is a file's path as the kernel has it.
func realPath(file string) (string, error) {
	file, err := filepath.Abs(file)
	if err != nil {
		return "", err
	}
	return filepath.EvalSymlinks(file)
}

func tryLoop(image *os.File) (_ *loopDevice, err error) {
	control, err := os.OpenFile("/dev/loop-control", os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() { _ = control.Close() }()
	n, err := unix.IoctlRetInt(int(control.Fd()), unix.LOOP_CTL_GET_FREE)
	if err != nil {
		return nil, fmt.Errorf("find a free loop device: %w", err)
	}
	dev, err := os.OpenFile(fmt.Sprintf("/dev/loop%d", n), os.O_RDWR, 0)
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, dev.Close())
		}
	}()
	conf := unix.LoopConfig{Fd: uint32(image.Fd()), Size: loopSector}
	conf.Info.Flags = unix.LO_FLAGS_AUTOCLEAR | unix.LO_FLAGS_DIRECT_IO
	copy(conf.Info.File_name[:len(conf.Info.File_name)-1], image.Name())
	if err := unix.IoctlLoopConfigure(int(dev.Fd()), &conf); err != nil {
		return nil, fmt.Errorf("attach %s: %w", dev.Name(), err)
	}
	info, err := unix.IoctlLoopGetStatus64(int(dev.Fd()))
	if err != nil {
		return nil, fmt.Errorf("status of %s: %w", dev.Name(), err)
	}
	return &loopDevice{path: dev.Name(), image: image.Name(), direct: info.Flags&unix.LO_FLAGS_DIRECT_IO != 0, dev: dev}, nil
}

// detachWithin is how long the kernel may take to let go of a device. A daemon that was
// killed had it registered with a ring, which the kernel takes apart after the process
// is gone.
const detachWithin = 5 * time.Second

// detach returns when the image is free.
func (l *loopDevice) detach() error {
	if err := l.dev.Close(); err != nil {
		return err
	}
	late := time.NewTimer(detachWithin)
	defer late.Stop()
	tick := time.NewTicker(askEvery)
	defer tick.Stop()
	for l.attached() {
		select {
		case <-tick.C:
		case <-late.C:
			return fmt.Errorf("%s is still attached to %s: the kernel lets go of it when nobody has it open any more", l.path, l.image)
		}
	}
	return nil
}

// attached tells whether the device is still one of the image; its number may have
// become somebody else's.
func (l *loopDevice) attached() bool {
	b, err := os.ReadFile(filepath.Join("/sys/block", filepath.Base(l.path), "loop/backing_file"))
	return err == nil && strings.HasPrefix(string(b), l.image+"\n")
}
