// SPDX-License-Identifier: Apache-2.0

package simdev

import (
	"bytes"
	"errors"
	"os"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/rawblockd/rawblockd/ioengine"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const block = 4096

func aligned(t testing.TB, n int, fill byte) []byte {
	t.Helper()
	mem, free, err := ioengine.AlignedAlloc(n)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(free)
	for i := range mem {
		mem[i] = fill
	}
	return mem
}

// put writes blocks of one byte value through the device.
func put(t testing.TB, d *Device, off int64, blocks int, value byte) {
	t.Helper()
	n, err := d.Pwritev([][]byte{aligned(t, blocks*block, value)}, off)
	if err != nil || n != blocks*block {
		t.Fatalf("write %d blocks at %d: got %d, %v", blocks, off, n, err)
	}
}

// values returns the first byte of each of the first n blocks.
func values(d *Device, n int) []byte {
	var v []byte
	for i := range n {
		v = append(v, d.Peek(int64(i)*block, 1)[0])
	}
	return v
}

func wantValues(t *testing.T, d *Device, want ...byte) {
	t.Helper()
	if got := values(d, len(want)); !bytes.Equal(got, want) {
		t.Errorf("blocks: got %v, want %v", got, want)
	}
}

func TestReadAndWrite(t *testing.T) {
	d := New(Options{Size: 2 * chunkSize})
	off := int64(chunkSize - 2*block) // across two chunks
	data := [][]byte{aligned(t, block, 1), {}, aligned(t, 3*block, 2)}
	if n, err := d.Pwritev(data, off); n != 4*block || err != nil {
		t.Fatalf("write: got %d, %v", n, err)
	}
	got := [][]byte{aligned(t, 3*block, 9), aligned(t, 3*block, 9)}
	if n, err := d.Preadv(got, off-block); n != 6*block || err != nil {
		t.Fatalf("read: got %d, %v", n, err)
	}
	want := slicesOf(block, 0, 1, 2, 2, 2, 0)
	if !bytes.Equal(bytes.Join(got, nil), want) {
		t.Error("read something else than was written")
	}
}

func slicesOf(n int, values ...byte) []byte {
	var b []byte
	for _, v := range values {
		b = append(b, bytes.Repeat([]byte{v}, n)...)
	}
	return b
}

func TestKernelErrors(t *testing.T) {
	d := New(Options{Size: 4 * block})
	mem := aligned(t, 2*block, 1)
	cases := []struct {
		name string
		vec  [][]byte
		off  int64
		n    [2]int
		err  [2]error
	}{
		{"offset", [][]byte{mem}, 512, [2]int{}, [2]error{syscall.EINVAL, syscall.EINVAL}},
		{"length", [][]byte{mem[:512]}, 0, [2]int{}, [2]error{syscall.EINVAL, syscall.EINVAL}},
		{"memory", [][]byte{mem[8 : block+8]}, 0, [2]int{}, [2]error{syscall.EINVAL, syscall.EINVAL}},
		{"across the end", [][]byte{mem}, 3 * block, [2]int{block, block}, [2]error{}},
		{"at the end", [][]byte{mem}, 4 * block, [2]int{}, [2]error{nil, syscall.ENOSPC}},
		{"far beyond", [][]byte{mem}, 400 * block, [2]int{}, [2]error{nil, syscall.ENOSPC}},
		{"nothing", nil, 0, [2]int{}, [2]error{}},
	}
	for _, c := range cases {
		for dir, move := range []func([][]byte, int64) (int, error){d.Preadv, d.Pwritev} {
			if n, err := move(c.vec, c.off); n != c.n[dir] || !errors.Is(err, c.err[dir]) {
				t.Errorf("%s, %s: got %d, %v, want %d, %v", c.name, ioengine.Dir(dir), n, err, c.n[dir], c.err[dir])
			}
		}
	}
}

func TestServiceTimeAndPlaces(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		d := New(Options{Size: 64 * block, Parallel: 4, FlushTime: time.Hour, Service: func(dir ioengine.Dir, bytes int) time.Duration {
			return time.Duration(1+dir) * time.Duration(bytes)
		}})
		begin := time.Now()
		var wg sync.WaitGroup
		for i := range int64(10) {
			mem := aligned(t, block, 1)
			wg.Go(func() { _, _ = d.Pwritev([][]byte{mem}, i*block) })
		}
		synctest.Wait()
		if d.InFlight() != 10 || d.MaxInFlightBytes() != 10*block {
			t.Errorf("in flight: got %d, %d bytes, want 10", d.InFlight(), d.MaxInFlightBytes())
		}
		wg.Wait()
		if got, want := time.Since(begin), 3*2*block*time.Nanosecond; got != want {
			t.Errorf("ten writes, four at a time: took %v, want %v", got, want)
		}
		if d.InFlight() != 0 || d.MaxInFlight() != 10 {
			t.Errorf("in flight: got %d, at most %d, want 0, 10", d.InFlight(), d.MaxInFlight())
		}
		begin = time.Now()
		_ = d.Flush()
		if got := time.Since(begin); got != time.Hour {
			t.Errorf("flush took %v, want 1h", got)
		}
	})
}

func TestFailRange(t *testing.T) {
	d := New(Options{Size: 8 * block})
	d.FailRange(ioengine.Write, block, block, syscall.EIO)
	mem := aligned(t, 2*block, 7)
	if n, err := d.Pwritev([][]byte{mem}, 0); n != 0 || !errors.Is(err, syscall.EIO) {
		t.Errorf("write that touches: got %d, %v", n, err)
	}
	put(t, d, 2*block, 1, 7)
	if _, err := d.Preadv([][]byte{mem}, block); err != nil {
		t.Errorf("read of a range that fails writes: %v", err)
	}
	wantValues(t, d, 0, 0, 7)
	d.FailRange(ioengine.Write, 0, 8*block, nil)
	put(t, d, 0, 2, 8)
	wantValues(t, d, 8, 8, 7)
}

func TestFaultsOfATransfer(t *testing.T) {
	d := New(Options{Size: 8 * block})
	mem := aligned(t, 4*block, 5)
	d.Short(block + 100)
	if n, err := d.Pwritev([][]byte{mem}, 0); n != block+100 || err != nil {
		t.Errorf("short write: got %d, %v", n, err)
	}
	if got := d.Peek(block+99, 2); !bytes.Equal(got, []byte{5, 0}) {
		t.Errorf("end of a short write: got %v, want [5 0]", got)
	}
	d.Short(0)
	d.Again(1)
	if _, err := d.Preadv([][]byte{mem}, 0); !errors.Is(err, syscall.EAGAIN) {
		t.Errorf("got %v, want %v", err, syscall.EAGAIN)
	}
	if _, err := d.Preadv([][]byte{mem}, 0); err != nil {
		t.Errorf("after one EAGAIN: %v", err)
	}
	d.SetReadOnly(true)
	if _, err := d.Pwritev([][]byte{mem}, 0); !errors.Is(err, syscall.EROFS) {
		t.Errorf("got %v, want %v", err, syscall.EROFS)
	}
	d.Vanish()
	if _, err := d.Preadv([][]byte{mem}, 0); !errors.Is(err, syscall.ENODEV) {
		t.Errorf("got %v, want %v", err, syscall.ENODEV)
	}
	d.Heal()
	put(t, d, 0, 1, 6)
	wantValues(t, d, 6)
	if err := errors.Join(d.Close(), d.Close()); !errors.Is(err, os.ErrClosed) {
		t.Errorf("second close: got %v", err)
	}
	if _, err := d.Preadv([][]byte{mem}, 0); !errors.Is(err, os.ErrClosed) {
		t.Errorf("after close: got %v", err)
	}
}

func TestLyingWrites(t *testing.T) {
	d := New(Options{Size: 8 * block})
	d.DropWrites(block, 2*block)
	put(t, d, 0, 4, 1)
	wantValues(t, d, 1, 0, 0, 1)
	d.Heal()
	d.Misdirect(block, 5*block)
	put(t, d, 0, 1, 2) // not touched
	put(t, d, block, 2, 3)
	put(t, d, block, 1, 4) // once only
	wantValues(t, d, 2, 4, 0, 1, 0, 3, 3, 0)
	d.Misdirect(0, 8*block)
	put(t, d, 0, 1, 9)
	wantValues(t, d, 2, 4)
	d.FlipBit(0)
	wantValues(t, d, 3)
}

func TestHang(t *testing.T) {
	d := New(Options{Size: 8 * block})
	release := d.Hang(0, block)
	done := make(chan error)
	mem := aligned(t, block, 1)
	go func() {
		_, err := d.Pwritev([][]byte{mem}, 0)
		done <- err
	}()
	d.AwaitInFlight(1)
	put(t, d, block, 1, 2) // others pass
	wantValues(t, d, 0, 2)
	release()
	release()
	if err := <-done; err != nil {
		t.Error(err)
	}
	put(t, d, 0, 1, 3) // nothing hangs any more
	wantValues(t, d, 3, 2)

	releaseFlush := d.HangFlush()
	go func() { done <- d.Flush() }()
	releaseFlush()
	if err := <-done; err != nil {
		t.Error(err)
	}
	if got := d.Counts(); got.Flushes != 1 || got.Transfers[ioengine.Write] != 3 {
		t.Errorf("counts: got %+v", got)
	}
}

func TestTrace(t *testing.T) {
	var got []int64
	d := New(Options{Size: 8 * block, Trace: func(dir ioengine.Dir, off int64, bytes int) {
		got = append(got, int64(dir), off, int64(bytes))
	}})
	put(t, d, 2*block, 3, 1)
	if want := []int64{1, 2 * block, 3 * block}; len(got) != 3 || got[0] != want[0] || got[1] != want[1] || got[2] != want[2] {
		t.Errorf("got %v, want %v", got, want)
	}
}

func TestFailNth(t *testing.T) {
	d := New(Options{Size: 8 * block})
	d.FailNth(2, syscall.EIO)
	d.FailNth(4, syscall.ENOMEM)
	for i, want := range []error{nil, syscall.EIO, nil, syscall.ENOMEM, nil, nil} {
		mem, move := aligned(t, block, 1), d.Preadv
		if i%2 == 1 {
			move = d.Pwritev
		}
		if _, err := move([][]byte{mem}, int64(i)*block); !errors.Is(err, want) {
			t.Errorf("transfer %d: got %v, want %v", i+1, err, want)
		}
	}
	wantValues(t, d, 0, 0, 0, 0, 0, 1)
}

func TestShortAt(t *testing.T) {
	d := New(Options{Size: 8 * block})
	d.ShortAt(block+1, 3*block-1, 3*block)
	mem := aligned(t, 4*block, 5)
	cases := []struct {
		off  int64
		want int
	}{
		{4 * block, 4 * block}, // touches none
		{0, block + 1},
		{0, 3*block - 1},       // the first has had its turn
		{3 * block, 4 * block}, // begins at the third
		{2 * block, block},
		{0, 4 * block},
	}
	for i, c := range cases {
		if n, err := d.Pwritev([][]byte{mem}, c.off); n != c.want || err != nil {
			t.Errorf("write %d at %d: got %d, %v, want %d", i, c.off, n, err, c.want)
		}
	}
}

func TestAgainEach(t *testing.T) {
	d := New(Options{Size: 8 * block})
	d.AgainEach(2)
	mem := aligned(t, block, 1)
	for i := range 3 {
		for off := range int64(8) {
			for _, move := range []func([][]byte, int64) (int, error){d.Preadv, d.Pwritev} {
				if _, err := move([][]byte{mem}, off*block); errors.Is(err, syscall.EAGAIN) != (i < 2) {
					t.Errorf("block %d, time %d: got %v", off, i+1, err)
				}
			}
		}
	}
	d.AgainEach(1)
	d.Heal()
	put(t, d, 0, 1, 2)
}

func TestSectorSizes(t *testing.T) {
	for _, sector := range []int{512, 4096} {
		d := New(Options{Size: 8 * block, Block: sector, Volatile: true})
		mem := aligned(t, 2*sector, 1)
		for _, c := range []struct {
			off, n int
			want   error
		}{{sector, sector, nil}, {sector / 2, sector, syscall.EINVAL}, {0, sector / 2, syscall.EINVAL}, {0, 2 * sector, nil}} {
			if _, err := d.Pwritev([][]byte{mem[:c.n]}, int64(c.off)); !errors.Is(err, c.want) {
				t.Errorf("sectors of %d: %d bytes at %d: got %v, want %v", sector, c.n, c.off, err, c.want)
			}
		}
		// A power cut keeps either version of each sector.
		first := d.Crash(func(off int64, versions int) int { return min(1, int(off)/sector) * (versions - 1) })
		if got := first.Peek(0, 2*sector); got[0] != 0 || got[sector-1] != 0 || got[sector] != 1 || got[2*sector-1] != 1 {
			t.Errorf("sectors of %d: the second alone should have been kept", sector)
		}
	}
}
