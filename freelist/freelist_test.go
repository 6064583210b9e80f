// SPDX-License-Identifier: Apache-2.0

package freelist

import (
	"slices"
	"testing"

	"github.com/google/go-cmp/cmp"
	"pgregory.net/rapid"
)

func span(from, to uint32) []uint32 {
	var s []uint32
	for i := from; i < to; i++ {
		s = append(s, i)
	}
	return s
}

// full returns a list of total slots, all free.
func full(total uint32) *List {
	l := New(total)
	l.Free(span(0, total))
	return l
}

func mustAlloc(t *testing.T, l *List, n int) []uint32 {
	t.Helper()
	s, ok := l.Alloc(n, nil)
	if !ok {
		t.Fatalf("Alloc(%d) of %d free refused", n, l.Len())
	}
	return s
}

func mustPanic(t *testing.T, what string, fn func()) {
	t.Helper()
	defer func() {
		if recover() == nil {
			t.Errorf("%s did not panic", what)
		}
	}()
	fn()
}

func TestNothingIsFreeAtFirst(t *testing.T) {
	for _, total := range []uint32{0, 1, 64, 1000} {
		l := New(total)
		if s, ok := l.Alloc(1, nil); ok || s != nil || l.Len() != 0 || l.Has(0) || l.Take(0) {
			t.Errorf("a new list of %d slots has free ones: %v", total, s)
		}
		if s, ok := l.Alloc(0, nil); !ok || len(s) != 0 {
			t.Errorf("Alloc(0) = %v, %v", s, ok)
		}
	}
}

func TestNeighboursAndWrapAround(t *testing.T) {
	l := full(200)
	if d := cmp.Diff(span(0, 70), mustAlloc(t, l, 70)); d != "" {
		t.Errorf("first (-want +got):\n%s", d)
	}
	l.Free([]uint32{3, 4, 60}) // behind the cursor: they rest
	if d := cmp.Diff(span(70, 200), mustAlloc(t, l, 130)); d != "" {
		t.Errorf("to the end (-want +got):\n%s", d)
	}
	l.Free([]uint32{198})
	if d := cmp.Diff([]uint32{3, 4, 60, 198}, mustAlloc(t, l, 4)); d != "" {
		t.Errorf("around the end (-want +got):\n%s", d)
	}
	if l.Len() != 0 {
		t.Errorf("%d slots left, want none", l.Len())
	}
}

// A lone free slot is found from anywhere, across every level of the summary.
func TestFarApart(t *testing.T) {
	const total = 3*64*64*64 + 17
	l := New(total)
	for _, slot := range []uint32{0, 63, 64, 4095, 4096, 262143, 262144, 524288, total - 1} {
		for _, cursor := range []uint32{0, slot, (slot + 1) % total, total - 1, 64 * 63, 262143} {
			l.cursor = cursor
			l.Free([]uint32{slot})
			if got := mustAlloc(t, l, 1); got[0] != slot {
				t.Errorf("from %d: got %d, want %d", cursor, got[0], slot)
			}
		}
	}
}

func TestAllOrNothing(t *testing.T) {
	l := full(10)
	dst := []uint32{99}
	if got, ok := l.Alloc(11, dst); ok || !slices.Equal(got, dst) || l.Len() != 10 {
		t.Errorf("Alloc of more than is free: %v, %v, %d left", got, ok, l.Len())
	}
	if got, ok := l.Alloc(2, dst); !ok || !slices.Equal(got, []uint32{99, 0, 1}) {
		t.Errorf("Alloc appends: %v, %v", got, ok)
	}
}

func TestBrokenInvariantsPanicAndChangeNothing(t *testing.T) {
	for name, slots := range map[string][]uint32{
		"free already":   {3, 5, 1},
		"twice in one":   {3, 4, 3},
		"beyond the end": {3, 4, 100},
	} {
		l := New(100)
		l.Free([]uint32{1, 7})
		before := *l
		before.slots, before.words, before.top = slices.Clone(l.slots), slices.Clone(l.words), slices.Clone(l.top)
		mustPanic(t, name, func() { l.Free(slots) })
		if d := cmp.Diff(&before, l, cmp.AllowUnexported(List{})); d != "" {
			t.Errorf("%s changed the list (-want +got):\n%s", name, d)
		}
	}
	mustPanic(t, "a negative count", func() { New(1).Alloc(-1, nil) })
}

// TestAgainstModel drives a list and a map side by side.
func TestAgainstModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		total := rapid.Uint32Range(0, 9000).Draw(t, "total")
		m := &machine{l: New(total), total: total, free: map[uint32]bool{}}
		t.Repeat(rapid.StateMachineActions(m))
	})
}

type machine struct {
	l      *List
	total  uint32
	cursor uint32
	free   map[uint32]bool
}

// Free returns a random run of what is taken.
func (m *machine) Free(t *rapid.T) {
	if m.total == 0 {
		t.Skip()
	}
	from := rapid.Uint32Range(0, m.total-1).Draw(t, "from")
	step := rapid.Uint32Range(1, 70).Draw(t, "step")
	n := rapid.Uint32Range(0, 300).Draw(t, "n")
	var slots []uint32
	for s := from; s < m.total && uint32(len(slots)) < n; s += step {
		if !m.free[s] {
			slots = append(slots, s)
		}
	}
	for _, s := range slots {
		m.free[s] = true
	}
	slices.Reverse(slots) // any order will do
	m.l.Free(slots)
}

// Alloc must give exactly what next-fit gives.
func (m *machine) Alloc(t *rapid.T) {
	n := rapid.IntRange(0, 200).Draw(t, "n")
	got, ok := m.l.Alloc(n, nil)
	if ok != (n <= len(m.free)) {
		t.Fatalf("Alloc(%d) of %d free: %v", n, len(m.free), ok)
	}
	if !ok {
		return
	}
	var want []uint32
	for len(want) < n {
		if m.free[m.cursor] {
			want = append(want, m.cursor)
			delete(m.free, m.cursor)
		}
		m.cursor = (m.cursor + 1) % m.total
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("Alloc(%d) (-want +got):\n%s", n, d)
	}
}

// Take removes one slot, or says that it is not there.
func (m *machine) Take(t *rapid.T) {
	s := rapid.Uint32Range(0, m.total+1).Draw(t, "slot")
	if got := m.l.Take(s); got != m.free[s] {
		t.Fatalf("Take(%d) = %v, want %v", s, got, m.free[s])
	}
	delete(m.free, s)
}

// Check compares the whole state, summaries included.
func (m *machine) Check(t *rapid.T) {
	if m.l.Len() != len(m.free) {
		t.Fatalf("Len() = %d, want %d", m.l.Len(), len(m.free))
	}
	for s := range m.total + 2 {
		if m.l.Has(s) != m.free[s] {
			t.Fatalf("Has(%d) = %v, want %v", s, m.l.Has(s), m.free[s])
		}
	}
	for i, w := range m.l.slots {
		if m.l.words.has(uint32(i)) != (w != 0) {
			t.Fatalf("summary of word %d is wrong", i)
		}
	}
	for i, w := range m.l.words {
		if m.l.top.has(uint32(i)) != (w != 0) {
			t.Fatalf("top of word %d is wrong", i)
		}
	}
}

const million = 1 << 20

// BenchmarkAllocFree takes and returns one slot of a million at several loads;
// the cost must not depend on how full the slab is.
func BenchmarkAllocFree(b *testing.B) {
	for name, keep := range map[string]uint32{"all free": 1, "1 of 100 free": 100, "1 of 100,000 free": 100_000} {
		b.Run(name, func(b *testing.B) {
			l := New(million)
			for s := uint32(0); s < million; s += keep {
				l.Free([]uint32{s})
			}
			var buf [1]uint32
			b.ReportAllocs()
			for b.Loop() {
				s, _ := l.Alloc(1, buf[:0])
				l.Free(s)
			}
		})
	}
}

// BenchmarkBatch takes and returns 4,096 slots at once, as a large batch does.
func BenchmarkBatch(b *testing.B) {
	l := full(million)
	buf := make([]uint32, 0, 4096)
	for b.Loop() {
		s, _ := l.Alloc(4096, buf)
		l.Free(s)
	}
}
