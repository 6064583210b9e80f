// SPDX-License-Identifier: Apache-2.0

package ring

import (
	"bytes"
	"errors"
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"

	"github.com/rawblockd/rawblockd/internal/testdev"
)

func TestMain(m *testing.M) { testdev.Main(m) }

// The kernel's sizes and places; a wrong one here reads garbage there.
func TestABI(t *testing.T) {
	for _, tc := range []struct {
		what      string
		got, want uintptr
	}{
		{"params", unsafe.Sizeof(params{}), 120},
		{"params.features", unsafe.Offsetof(params{}.features), 20},
		{"params.sqOff", unsafe.Offsetof(params{}.sqOff), 40},
		{"params.cqOff", unsafe.Offsetof(params{}.cqOff), 80},
		{"sqe", unsafe.Sizeof(sqe{}), 64},
		{"sqe.addr", unsafe.Offsetof(sqe{}.addr), 16},
		{"sqe.len", unsafe.Offsetof(sqe{}.len), 24},
		{"sqe.userData", unsafe.Offsetof(sqe{}.userData), 32},
		{"sqe.bufIndex", unsafe.Offsetof(sqe{}.bufIndex), 40},
		{"cqe", unsafe.Sizeof(cqe{}), 16},
		{"cqe.res", unsafe.Offsetof(cqe{}.res), 8},
		{"probe", unsafe.Sizeof(probe{}), 16 + 8*probeOps},
	} {
		if tc.got != tc.want {
			t.Errorf("%s: got %d, want %d", tc.what, tc.got, tc.want)
		}
	}
}

const page = 4096

// memory returns n pages outside the Go heap, the k-th full of k+1.
func memory(t *testing.T, n int) []byte {
	t.Helper()
	mem, err := unix.Mmap(-1, 0, n*page, unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANONYMOUS)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Munmap(mem) })
	for i := range mem {
		mem[i] = byte(i/page) + 1
	}
	return mem
}

func openFile(t *testing.T, flags int) int {
	t.Helper()
	fd, err := unix.Open(testdev.File(t, 64*page), flags|unix.O_RDWR|unix.O_CLOEXEC, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	return fd
}

func newRing(t *testing.T, fd, entries int) *Ring {
	t.Helper()
	if err := Probe(1); err != nil {
		t.Skipf("no io_uring here: %v", err)
	}
	r, err := Open(fd, entries)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := r.Close(); err != nil {
			t.Error(err)
		}
	})
	return r
}

// run submits entries and returns their results by User, which is their index.
func run(t *testing.T, r *Ring, entries ...Entry) []int32 {
	t.Helper()
	for i := range entries {
		entries[i].User = uint64(i)
	}
	if n, err := r.Submit(entries); n != len(entries) || err != nil {
		t.Fatalf("submitted %d of %d, %v", n, len(entries), err)
	}
	results := make([]int32, len(entries))
	into := make([]Completion, 3) // fewer than there are
	for left := len(entries); left > 0; {
		n, err := r.Reap(into)
		if err != nil || n < 1 {
			t.Fatalf("reaped %d, %v", n, err)
		}
		for _, c := range into[:n] {
			results[c.User] = c.Res
		}
		left -= n
	}
	return results
}

// TestTransfers writes and reads with each opcode: of one part and of many, in
// registered memory and outside it, and across its edge.
func TestTransfers(t *testing.T) {
	r := newRing(t, openFile(t, 0), 8)
	mem := memory(t, 16)
	registered, outside := mem[:12*page], mem[12*page:]
	if err := r.Register([][]byte{registered[:4*page], registered[4*page:]}); err != nil {
		t.Fatal(err)
	}
	part := func(k int) []byte { return mem[k*page : (k+1)*page] }
	vecs := map[string][][]byte{
		"registered":                      {part(1)},
		"in the second region":            {part(5)},
		"outside":                         {part(13)},
		"registered, two parts":           {part(2), part(0)},
		"second region, three parts":      {part(9), part(7), part(11)},
		"outside, two parts":              {part(15), part(14)},
		"inside and outside":              {part(3), part(12)},
		"registered, empty parts":         {part(2)[:0], part(2), nil, part(1)[:0], part(0), {}},
		"registered, one part and empty":  {nil, part(5), part(6)[:0]},
		"outside, empty parts":            {part(13)[:0], part(13), nil, part(14)},
		"both regions, one part":          {mem[3*page : 5*page]},
		"both regions, two parts":         {part(3), part(4)},
		"across the registered one's end": {registered[11*page:], outside[:page]},
	}
	for name, vec := range vecs {
		t.Run(name, func(t *testing.T) {
			want := bytes.Join(vec, nil)
			if got := run(t, r, Entry{Write: true, Off: 8 * page, Vec: vec}); got[0] != int32(len(want)) {
				t.Fatalf("write: got %d, want %d", got[0], len(want))
			}
			for _, p := range vec {
				clear(p)
			}
			if got := run(t, r, Entry{Off: 8 * page, Vec: vec}); got[0] != int32(len(want)) {
				t.Fatalf("read: got %d, want %d", got[0], len(want))
			}
			if !bytes.Equal(bytes.Join(vec, nil), want) {
				t.Error("read back other bytes than written")
			}
		})
	}
}

func TestManyRoundsOfAFullRing(t *testing.T) {
	const entries = 8
	r := newRing(t, openFile(t, 0), entries)
	mem := memory(t, entries)
	for round := range 100 { // the indexes of the ring wrap many times
		batch := make([]Entry, entries)
		for i := range batch {
			batch[i] = Entry{Write: round%2 == 0, Off: int64(i) * page, Vec: [][]byte{mem[i*page : (i+1)*page]}}
		}
		for i, res := range run(t, r, batch...) {
			if res != page {
				t.Fatalf("round %d, entry %d: got %d", round, i, res)
			}
		}
	}
	for i := range mem {
		if mem[i] != byte(i/page)+1 {
			t.Fatalf("byte %d is %d after all rounds", i, mem[i])
		}
	}
}

func TestErrorsAreTheEntrysOwn(t *testing.T) {
	fd, err := unix.Open(testdev.Loop(t, 1<<20, 512), unix.O_RDWR|unix.O_CLOEXEC|unix.O_DIRECT, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = unix.Close(fd) })
	r := newRing(t, fd, 8)
	mem := memory(t, 4)
	results := run(t, r,
		Entry{Off: 0, Vec: [][]byte{mem[:page]}},
		Entry{Off: 1, Vec: [][]byte{mem[page : 2*page]}}, // direct I/O wants blocks
		Entry{Off: 1 << 40, Vec: [][]byte{mem[2*page : 3*page]}},
		Entry{Off: page, Vec: [][]byte{mem[3*page:]}},
	)
	if want := []int32{page, -int32(unix.EINVAL), 0, page}; !equal(results, want) {
		t.Errorf("got %v, want %v", results, want)
	}
}

func equal(a, b []int32) bool {
	for i := range a {
		if a[i] != b[i] {
			return false
		}
	}
	return len(a) == len(b)
}

// TestCloseEndsReap: Close may come while Reap waits.
func TestCloseEndsReap(t *testing.T) {
	r := newRing(t, openFile(t, 0), 1)
	ended := make(chan error)
	go func() {
		_, err := r.Reap(make([]Completion, 1))
		ended <- err
	}()
	if err := r.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, os.ErrClosed) {
		t.Errorf("reap: got %v, want %v", err, os.ErrClosed)
	}
	if _, err := r.Reap(make([]Completion, 1)); !errors.Is(err, os.ErrClosed) {
		t.Errorf("reap after close: got %v, want %v", err, os.ErrClosed)
	}
}

func TestCloseLetsGoOfTheDevice(t *testing.T) {
	if err := Probe(1); err != nil {
		t.Skipf("no io_uring here: %v", err)
	}
	path := testdev.Loop(t, 1<<20, 512)
	mem := memory(t, 4)
	for range 20 {
		fd, err := unix.Open(path, unix.O_RDWR|unix.O_EXCL|unix.O_CLOEXEC|unix.O_DIRECT, 0)
		if err != nil {
			t.Fatalf("the ring before has kept the device: %v", err)
		}
		r, err := Open(fd, 4)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Register([][]byte{mem}); err != nil {
			t.Fatal(err)
		}
		run(t, r, Entry{Vec: [][]byte{mem[:page]}})
		if err := unix.Close(fd); err != nil { // the ring has its own reference
			t.Fatal(err)
		}
		run(t, r, Entry{Vec: [][]byte{mem[:page]}})
		if err := r.Close(); err != nil {
			t.Fatal(err)
		}
	}
}

func TestOpenRefuses(t *testing.T) {
	fd := openFile(t, 0)
	for _, entries := range []int{0, -1, MaxEntries + 1} {
		if r, err := Open(fd, entries); err == nil {
			t.Errorf("a ring of %d entries was made", entries)
			_ = r.Close()
		}
	}
	newRing(t, fd, MaxEntries)
	if _, err := Open(1<<20, 1); !errors.Is(err, unix.EBADF) {
		t.Errorf("a ring on no file: got %v, want %v", err, unix.EBADF)
	}
}
