// SPDX-License-Identifier: Apache-2.0

package slab

import (
	"bytes"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rawblockd/rawblockd/internal/testdev"
	"github.com/rawblockd/rawblockd/ioengine"
)

const testSize = 8*mib + 64*kib

// put writes bytes into a file or device.
func put(t *testing.T, path string, off int64, data []byte) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	_, err = f.WriteAt(data, off)
	if err := errors.Join(err, f.Sync(), f.Close()); err != nil {
		t.Fatal(err)
	}
}

func contents(t *testing.T, path string) []byte {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// mustRefuse checks that init refuses, says all of texts, and changes nothing.
func mustRefuse(t *testing.T, in initRun, path string, o InitOptions, texts ...string) {
	t.Helper()
	before := contents(t, path)
	_, err := in.run(path, o)
	if !errors.Is(err, ErrRefused) {
		t.Errorf("got %v, want ErrRefused", err)
	}
	for _, text := range texts {
		if err != nil && !strings.Contains(err.Error(), text) {
			t.Errorf("%q does not say %q", err, text)
		}
	}
	if err != nil && strings.Contains(err.Error(), "\n") {
		t.Errorf("%q is more than one line", err)
	}
	if !bytes.Equal(before, contents(t, path)) {
		t.Error("a refused init changed something")
	}
}

func wipes(t *testing.T, path string, o InitOptions) {
	t.Helper()
	o.Wipe = true
	l, err := Init(path, o)
	if err != nil {
		t.Fatalf("init with wipe: %v", err)
	}
	r, err := Inspect(path)
	if err != nil || r.Label != l {
		t.Errorf("inspect: got %+v, %v, want %+v", r.Label, err, l)
	}
}

// targets runs a test on a file and on loop devices.
func targets(t *testing.T, fn func(t *testing.T, path string)) {
	t.Run("file", func(t *testing.T) { fn(t, testdev.File(t, testSize)) })
	t.Run("loop 512", func(t *testing.T) { fn(t, testdev.Loop(t, testSize, 512)) })
	t.Run("loop 4096", func(t *testing.T) { fn(t, testdev.Loop(t, testSize, 4096)) })
}

func TestInitOnZeros(t *testing.T) {
	targets(t, func(t *testing.T, path string) {
		want, err := Init(path, InitOptions{Name: "fast0"})
		if err != nil {
			t.Fatal(err)
		}
		if want.SlotCount != 2 || want.SlotSize != DefaultSlotSize || want.Name != "fast0" || want.Incarnation == [16]byte{} {
			t.Errorf("got %+v", want)
		}
		r, err := Inspect(path)
		if err != nil || r.Label != want || len(r.Copies) != 3 {
			t.Errorf("inspect: got %+v, %v, want %+v", r, err, want)
		}
	})
}

func TestInitRefusesALabel(t *testing.T) {
	targets(t, func(t *testing.T, path string) {
		l, err := Init(path, InitOptions{Name: "fast 0"})
		if err != nil {
			t.Fatal(err)
		}
		mustRefuse(t, hostInit(), path, InitOptions{SlotSize: mib, Name: "it's"},
			UUID(l.Incarnation), "'fast 0'", "nobody yet", "run: rawblockd init "+path+` --slot-size 1MiB --name 'it'\''s' --wipe`)
		// One copy is enough, wherever it is; so is a damaged one.
		zeros := make([]byte, mib)
		put(t, path, 0, zeros)
		mustRefuse(t, hostInit(), path, InitOptions{}, UUID(l.Incarnation))
		put(t, path, endOffset(testSize)+200, []byte{1})
		mustRefuse(t, hostInit(), path, InitOptions{}, "damaged rawblockd label", "--wipe")
		wipes(t, path, InitOptions{})
	})
}

// TestInitRefusesBytes is C16, for every place that counts.
func TestInitRefusesBytes(t *testing.T) {
	targets(t, func(t *testing.T, path string) {
		for off, where := range map[int64]string{
			0: "the first MiB", 4097: "the first MiB", mib - 1: "the first MiB",
			endOffset(testSize): "the last MiB", testSize - 1: "the last MiB",
		} {
			put(t, path, off, []byte{0x5a})
			mustRefuse(t, hostInit(), path, InitOptions{}, where, "0x5a at offset ", "run: rawblockd init "+path+" --wipe")
			wipes(t, path, InitOptions{})
			for _, z := range []int64{0, endOffset(testSize)} {
				put(t, path, z, make([]byte, mib))
			}
		}
		put(t, path, 3*mib, []byte{0x5a}) // slots may hold anything
		if _, err := Init(path, InitOptions{}); err != nil {
			t.Error(err)
		}
	})
}

// program skips a test where a program is missing.
func program(t *testing.T, name string, args ...string) {
	t.Helper()
	path := findProgram(name)
	if path == "" {
		t.Skipf("no %s here", name)
	}
	if out, err := exec.Command(path, args...).CombinedOutput(); err != nil {
		t.Skipf("%s %v does not work here: %v: %s", name, args, err, out)
	}
}

// TestInitRefusesSignatures asks the real blkid about a real swap area.
func TestInitRefusesSignatures(t *testing.T) {
	if findProgram("blkid") == "" {
		t.Skip("no blkid here")
	}
	targets(t, func(t *testing.T, path string) {
		program(t, "mkswap", path)
		mustRefuse(t, hostInit(), path, InitOptions{}, "blkid finds", "TYPE=swap", "--wipe")
		wipes(t, path, InitOptions{})
		if out, err := exec.Command(findProgram("blkid"), "-p", path).CombinedOutput(); err == nil {
			t.Errorf("blkid still finds %s", out)
		}
	})
}

func TestInitRefusesAMount(t *testing.T) {
	dev := testdev.Loop(t, 16*mib, 512)
	program(t, "mkfs.ext4", "-q", dev)
	dir := filepath.Join(t.TempDir(), "a b")
	if err := os.Mkdir(dir, 0o700); err != nil {
		t.Fatal(err)
	}
	if err := unix.Mount(dev, dir, "ext4", unix.MS_RDONLY, ""); err != nil {
		t.Skipf("cannot mount here: %v", err)
	}
	mounted := true
	defer func() {
		if mounted {
			_ = unix.Unmount(dir, 0)
		}
	}()
	mustRefuse(t, hostInit(), dev, InitOptions{}, "mounted on "+dir, "umount '"+dir+"'")
	mustRefuse(t, hostInit(), dev, InitOptions{Wipe: true}, "mounted on "+dir)
	if err := unix.Unmount(dir, 0); err != nil {
		t.Fatal(err)
	}
	mounted = false
	mustRefuse(t, hostInit(), dev, InitOptions{}, "TYPE=ext4")
	wipes(t, dev, InitOptions{})
}

func TestInitRefusesSwap(t *testing.T) {
	dev := testdev.Loop(t, 16*mib, 512)
	program(t, "mkswap", dev)
	program(t, "swapon", dev)
	defer func() { _ = exec.Command(findProgram("swapoff"), dev).Run() }()
	mustRefuse(t, hostInit(), dev, InitOptions{Wipe: true}, "swap", "swapoff "+dev)
}

func TestInitRefusesPartitions(t *testing.T) {
	dev := testdev.Loop(t, 16*mib, 512)
	program(t, "addpart", dev, "1", "2048", "8192")
	defer func() { _ = exec.Command(findProgram("delpart"), dev, "1").Run() }()
	mustRefuse(t, hostInit(), dev, InitOptions{Wipe: true}, dev+"p1", "sfdisk --delete "+dev)
}

func TestInitRefusesALoopFile(t *testing.T) {
	file := testdev.File(t, testSize)
	dev := testdev.LoopOver(t, file, 512)
	mustRefuse(t, hostInit(), file, InitOptions{Wipe: true}, "attached as "+dev, "losetup -d "+dev)
	if _, err := Init(dev, InitOptions{}); err != nil {
		t.Errorf("the loop device itself: %v", err)
	}
}

// TestSecondOpener is C17: the device, and a symlink of it, are refused while a slab
// has them, and the refusal names who that is.
func TestSecondOpener(t *testing.T) {
	targets(t, func(t *testing.T, path string) {
		t.Parallel() // the opener tries for two seconds
		link := filepath.Join(t.TempDir(), "link")
		if err := os.Symlink(path, link); err != nil {
			t.Fatal(err)
		}
		if _, err := Init(link, InitOptions{Name: "fast0"}); err != nil {
			t.Fatalf("init through a symlink: %v", err)
		}
		dev, err := OpenDevice(path)
		if err != nil {
			t.Fatal(err)
		}
		defer func() { _ = dev.Close() }()
		r := open(t, dev, Options{})
		me, err := CurrentHolder()
		if err != nil {
			t.Fatal(err)
		}
		if err := r.SetMount(1, me); err != nil {
			t.Fatal(err)
		}
		want := []string{"fast0", UUID(r.Label().Incarnation), me.String(), "running on this host", "fuser -v "}
		_, err = OpenDevice(link)
		if !errors.Is(err, ioengine.ErrHeld) {
			t.Fatalf("got %v, want ErrHeld", err)
		}
		for _, text := range want {
			if !strings.Contains(err.Error(), text) {
				t.Errorf("%q does not say %q", err, text)
			}
		}
		mustRefuse(t, hostInit(), link, InitOptions{Wipe: true}, want...)
		if got, err := Inspect(link); err != nil || got.Label.Holder != me || got.RealPath != path {
			t.Errorf("inspect of a held device: %+v, %v", got, err)
		}
	})
}

func TestInitCreatesAFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "slab")
	if _, err := Init(path, InitOptions{}); !errors.Is(err, os.ErrNotExist) || !strings.Contains(err.Error(), "rawblockd init "+path+" --size") {
		t.Errorf("got %v, want ErrNotExist and the remedy", err)
	}
	for size, want := range map[int64]error{-1: ErrOption, 4096: ErrTooSmall} {
		if _, err := Init(path, InitOptions{Size: size}); !errors.Is(err, want) {
			t.Errorf("size %d: got %v, want %v", size, err, want)
		}
		if exists(path) {
			t.Errorf("size %d: the file was left behind", size)
		}
	}
	l, err := Init(path, InitOptions{Size: testSize})
	if err != nil || l.DeviceSize != testSize {
		t.Fatalf("got %+v, %v", l, err)
	}
	mustRefuse(t, hostInit(), path, InitOptions{Size: testSize}, "exists", "--size")
	if st, err := os.Stat(path); err != nil || st.Size() != testSize {
		t.Errorf("got %v, %v", st.Size(), err)
	}
}

// TestFailedInitRemovesItsFile fails every write and flush of an init in turn.
func TestFailedInitRemovesItsFile(t *testing.T) {
	path := filepath.Join(t.TempDir(), "slab")
	for n := 0; ; n++ {
		left := n
		step := func() error {
			if left--; left == -1 {
				return syscall.EIO
			}
			return nil
		}
		in := hostInit()
		in.open = func(path string) (ioengine.Device, error) {
			dev, err := hostInit().open(path)
			h := &hooked{Device: dev, onFlush: step}
			h.onWrite = func([][]byte, int64) (int, error, bool) {
				err := step()
				return 0, err, err != nil
			}
			return h, err
		}
		_, err := in.run(path, InitOptions{Size: testSize})
		if err == nil {
			if n < 10 {
				t.Errorf("only %d steps", n)
			}
			break
		}
		if !errors.Is(err, syscall.EIO) {
			t.Fatalf("step %d: got %v, want EIO", n, err)
		}
		if exists(path) {
			t.Fatalf("step %d: the file was left behind", n)
		}
	}
	if _, err := Inspect(path); err != nil {
		t.Error(err)
	}
}

func TestInitRefusesOtherFiles(t *testing.T) {
	for _, path := range []string{t.TempDir(), "/dev/null"} {
		if _, err := Init(path, InitOptions{Wipe: true}); !errors.Is(err, ErrRefused) {
			t.Errorf("%s: got %v, want ErrRefused", path, err)
		}
	}
}

func TestInitTooSmall(t *testing.T) {
	targets(t, func(t *testing.T, path string) {
		before := contents(t, path)
		_, err := Init(path, InitOptions{SlotSize: 16 * mib, Wipe: true})
		if !errors.Is(err, ErrTooSmall) || !strings.Contains(err.Error(), "19 MiB") {
			t.Errorf("got %v, want ErrTooSmall naming 19 MiB", err)
		}
		if !bytes.Equal(before, contents(t, path)) {
			t.Error("something changed")
		}
	})
}

func TestInspectWithoutALabel(t *testing.T) {
	targets(t, func(t *testing.T, path string) {
		r, err := Inspect(path)
		if !errors.Is(err, ErrNoLabel) || r.Geometry.Size != testSize || len(r.Copies) != 3 {
			t.Errorf("got %+v, %v", r, err)
		}
	})
	if _, err := Inspect("/does/not/exist"); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("got %v, want ErrNotExist", err)
	}
}
