// SPDX-License-Identifier: Apache-2.0

package ioengine_test

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"testing"
	"testing/synctest"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rawblockd/rawblockd/internal/testdev"
	"github.com/rawblockd/rawblockd/ioengine"
)

const devSize = 8 << 20

func mustOpen(t testing.TB, path string, o ioengine.OpenOptions) *ioengine.File {
	t.Helper()
	f, err := ioengine.Open(path, o)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() }) // most tests close it themselves
	return f
}

// places are the things that can be opened.
func places() map[string]func(t *testing.T) string {
	return map[string]func(t *testing.T) string{
		"block device": func(t *testing.T) string { return testdev.Loop(t, devSize, 512) },
		"regular file": func(t *testing.T) string { return testdev.File(t, devSize) },
	}
}

func TestOpenBlockDeviceGeometry(t *testing.T) {
	for _, sector := range []int{512, 4096} {
		path := testdev.Loop(t, devSize, sector)
		for _, o := range []ioengine.OpenOptions{{}, {ReadOnly: true}, {Exclusive: true}, {ReadOnly: true, Exclusive: true}} {
			f := mustOpen(t, path, o)
			g := f.Geometry()
			if g.Size != devSize || g.Block != sector || g.Regular || !g.Direct || g.Physical < sector {
				t.Errorf("%d byte sectors, %+v: got %+v", sector, o, g)
			}
			if g.MemAlign < 1 || g.MemAlign > sector {
				t.Errorf("%d byte sectors: memory alignment of %d", sector, g.MemAlign)
			}
			if err := f.Close(); err != nil {
				t.Fatal(err)
			}
		}
	}
}

// TestBlockIsTheSmallestDirectTransfer proves Geometry.Block against the
// device: that much moves, half of it does not.
func TestBlockIsTheSmallestDirectTransfer(t *testing.T) {
	for _, sector := range []int{512, 4096} {
		f := mustOpen(t, testdev.Loop(t, devSize, sector), ioengine.OpenOptions{})
		b := f.Geometry().Block
		mem, free, err := ioengine.AlignedAlloc(b)
		if err != nil {
			t.Fatal(err)
		}
		defer free()
		if n, err := f.Preadv([][]byte{mem}, int64(b)); n != b || err != nil {
			t.Errorf("one block of %d: got %d, %v", b, n, err)
		}
		if n, err := f.Preadv([][]byte{mem[:b/2]}, 0); !errors.Is(err, unix.EINVAL) {
			t.Errorf("half a block of %d: got %d, %v, want %v", b, n, err, unix.EINVAL)
		}
		if n, err := f.Preadv([][]byte{mem}, int64(b/2)); !errors.Is(err, unix.EINVAL) {
			t.Errorf("a block at half a block of %d: got %d, %v, want %v", b, n, err, unix.EINVAL)
		}
	}
}

// cached returns how many pages of a range of a device the page cache holds.
func cached(t *testing.T, path string, off, n int64) uint64 {
	t.Helper()
	f, err := os.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	var stat unix.Cachestat_t
	err = unix.Cachestat(uint(f.Fd()), &unix.CachestatRange{Off: uint64(off), Len: uint64(n)}, &stat, 0)
	if errors.Is(err, unix.ENOSYS) {
		t.Skip("cachestat needs Linux 6.5")
	}
	if err != nil {
		t.Fatal(err)
	}
	return stat.Cache
}

// TestDirectBypassesThePageCache proves that Geometry.Direct is true: what was
// written and read back is nowhere in memory. The control is a buffered read.
func TestDirectBypassesThePageCache(t *testing.T) {
	const off, n = 4 << 20, 1 << 20
	for name, place := range places() {
		t.Run(name, func(t *testing.T) {
			path := place(t)
			f := mustOpen(t, path, ioengine.OpenOptions{Exclusive: true})
			if !f.Geometry().Direct {
				t.Skip("no direct I/O on this file system")
			}
			mem, free, err := ioengine.AlignedAlloc(n)
			if err != nil {
				t.Fatal(err)
			}
			defer free()
			mem[n-1] = 42
			if _, err := ioengine.WriteFull(f, [][]byte{mem}, off); err != nil {
				t.Fatal(err)
			}
			clear(mem)
			if _, err := ioengine.ReadFull(f, [][]byte{mem}, off); err != nil || mem[n-1] != 42 {
				t.Fatalf("read back: %v, last byte %d", err, mem[n-1])
			}
			if got := cached(t, path, off, n); got != 0 {
				t.Errorf("%d pages of direct I/O are in the page cache", got)
			}
			buffered, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer buffered.Close()
			if _, err := buffered.ReadAt(mem, off); err != nil {
				t.Fatal(err)
			}
			if cached(t, path, off, n) == 0 {
				t.Error("the control failed: a buffered read is not in the page cache")
			}
		})
	}
}

func TestOpenWithoutDirectIO(t *testing.T) {
	path := testdev.FileIn(t, testdev.Tmpfs(t), devSize)
	g := mustOpen(t, path, ioengine.OpenOptions{Exclusive: true}).Geometry()
	want := ioengine.Geometry{Size: devSize, Block: 4096, MemAlign: 1, Physical: 4096, Regular: true}
	if g != want {
		t.Errorf("tmpfs: got %+v, want %+v", g, want)
	}
}

func TestOpenRegularFileGeometry(t *testing.T) {
	const odd = devSize + 777
	g := mustOpen(t, testdev.File(t, odd), ioengine.OpenOptions{}).Geometry()
	if !g.Regular || g.Size > odd || g.Size <= odd-int64(g.Block) || g.Size%int64(g.Block) != 0 {
		t.Errorf("file of %d bytes: got %+v, want its whole blocks", odd, g)
	}
}

func TestOpenFollowsLinks(t *testing.T) {
	path := testdev.File(t, devSize)
	link := filepath.Join(t.TempDir(), "by-id")
	if err := os.Symlink(path, link); err != nil {
		t.Fatal(err)
	}
	f := mustOpen(t, link, ioengine.OpenOptions{Exclusive: true})
	resolved, err := filepath.EvalSymlinks(path)
	if err != nil {
		t.Fatal(err)
	}
	if f.Path() != link || f.RealPath() != resolved {
		t.Errorf("got %q, really %q, want %q, really %q", f.Path(), f.RealPath(), link, resolved)
	}
}

func TestOpenHeldDevice(t *testing.T) {
	for name, place := range places() {
		t.Run(name, func(t *testing.T) {
			path := place(t)
			synctest.Test(t, func(t *testing.T) { // the retries wait in fake time
				first := mustOpen(t, path, ioengine.OpenOptions{Exclusive: true})
				begin := time.Now()
				if f, err := ioengine.Open(path, ioengine.OpenOptions{Exclusive: true}); !errors.Is(err, ioengine.ErrHeld) {
					t.Errorf("a second exclusive open: got %v, %v, want %v", f, err, ioengine.ErrHeld)
				}
				if got := time.Since(begin); got != 2*time.Second {
					t.Errorf("gave up after %v, want 2s", got)
				}
				// Looking is allowed: inspect works beside a daemon.
				if err := mustOpen(t, path, ioengine.OpenOptions{ReadOnly: true}).Close(); err != nil {
					t.Error(err)
				}
				if err := first.Close(); err != nil {
					t.Fatal(err)
				}
				begin = time.Now()
				mustOpen(t, path, ioengine.OpenOptions{Exclusive: true})
				if got := time.Since(begin); got != 0 {
					t.Errorf("a free device took %v to open", got)
				}
			})
		})
	}
}

func TestOpenWaitsForAnOwnerThatLeaves(t *testing.T) {
	for name, place := range places() {
		t.Run(name, func(t *testing.T) {
			path := place(t)
			synctest.Test(t, func(t *testing.T) {
				first := mustOpen(t, path, ioengine.OpenOptions{Exclusive: true})
				go func() {
					time.Sleep(1700 * time.Millisecond) // fake time
					_ = first.Close()
				}()
				begin := time.Now()
				mustOpen(t, path, ioengine.OpenOptions{Exclusive: true})
				if got := time.Since(begin); got < 1700*time.Millisecond || got > 2*time.Second {
					t.Errorf("opened after %v, want as soon as the owner left at 1.7s", got)
				}
			})
		})
	}
}

func TestOpenRefuses(t *testing.T) {
	dir := t.TempDir()
	fifo := filepath.Join(dir, "fifo")
	if err := unix.Mkfifo(fifo, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, path := range []string{dir, "/dev/null", fifo} {
		if f, err := ioengine.Open(path, ioengine.OpenOptions{}); err == nil {
			t.Errorf("%q was opened", path)
			_ = f.Close()
		}
	}
}

func TestOpenNeverCreates(t *testing.T) {
	path := filepath.Join(t.TempDir(), "gone")
	for _, o := range []ioengine.OpenOptions{{}, {Exclusive: true}, {ReadOnly: true}} {
		if _, err := ioengine.Open(path, o); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%+v: got %v, want %v", o, err, fs.ErrNotExist)
		}
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%+v: the path exists now: %v", o, err)
		}
	}
}

func TestCreate(t *testing.T) {
	path := filepath.Join(t.TempDir(), "slab")
	if err := ioengine.Create(path, devSize); err != nil {
		t.Fatal(err)
	}
	var st unix.Stat_t
	if err := unix.Stat(path, &st); err != nil {
		t.Fatal(err)
	}
	if st.Size != devSize || st.Blocks*512 < devSize {
		t.Errorf("size %d, %d bytes allocated, want %d", st.Size, st.Blocks*512, devSize)
	}
	if err := ioengine.Create(path, devSize); !errors.Is(err, fs.ErrExist) {
		t.Errorf("over an existing file: got %v, want %v", err, fs.ErrExist)
	}
	if err := unix.Stat(path, &st); err != nil {
		t.Errorf("the existing file is gone: %v", err)
	}
}

func TestCreateLeavesNothingBehind(t *testing.T) {
	for _, size := range []int64{-1, 0, 1 << 62} {
		path := filepath.Join(t.TempDir(), "slab")
		if err := ioengine.Create(path, size); err == nil {
			t.Errorf("a file of %d bytes was created", size)
		}
		if _, err := os.Lstat(path); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("size %d: something was left behind: %v", size, err)
		}
	}
}

func TestAlignedAlloc(t *testing.T) {
	for _, n := range []int{0, 1, 4096, 5000} {
		buf, free, err := ioengine.AlignedAlloc(n)
		if err != nil || len(buf) != n || cap(buf) != n {
			t.Errorf("%d bytes: got %d of %d, %v", n, len(buf), cap(buf), err)
		}
		free()
		free()
	}
	if _, _, err := ioengine.AlignedAlloc(-1); err == nil {
		t.Error("a negative size was allocated")
	}
}
