// SPDX-License-Identifier: Apache-2.0

package ioengine

import (
	"testing"

	"golang.org/x/sys/unix"
)

func TestLocked(t *testing.T) {
	const text = `1: POSIX  ADVISORY  WRITE 10 fe:00:11 0 EOF
2: FLOCK  ADVISORY  WRITE 11 fe:00:22 0 EOF
2: -> FLOCK  ADVISORY  WRITE 12 fe:00:33 0 EOF
3: FLOCK  ADVISORY  READ  13 fe:00:44 0 EOF
4: FLOCK  ADVISORY  WRITE 14 103:10b:55 0 EOF
`
	for _, tc := range []struct {
		dev, ino uint64
		want     bool
	}{
		{unix.Mkdev(0xfe, 0), 22, true},
		{unix.Mkdev(0x103, 0x10b), 55, true},
		{unix.Mkdev(0xfe, 0), 11, false}, // another kind of lock
		{unix.Mkdev(0xfe, 0), 33, false}, // only waiting
		{unix.Mkdev(0xfe, 0), 44, false}, // shared
		{unix.Mkdev(0xfe, 1), 22, false},
		{unix.Mkdev(0xfe, 0), 2, false},
	} {
		if got := locked(text, tc.dev, tc.ino); got != tc.want {
			t.Errorf("inode %d of %x: got %t, want %t", tc.ino, tc.dev, got, tc.want)
		}
	}
}
