// SPDX-License-Identifier: Apache-2.0

package freelist

import (
	"fmt"
	"math/bits"
)

// List is the set of free slots of one slab.
type List struct {
	total  uint32
	free   int
	cursor uint32 // where the next Alloc starts looking
	slots  bitmap // bit set: the slot is free
	words  bitmap // bit set: that word of slots is not zero
	top    bitmap // bit set: that word of words is not zero
}

type bitmap []uint64

func newBitmap(n int) bitmap { return make(bitmap, (n+63)/64) }

func (b bitmap) has(i uint32) bool { return b[i/64]&(1<<(i%64)) != 0 }
func (b bitmap) set(i uint32)      { b[i/64] |= 1 << (i % 64) }

// clear reports whether the word became zero.
func (b bitmap) clear(i uint32) bool {
	b[i/64] &^= 1 << (i % 64)
	return b[i/64] == 0
}

// New returns a list of total slots, none of them free.
func New(total uint32) *List {
	slots := newBitmap(int(total))
	words := newBitmap(len(slots))
	return &List{total: total, slots: slots, words: words, top: newBitmap(len(words))}
}

// Len is the number of free slots.
func (l *List) Len() int { return l.free }

// Has reports whether a slot is free; one beyond the end is not.
func (l *List) Has(slot uint32) bool { return slot < l.total && l.slots.has(slot) }

// Free adds slots. It panics, with nothing added, if one is free already, comes
// twice or lies beyond the end.
func (l *List) Free(slots []uint32) {
	for i, s := range slots {
		if s < l.total && !l.slots.has(s) {
			l.put(s)
			continue
		}
		for _, done := range slots[:i] {
			l.take(done)
		}
		if s >= l.total {
			panic(fmt.Sprintf("freelist: free slot %d of %d", s, l.total))
		}
		panic(fmt.Sprintf("freelist: slot %d freed twice", s))
	}
}

// Take takes one particular slot out of the list; false if it was not free.
func (l *List) Take(slot uint32) bool {
	if !l.Has(slot) {
		return false
	}
	l.take(slot)
	return true
}

// Alloc takes n slots out of the list and appends them to dst, ascending from
// the cursor and at most once around the end. When fewer are free it returns
// dst unchanged and false.
func (l *List) Alloc(n int, dst []uint32) ([]uint32, bool) {
	if n < 0 {
		panic(fmt.Sprintf("freelist: alloc of %d slots", n))
	}
	if n > l.free {
		return dst, false
	}
	for n > 0 {
		s := l.next(l.cursor)
		if s == l.total {
			s = l.next(0)
		}
		// Whole runs inside one word are taken at once: neighbours are the rule.
		run := min(n, bits.TrailingZeros64(^(l.slots[s/64] >> (s % 64))))
		for i := range uint32(run) {
			dst = append(dst, s+i)
		}
		l.takeRun(s, run)
		n -= run
		if l.cursor = s + uint32(run); l.cursor >= l.total {
			l.cursor = 0
		}
	}
	return dst, true
}

func (l *List) put(s uint32) {
	l.slots.set(s)
	l.words.set(s / 64)
	l.top.set(s / 64 / 64)
	l.free++
}

func (l *List) take(s uint32) { l.takeRun(s, 1) }

// takeRun takes run slots of one word.
func (l *List) takeRun(s uint32, run int) {
	w := s / 64
	l.slots[w] &^= (^uint64(0) >> (64 - run)) << (s % 64)
	l.free -= run
	if l.slots[w] == 0 && l.words.clear(w) {
		l.top.clear(w / 64)
	}
}

// next returns the first free slot at or after from, or total if there is none.
func (l *List) next(from uint32) uint32 {
	if s, ok := l.slots.nextInWord(from); ok {
		return s
	}
	w, ok := l.words.nextInWord(from/64 + 1)
	if !ok {
		t, ok := l.top.nextFrom((from/64+1)/64 + 1)
		if !ok {
			return l.total
		}
		w, _ = l.words.nextInWord(t * 64)
	}
	s, _ := l.slots.nextInWord(w * 64)
	return s
}

// nextInWord returns the first set bit at or after i in i's word.
func (b bitmap) nextInWord(i uint32) (uint32, bool) {
	if int(i/64) >= len(b) {
		return 0, false
	}
	w := b[i/64] >> (i % 64)
	if w == 0 {
		return 0, false
	}
	return i + uint32(bits.TrailingZeros64(w)), true
}

// nextFrom is nextInWord over all words; used on the top level, which has one
// word per 262,144 slots.
func (b bitmap) nextFrom(i uint32) (uint32, bool) {
	for int(i/64) < len(b) {
		if j, ok := b.nextInWord(i); ok {
			return j, true
		}
		i = (i/64 + 1) * 64
	}
	return 0, false
}
