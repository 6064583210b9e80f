// SPDX-License-Identifier: Apache-2.0

package testdev

import (
	"os"
	"testing"

	"golang.org/x/sys/unix"
)

func TestLoop(t *testing.T) {
	for _, sector := range []int{512, 4096} {
		var path string
		const size = 4 << 20
		t.Run("attached", func(t *testing.T) {
			path = Loop(t, size, sector)
			dev, err := os.Open(path)
			if err != nil {
				t.Fatal(err)
			}
			defer dev.Close()
			got, err := unix.IoctlGetUint32(int(dev.Fd()), unix.BLKSSZGET)
			if err != nil || got != uint32(sector) {
				t.Errorf("logical block of %s: got %d, %v, want %d", path, got, err, sector)
			}
			if end, err := dev.Seek(0, 2); err != nil || end != size {
				t.Errorf("size of %s: got %d, %v, want %d", path, end, err, size)
			}
			info, err := unix.IoctlLoopGetStatus64(int(dev.Fd()))
			if err != nil {
				t.Fatal(err)
			}
			if info.Flags&unix.LO_FLAGS_AUTOCLEAR == 0 {
				t.Errorf("loop flags %#x: autoclear is not set, a killed test would leave the device", info.Flags)
			}
		})
	}
}

func TestLoopsAreDifferentDevices(t *testing.T) {
	a, b := Loop(t, 1<<20, 512), Loop(t, 1<<20, 512)
	if a == b {
		t.Errorf("two loop devices are both %s", a)
	}
}

func TestFileIsPreallocated(t *testing.T) {
	const size = 3 << 20
	var st unix.Stat_t
	if err := unix.Stat(File(t, size), &st); err != nil {
		t.Fatal(err)
	}
	if st.Size != size || st.Blocks*512 < size {
		t.Errorf("got size %d with %d bytes allocated, want both %d", st.Size, st.Blocks*512, size)
	}
}

func TestTmpfs(t *testing.T) {
	var fs unix.Statfs_t
	if err := unix.Statfs(Tmpfs(t), &fs); err != nil || fs.Type != unix.TMPFS_MAGIC {
		t.Errorf("got file system type %#x, %v, want tmpfs", fs.Type, err)
	}
}
