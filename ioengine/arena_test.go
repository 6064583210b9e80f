// SPDX-License-Identifier: Apache-2.0

package ioengine

import (
	"context"
	"errors"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"unsafe"
)

const page = ArenaAlign

func newTestArena(t testing.TB, bytes int64) *Arena {
	t.Helper()
	a, err := NewArena(bytes)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := a.Close(); err != nil {
			t.Errorf("close arena: %v", err)
		}
	})
	return a
}

func mustGet(t testing.TB, a *Arena, n int64) *Buf {
	t.Helper()
	buf, err := a.Get(t.Context(), n)
	if err != nil {
		t.Fatal(err)
	}
	return buf
}

// isWhole checks that an idle arena has merged everything back into pieces.
func isWhole(t testing.TB, a *Arena) {
	t.Helper()
	a.mu.Lock()
	defer a.mu.Unlock()
	want := [pieceOrder + 1]int{pieceOrder: len(a.region) / PieceSize}
	if a.buddy.count != want {
		t.Errorf("free blocks by order: got %v, want %v", a.buddy.count, want)
	}
}

func TestArenaChunks(t *testing.T) {
	a := newTestArena(t, 8*PieceSize)
	cases := []struct {
		n      int64
		chunks []int
	}{
		{0, nil},
		{1, []int{page}},
		{page, []int{page}},
		{page + 1, []int{2 * page}},
		{PieceSize - 1, []int{PieceSize}},
		{PieceSize, []int{PieceSize}},
		{PieceSize + 1, []int{PieceSize, page}},
		{1_124_352, []int{PieceSize, 19 * page}}, // DeepSeek-V3 MLA
		{3*PieceSize + 129*page, []int{PieceSize, PieceSize, PieceSize, 129 * page}},
		{8 * PieceSize, slices.Repeat([]int{PieceSize}, 8)},
	}
	for _, c := range cases {
		buf := mustGet(t, a, c.n)
		var got []int
		total := int64(0)
		for _, chunk := range buf.Chunks() {
			got = append(got, len(chunk))
			total += int64(len(chunk))
			if cap(chunk) != len(chunk) {
				t.Errorf("%d bytes: a chunk of %d can grow to %d, into its neighbour", c.n, len(chunk), cap(chunk))
			}
			if addr := uintptr(unsafe.Pointer(&chunk[0])); addr%page != 0 {
				t.Errorf("%d bytes: chunk at %#x is not aligned", c.n, addr)
			}
		}
		if !slices.Equal(got, c.chunks) {
			t.Errorf("%d bytes: got chunks of %v, want %v", c.n, got, c.chunks)
		}
		if buf.Len() != c.n || a.InUse() != total {
			t.Errorf("%d bytes: length %d, in use %d, want %d, %d", c.n, buf.Len(), a.InUse(), c.n, total)
		}
		buf.Release()
		if a.InUse() != 0 {
			t.Errorf("%d bytes: %d in use after release", c.n, a.InUse())
		}
		isWhole(t, a)
	}
}

func TestArenaEveryRequestWithinTheLimitFits(t *testing.T) {
	for _, limit := range []int64{page, 5 * page, PieceSize - page, PieceSize, PieceSize + 192*page, 3*PieceSize - page} {
		a := newTestArena(t, limit+page-1)
		if a.Cap() != limit {
			t.Errorf("capacity: got %d, want %d", a.Cap(), limit)
		}
		for n := int64(page); n <= limit; n += page {
			buf, ok := a.TryGet(n)
			if !ok {
				t.Fatalf("an idle arena of %d has no room for %d", limit, n)
			}
			buf.Release()
		}
		if buf, ok := a.TryGet(limit + 1); ok {
			t.Errorf("an arena of %d gave %d", limit, limit+1)
			buf.Release()
		}
		isWhole(t, a)
	}
}

func TestArenaWastesNoPages(t *testing.T) {
	// A plain buddy allocator gives a whole piece to a run of 129 pages, and
	// has nothing left after four of them.
	a := newTestArena(t, 4*PieceSize)
	var bufs []*Buf
	for range 4 {
		bufs = append(bufs, mustGet(t, a, 129*page))
	}
	for {
		buf, ok := a.TryGet(page)
		if !ok {
			break
		}
		bufs = append(bufs, buf)
	}
	if a.InUse() != a.Cap() {
		t.Errorf("in use: got %d, want all %d", a.InUse(), a.Cap())
	}
	for _, buf := range bufs {
		buf.Release()
	}
	isWhole(t, a)
}

func TestArenaRefuses(t *testing.T) {
	for _, bytes := range []int64{-1, 0, page - 1} {
		if _, err := NewArena(bytes); err == nil {
			t.Errorf("an arena of %d bytes was made", bytes)
		}
	}
	a := newTestArena(t, PieceSize)
	if _, err := a.Get(t.Context(), PieceSize+1); !errors.Is(err, ErrNoRoom) {
		t.Errorf("more than the arena: got %v, want %v", err, ErrNoRoom)
	}
	if _, err := a.Get(t.Context(), -1); err == nil {
		t.Error("a negative request was served")
	}
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := a.Get(ended, page); !errors.Is(err, context.Canceled) {
		t.Errorf("ended context: got %v, want %v", err, context.Canceled)
	}
	if a.InUse() != 0 {
		t.Errorf("%d bytes in use after refusals", a.InUse())
	}
}

func TestArenaClose(t *testing.T) {
	a, err := NewArena(PieceSize)
	if err != nil {
		t.Fatal(err)
	}
	buf := mustGet(t, a, page)
	if err := a.Close(); err == nil {
		t.Fatal("an arena in use was closed")
	}
	buf.Chunks()[0][0] = 1 // still there
	buf.Release()
	for range 2 {
		if err := a.Close(); err != nil {
			t.Fatal(err)
		}
	}
	if _, err := a.Get(t.Context(), page); !errors.Is(err, ErrArenaClosed) {
		t.Errorf("get: got %v, want %v", err, ErrArenaClosed)
	}
	if _, ok := a.TryGet(page); ok {
		t.Error("a closed arena gave memory")
	}
}

func TestBufReleasedTwicePanics(t *testing.T) {
	a := newTestArena(t, PieceSize)
	for _, n := range []int64{0, page} {
		buf := mustGet(t, a, n)
		buf.Release()
		func() {
			defer func() {
				if recover() == nil {
					t.Errorf("a second release of %d bytes did not panic", n)
				}
			}()
			buf.Release()
		}()
	}
	if a.InUse() != 0 {
		t.Errorf("in use: got %d, want 0", a.InUse())
	}
}

// getting is a Get on a goroutine of its own.
type getting struct {
	cancel context.CancelFunc
	result chan *Buf // nil for an error
}

func startGet(t testing.TB, a *Arena, n int64) getting {
	ctx, cancel := context.WithCancel(t.Context())
	g := getting{cancel: cancel, result: make(chan *Buf, 1)}
	go func() {
		buf, err := a.Get(ctx, n)
		if (buf == nil) == (err == nil) {
			t.Errorf("get %d: got %v and %v", n, buf, err)
		}
		g.result <- buf
	}()
	synctest.Wait()
	return g
}

// served returns the buffer of a Get that must have it by now, or must not.
func (g getting) served(t testing.TB, want bool) *Buf {
	t.Helper()
	synctest.Wait()
	select {
	case buf := <-g.result:
		if !want {
			t.Error("a request that had to wait has returned")
		}
		return buf
	default:
		if want {
			t.Fatal("a request still waits")
		}
		return nil
	}
}

func TestArenaNobodyOvertakes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newTestArena(t, 4*PieceSize)
		held := []*Buf{mustGet(t, a, PieceSize), mustGet(t, a, PieceSize), mustGet(t, a, PieceSize)}
		large, small := startGet(t, a, 3*PieceSize), startGet(t, a, page)
		if buf, ok := a.TryGet(page); ok {
			t.Error("TryGet overtook two waiters")
			buf.Release()
		}
		if got := a.Waiting(); got != 2 {
			t.Errorf("waiting: got %d, want 2", got)
		}
		held[0].Release()
		large.served(t, false) // two pieces are free: nothing is handed out piecewise
		small.served(t, false)
		if got := a.InUse(); got != 2*PieceSize {
			t.Errorf("in use: got %d, want %d", got, 2*PieceSize)
		}
		held[1].Release()
		largeBuf, smallBuf := large.served(t, true), (*Buf)(nil)
		held[2].Release()
		smallBuf = small.served(t, true)
		largeBuf.Release()
		smallBuf.Release()
		isWhole(t, a)
	})
}

func TestArenaCancelledWaiterLetsTheNextPass(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newTestArena(t, 2*PieceSize)
		held := mustGet(t, a, PieceSize)
		large := startGet(t, a, 2*PieceSize)
		first, second := startGet(t, a, page), startGet(t, a, PieceSize)
		first.served(t, false)
		large.cancel()
		if buf := large.served(t, true); buf != nil {
			t.Error("a cancelled request was served")
		}
		buf := first.served(t, true) // woken by the cancellation alone
		second.served(t, false)
		buf.Release()
		second.served(t, true).Release()
		held.Release()
		isWhole(t, a)
	})
}

func TestArenaCancelInTheMiddleOfTheLine(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newTestArena(t, PieceSize)
		held := mustGet(t, a, PieceSize)
		first, second, third := startGet(t, a, page), startGet(t, a, PieceSize), startGet(t, a, page)
		second.cancel()
		second.served(t, true)
		first.served(t, false)
		held.Release()
		first.served(t, true).Release()
		third.served(t, true).Release()
		isWhole(t, a)
	})
}

func TestArenaManyOwners(t *testing.T) {
	a := newTestArena(t, 6*PieceSize)
	var wg sync.WaitGroup
	for owner := range byte(16) {
		wg.Go(func() {
			for round := range int64(40) {
				n := (int64(owner)*7919+round*104729)%(3*PieceSize) + 1
				buf, err := a.Get(t.Context(), n)
				if err != nil {
					t.Error(err)
					return
				}
				for _, chunk := range buf.Chunks() { // each page carries its owner
					for at := 0; at < len(chunk); at += page {
						chunk[at] = owner
					}
				}
				for _, chunk := range buf.Chunks() {
					for at := 0; at < len(chunk); at += page {
						if chunk[at] != owner {
							t.Errorf("a page of owner %d belongs to %d as well", owner, chunk[at])
							return
						}
					}
				}
				buf.Release()
			}
		})
	}
	wg.Wait()
	isWhole(t, a)
}

func BenchmarkArena(b *testing.B) {
	for name, n := range map[string]int64{"4KiB": page, "1.1MiB": 1_124_352, "64MiB": 64 << 20} {
		b.Run(name, func(b *testing.B) {
			a := newTestArena(b, 256<<20)
			b.ReportAllocs()
			for b.Loop() {
				mustGet(b, a, n).Release()
			}
		})
	}
}
