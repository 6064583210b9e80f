// SPDX-License-Identifier: Apache-2.0

package ioengine

import (
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// What is registered with the kernel is all that the arena hands out, in parts that
// the kernel takes.
func TestArenaMemory(t *testing.T) {
	const gib = 1 << 30
	for _, tt := range []struct {
		cap  int64
		want []int
	}{
		{page, []int{PieceSize}},
		{gib, []int{gib}},
		{2*gib + PieceSize, []int{gib, gib, PieceSize}}, // address space: none of it is touched
	} {
		a, err := NewArena(tt.cap)
		if err != nil {
			t.Fatal(err)
		}
		parts := a.Memory()
		var sizes []int
		for i, part := range parts {
			sizes = append(sizes, len(part))
			if i > 0 && uintptr(addr(part)) != uintptr(addr(parts[i-1]))+uintptr(len(parts[i-1])) {
				t.Errorf("arena of %d: part %d does not begin where part %d ends", tt.cap, i, i-1)
			}
		}
		if !slices.Equal(sizes, tt.want) {
			t.Errorf("arena of %d: got parts of %v, want %v", tt.cap, sizes, tt.want)
		}
		buf := mustGet(t, a, min(tt.cap, 3*PieceSize))
		from, to := uintptr(addr(parts[0])), uintptr(addr(parts[0]))+uintptr(len(parts[0]))
		for i, c := range buf.Chunks() {
			if at := uintptr(addr(c)); at < from || at+uintptr(len(c)) > to {
				t.Errorf("arena of %d: chunk %d lies outside of its memory", tt.cap, i)
			}
		}
		buf.Release()
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
		if got := a.Memory(); got != nil {
			t.Errorf("arena of %d: %d parts of unmapped memory after Close", tt.cap, len(got))
		}
	}
}

// A large arena asks for large pages and is laid out for them; a small one does not.
func TestArenaLargePages(t *testing.T) {
	if _, err := os.Stat("/sys/kernel/mm/transparent_hugepage"); err != nil {
		t.Skip("this kernel has no transparent large pages")
	}
	for range 3 { // of neighbours, which one mapping more may not push out of line
		for _, tt := range []struct {
			cap  int64
			want bool
		}{{hugeFrom - PieceSize, false}, {hugeFrom, true}, {33 * PieceSize, true}} {
			a := newTestArena(t, tt.cap)
			region := a.Memory()[0]
			if asked := slices.Contains(mapping(t, addr(region)), "hg"); asked != tt.want {
				t.Errorf("arena of %d: asks for large pages %v, want %v", tt.cap, asked, tt.want)
			}
			if off := uintptr(addr(region)) % hugePage; tt.want && off != 0 {
				t.Errorf("arena of %d begins %d bytes behind a multiple of a large page", tt.cap, off)
			}
		}
	}
}

// Close gives all address space back, also what was mapped for the alignment.
func TestArenaGivesAddressSpaceBack(t *testing.T) {
	mapped := func() (pages int) {
		statm, err := os.ReadFile("/proc/self/statm")
		if err != nil {
			t.Fatal(err)
		}
		if _, err := fmt.Sscan(string(statm), &pages); err != nil {
			t.Fatal(err)
		}
		return pages
	}
	before := mapped()
	for range 200 {
		a, err := NewArena(64 * PieceSize)
		if err != nil {
			t.Fatal(err)
		}
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if got := (mapped() - before) * os.Getpagesize(); got > 50*hugePage {
		t.Errorf("200 arenas came and went, and %d MiB more are mapped", got>>20)
	}
}

// Large pages make more memory resident than was touched, at most to the end of each:
// not the arena, and nothing behind it.
func TestArenaResident(t *testing.T) {
	a := newTestArena(t, 64*PieceSize)
	buf := mustGet(t, a, 3*PieceSize)
	for _, c := range buf.Chunks() {
		c[0] = 1
	}
	buf.Release()
	if got := resident(t, a.Memory()[0]); got > 2*hugePage {
		t.Errorf("3 pieces were touched and %d KiB are resident, want at most %d", got>>10, 2*hugePage>>10)
	}
	// Small requests stay together: 1,000 of a page, one at a time, use the same page.
	for range 1000 {
		buf := mustGet(t, a, 1)
		buf.Chunks()[0][0] = 1
		buf.Release()
	}
	if got := resident(t, a.Memory()[0]); got > 2*hugePage {
		t.Errorf("a page was used 1,000 times and %d KiB are resident", got>>10)
	}
}

// Where large pages are switched off for the host or the process, an arena is memory
// all the same, and no more of it resident than was touched.
func TestArenaWithoutLargePages(t *testing.T) {
	thp := func(disable uintptr) {
		if err := unix.Prctl(unix.PR_SET_THP_DISABLE, disable, 0, 0, 0); err != nil {
			t.Skip("this kernel cannot switch them off for a process: ", err)
		}
	}
	thp(1)
	defer thp(0)
	a := newTestArena(t, 8*PieceSize)
	buf := mustGet(t, a, 8*PieceSize)
	defer buf.Release()
	buf.Chunks()[5][0] = 1
	if got, want := resident(t, a.Memory()[0]), os.Getpagesize(); got != want {
		t.Errorf("a byte was touched and %d are resident, want %d", got, want)
	}
	for i, c := range buf.Chunks() {
		for j := range c {
			c[j] = byte(i)
		}
	}
	for i, c := range buf.Chunks() {
		if c[0] != byte(i) || c[PieceSize-1] != byte(i) {
			t.Errorf("chunk %d holds %d … %d", i, c[0], c[PieceSize-1])
		}
	}
}

func addr(b []byte) unsafe.Pointer { return unsafe.Pointer(unsafe.SliceData(b)) }

// mapping returns the flags of the mapping that at lies in.
func mapping(t *testing.T, at unsafe.Pointer) []string {
	t.Helper()
	smaps, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		t.Fatal(err)
	}
	inside := false
	for line := range strings.Lines(string(smaps)) {
		var from, to uintptr
		if n, _ := fmt.Sscanf(line, "%x-%x ", &from, &to); n == 2 {
			inside = from <= uintptr(at) && uintptr(at) < to
		}
		if flags, ok := strings.CutPrefix(line, "VmFlags:"); ok && inside {
			return strings.Fields(flags)
		}
	}
	t.Fatalf("/proc/self/smaps has no flags of %p", at)
	return nil
}

// resident returns how many bytes of region are in memory.
func resident(t *testing.T, region []byte) int {
	t.Helper()
	size := os.Getpagesize()
	in := make([]byte, len(region)/size)
	_, _, errno := unix.Syscall(unix.SYS_MINCORE, uintptr(addr(region)), uintptr(len(region)), uintptr(addr(in)))
	if errno != 0 {
		t.Fatal(errno)
	}
	n := 0
	for _, b := range in {
		n += int(b&1) * size
	}
	return n
}
