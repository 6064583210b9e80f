// SPDX-License-Identifier: Apache-2.0

package ioengine

import (
	"fmt"
	"sync"
	"unsafe"

	"golang.org/x/sys/unix"
)

// ArenaAlign is what memory from this package is aligned to and a multiple of:
// 4 KiB, the largest logical block of the devices in use.
const ArenaAlign = 4096

// AlignedAlloc returns n zeroed bytes outside the Go heap, page-aligned, for
// direct I/O. The kernel may write into them whatever the garbage collector
// does. free gives them back; calls after the first do nothing.
func AlignedAlloc(n int) (buf []byte, free func(), err error) {
	if n < 0 {
		return nil, nil, fmt.Errorf("allocate %d aligned bytes: negative", n)
	}
	if n == 0 {
		return nil, func() {}, nil
	}
	whole, err := unix.Mmap(-1, 0, n, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, nil, fmt.Errorf("allocate %d aligned bytes: %w", n, err)
	}
	var once sync.Once
	free = func() {
		once.Do(func() {
			if err := unix.Munmap(whole); err != nil {
				panic(fmt.Sprintf("ioengine: unmap %d aligned bytes: %v", n, err))
			}
		})
	}
	return whole[:n:n], free, nil
}

const (
	hugePage = 2 << 20 // what the kernel maps in one entry, on amd64 and on arm64 with pages of 4 KiB
	hugeFrom = 4 << 20 // less memory than this is not worth it
)

// largeAlloc is AlignedAlloc for a region that will live long and be used all over:
// from hugeFrom on it begins at a multiple of hugePage and asks for large pages. A
// device's driver then looks one page up for 2 MiB instead of 512, for every transfer.
// Where the kernel has no large page to give, or is told to give none, the region
// consists of small ones, and works.
func largeAlloc(n int) (buf []byte, free func(), err error) {
	if n < hugeFrom {
		return AlignedAlloc(n)
	}
	// The kernel promises no alignment: ask for more and cut it.
	size := uintptr(n)
	whole, err := unix.MmapPtr(-1, 0, nil, size+hugePage, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		return nil, nil, fmt.Errorf("allocate %d aligned bytes: %w", n, err)
	}
	before := -uintptr(whole) % hugePage
	start := unsafe.Add(whole, before)
	unmap(whole, before)
	unmap(unsafe.Add(start, size), hugePage-before)
	buf = unsafe.Slice((*byte)(start), n)
	_ = unix.Madvise(buf, unix.MADV_HUGEPAGE) // advice: a kernel built without them refuses it
	return buf, sync.OnceFunc(func() { unmap(start, size) }), nil
}

// unmap panics if the kernel keeps the mapping: it would be somebody else's memory.
func unmap(at unsafe.Pointer, size uintptr) {
	if size == 0 {
		return
	}
	if err := unix.MunmapPtr(at, size); err != nil {
		panic(fmt.Sprintf("ioengine: unmap %d bytes: %v", size, err))
	}
}
