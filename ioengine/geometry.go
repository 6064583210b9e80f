// SPDX-License-Identifier: Apache-2.0

package ioengine

import (
	"errors"
	"fmt"

	"golang.org/x/sys/unix"
)

// geometry asks an open device. BLKBSZGET is not among the questions: it
// answers with the page cache's block size, which has nothing to do with the
// sectors (H24).
func geometry(fd int, path string, regular bool) (Geometry, error) {
	if regular {
		return fileGeometry(fd, path)
	}
	return blockGeometry(fd, path)
}

func blockGeometry(fd int, path string) (Geometry, error) {
	size, err := unix.IoctlGetUint64(fd, unix.BLKGETSIZE64)
	if err != nil {
		return Geometry{}, fmt.Errorf("BLKGETSIZE64: %w", err)
	}
	logical, err := unix.IoctlGetUint32(fd, unix.BLKSSZGET)
	if err != nil {
		return Geometry{}, fmt.Errorf("BLKSSZGET: %w", err)
	}
	physical, err := unix.IoctlGetUint32(fd, unix.BLKPBSZGET)
	if err != nil {
		return Geometry{}, fmt.Errorf("BLKPBSZGET: %w", err)
	}
	optimal, err := unix.IoctlGetUint32(fd, unix.BLKIOOPT)
	if err != nil {
		return Geometry{}, fmt.Errorf("BLKIOOPT: %w", err)
	}
	g := Geometry{OptimalIO: int(optimal), Direct: true}
	g.Block, g.MemAlign = int(logical), int(logical) // what every kernel accepts
	if _, align, err := dioAlign(fd, path); err == nil && align.known && align.offset > 0 {
		g.Block, g.MemAlign = align.offset, align.mem
	}
	g.Physical = max(int(physical), g.Block)
	return g.withSize(int64(size))
}

func fileGeometry(fd int, path string) (Geometry, error) {
	size, align, err := dioAlign(fd, path)
	if err != nil {
		return Geometry{}, err
	}
	g := Geometry{Regular: true}
	g.Direct, err = isDirect(fd, align)
	if err != nil {
		return Geometry{}, err
	}
	switch {
	case g.Direct && align.known:
		g.Block, g.MemAlign = align.offset, align.mem
	case g.Direct: // a kernel before 6.1 does not say; pages suit every disk under it
		g.Block, g.MemAlign = ArenaAlign, ArenaAlign
	default: // buffered: any memory will do, pages avoid read-modify-write
		g.Block, g.MemAlign = ArenaAlign, 1
	}
	g.Physical = g.Block
	return g.withSize(size)
}

// withSize sets the size, in whole blocks: the rest cannot be reached by direct
// I/O.
func (g Geometry) withSize(size int64) (Geometry, error) {
	for _, align := range []int{g.Block, g.MemAlign} {
		if align < 1 || align&(align-1) != 0 {
			return Geometry{}, fmt.Errorf("alignment of %d bytes is no power of two", align)
		}
	}
	g.Size = size - size%int64(g.Block)
	return g, nil
}

// dio is what statx says of direct I/O. A known alignment of 0 means that it is
// not to be had.
type dio struct {
	known       bool
	mem, offset int
}

// dioAlign asks the descriptor, and then the path: kernels before 6.11 answer
// for a block device only when it is asked by name.
func dioAlign(fd int, path string) (size int64, align dio, err error) {
	var st unix.Statx_t
	const want = unix.STATX_SIZE | unix.STATX_DIOALIGN
	if err := unix.Statx(fd, "", unix.AT_EMPTY_PATH, want, &st); err != nil {
		return 0, dio{}, fmt.Errorf("statx: %w", err)
	}
	size = int64(st.Size)
	if st.Mask&unix.STATX_DIOALIGN == 0 {
		if err := unix.Statx(unix.AT_FDCWD, path, unix.AT_SYMLINK_NOFOLLOW, want, &st); err != nil {
			return 0, dio{}, fmt.Errorf("statx: %w", err)
		}
	}
	if st.Mask&unix.STATX_DIOALIGN == 0 {
		return size, dio{}, nil
	}
	return size, dio{known: true, mem: int(st.Dio_mem_align), offset: int(st.Dio_offset_align)}, nil
}

// isDirect tells whether I/O on a regular file bypasses the page cache. The
// open flag alone proves nothing: tmpfs accepts O_DIRECT since Linux 6.6, and
// ext4 with journalled data has for longer; both then buffer.
func isDirect(fd int, align dio) (bool, error) {
	flags, err := unix.FcntlInt(uintptr(fd), unix.F_GETFL, 0)
	if err != nil {
		return false, fmt.Errorf("fcntl F_GETFL: %w", err)
	}
	if flags&unix.O_DIRECT == 0 {
		return false, nil
	}
	if align.known {
		return align.mem > 0 && align.offset > 0, nil
	}
	// Direct I/O cannot move a single byte; the page cache can. A file system
	// that is direct for whole blocks and buffers the rest counts as buffered.
	_, err = unix.Pread(fd, make([]byte, 1), 0)
	if err != nil && !errors.Is(err, unix.EINVAL) {
		return false, fmt.Errorf("probe for direct I/O: %w", err)
	}
	return err != nil, nil
}
