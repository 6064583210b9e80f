// SPDX-License-Identifier: Apache-2.0

package ioengine

import (
	"fmt"
	"sync"

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
