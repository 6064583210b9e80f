// SPDX-License-Identifier: Apache-2.0

package ioengine_test

import (
	"errors"
	"os"
	"testing"
	"testing/synctest"

	"golang.org/x/sys/unix"

	"github.com/rawblockd/rawblockd/internal/testdev"
	"github.com/rawblockd/rawblockd/ioengine"
)

func TestReadOnlyCannotWrite(t *testing.T) {
	for name, place := range places() {
		t.Run(name, func(t *testing.T) {
			f := mustOpen(t, place(t), ioengine.OpenOptions{ReadOnly: true})
			mem, free, err := ioengine.AlignedAlloc(4096)
			if err != nil {
				t.Fatal(err)
			}
			defer free()
			if _, err := f.Pwritev([][]byte{mem}, 0); !errors.Is(err, unix.EBADF) {
				t.Errorf("got %v, want %v", err, unix.EBADF)
			}
		})
	}
}

func TestFileAfterClose(t *testing.T) {
	f := mustOpen(t, testdev.File(t, devSize), ioengine.OpenOptions{})
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	_, readErr := f.Preadv(nil, 0)
	_, writeErr := f.Pwritev(nil, 0)
	errs := map[string]error{
		"read": readErr, "write": writeErr, "flush": f.Flush(), "close": f.Close(),
		"lock": f.WithFlock(func() error { t.Error("ran on a closed file"); return nil }),
	}
	for what, err := range errs {
		if !errors.Is(err, os.ErrClosed) {
			t.Errorf("%s: got %v, want %v", what, err, os.ErrClosed)
		}
	}
}

func TestFileThatShrank(t *testing.T) {
	path := testdev.File(t, devSize)
	f := mustOpen(t, path, ioengine.OpenOptions{})
	if err := os.Truncate(path, devSize/2); err != nil {
		t.Fatal(err)
	}
	mem, free, err := ioengine.AlignedAlloc(1 << 20)
	if err != nil {
		t.Fatal(err)
	}
	defer free()
	e := ioengine.NewPread(f, ioengine.PreadOptions{Workers: 1})
	defer func() { _ = e.Close() }()
	const half = 1 << 19
	res := ioengine.Do(t.Context(), e, []ioengine.Op{{Off: devSize/2 - half, Vec: [][]byte{mem}}})[0]
	if res.N != half || !errors.Is(res.Err, ioengine.ErrEndOfDevice) {
		t.Errorf("got %d bytes, %v, want %d, %v", res.N, res.Err, half, ioengine.ErrEndOfDevice)
	}
}

// flocked tells whether somebody has the flock of a path.
func flocked(t *testing.T, path string) bool {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	err = unix.Flock(int(f.Fd()), unix.LOCK_SH|unix.LOCK_NB)
	if err != nil && !errors.Is(err, unix.EWOULDBLOCK) {
		t.Fatal(err)
	}
	return err != nil
}

func TestWithFlock(t *testing.T) {
	path := testdev.Loop(t, devSize, 512)
	f := mustOpen(t, path, ioengine.OpenOptions{Exclusive: true})
	if flocked(t, path) {
		t.Error("a block device is flocked though no label is written: udev would never look at it")
	}
	failed := errors.New("failed")
	for _, want := range []error{nil, failed} {
		err := f.WithFlock(func() error {
			if !flocked(t, path) {
				t.Error("not locked while the function runs")
			}
			return want
		})
		if !errors.Is(err, want) {
			t.Errorf("got %v, want %v", err, want)
		}
		if flocked(t, path) {
			t.Errorf("still locked after %v", want)
		}
	}
}

func TestWithFlockOnRegularFile(t *testing.T) {
	path := testdev.File(t, devSize)
	f := mustOpen(t, path, ioengine.OpenOptions{Exclusive: true})
	if err := f.WithFlock(func() error { return nil }); err != nil {
		t.Error(err)
	}
	if !flocked(t, path) {
		t.Error("the lock for life was lost")
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if flocked(t, path) {
		t.Error("locked after close")
	}
}

func TestWithFlockHeldBySomebodyElse(t *testing.T) {
	path := testdev.Loop(t, devSize, 512)
	other, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := unix.Flock(int(other.Fd()), unix.LOCK_SH); err != nil {
		t.Fatal(err)
	}
	synctest.Test(t, func(t *testing.T) {
		f := mustOpen(t, path, ioengine.OpenOptions{})
		err := f.WithFlock(func() error { t.Error("ran without the lock"); return nil })
		if !errors.Is(err, ioengine.ErrHeld) {
			t.Errorf("got %v, want %v", err, ioengine.ErrHeld)
		}
	})
}
