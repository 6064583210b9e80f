// SPDX-License-Identifier: Apache-2.0

package ioengine

import (
	"fmt"
	"math/bits"
)

const (
	pieceOrder = 8 // a piece is 2^8 pages of ArenaAlign bytes
	piecePages = 1 << pieceOrder
	noPage     = int32(-1)
	notFree    = int8(-1)
)

// buddy hands out runs of up to piecePages adjacent pages from a region of
// whole pieces. It has no lock and touches no memory of the region.
//
// A run that is no power of two long is cut from the next larger block and the
// rest goes straight back, so a run costs its own pages and nothing else.
// Freed runs merge with their buddies at once: when nothing is in use, every
// free block is a whole piece again.
type buddy struct {
	// order[p] is the order of the free block that starts at page p, else
	// notFree. next and prev chain the free blocks of one order.
	order      []int8
	next, prev []int32
	head       [pieceOrder + 1]int32
	count      [pieceOrder + 1]int // free blocks by order
}

func newBuddy(pieces int) *buddy {
	pages := pieces * piecePages
	b := &buddy{
		order: make([]int8, pages),
		next:  make([]int32, pages),
		prev:  make([]int32, pages),
	}
	for i := range b.order {
		b.order[i] = notFree
	}
	for i := range b.head {
		b.head[i] = noPage
	}
	for p := pages - piecePages; p >= 0; p -= piecePages {
		b.push(int32(p), pieceOrder) // last first: the lowest address is handed out first
	}
	return b
}

// fits tells whether pieces whole pieces and one run of tail pages (0: none)
// can all be had now.
func (b *buddy) fits(pieces, tail int) bool {
	if tail > 0 && b.smallest(tail) == pieceOrder {
		pieces++ // the tail has to break up a piece
	}
	return b.count[pieceOrder] >= pieces && (tail == 0 || b.smallest(tail) >= 0)
}

// smallest returns the lowest order that has a free block of at least pages
// pages, or -1.
func (b *buddy) smallest(pages int) int {
	for o := bits.Len(uint(pages - 1)); o <= pieceOrder; o++ {
		if b.count[o] > 0 {
			return o
		}
	}
	return -1
}

// alloc takes a run of pages. The caller has asked fits.
func (b *buddy) alloc(pages int) (page int32) {
	o := b.smallest(pages)
	if o < 0 {
		panic(fmt.Sprintf("ioengine: arena has no run of %d pages though it said so", pages))
	}
	page = b.head[o]
	b.remove(page)
	b.free(page+int32(pages), 1<<o-pages)
	return page
}

// free gives a run of pages back, as the largest aligned blocks it consists of.
func (b *buddy) free(page int32, pages int) {
	for pages > 0 {
		o := min(bits.TrailingZeros32(uint32(page)), bits.Len(uint(pages))-1, pieceOrder)
		b.merge(page, o)
		page += 1 << o
		pages -= 1 << o
	}
}

func (b *buddy) merge(page int32, o int) {
	for o < pieceOrder {
		other := page ^ 1<<o
		if b.order[other] != int8(o) {
			break
		}
		b.remove(other)
		page &^= 1 << o
		o++
	}
	b.push(page, o)
}

func (b *buddy) push(page int32, o int) {
	first := b.head[o]
	b.order[page], b.next[page], b.prev[page] = int8(o), first, noPage
	if first != noPage {
		b.prev[first] = page
	}
	b.head[o] = page
	b.count[o]++
}

func (b *buddy) remove(page int32) {
	o := b.order[page]
	if o == notFree {
		panic(fmt.Sprintf("ioengine: arena page %d is not the start of a free block", page))
	}
	if b.prev[page] == noPage {
		b.head[o] = b.next[page]
	} else {
		b.next[b.prev[page]] = b.next[page]
	}
	if b.next[page] != noPage {
		b.prev[b.next[page]] = b.prev[page]
	}
	b.order[page] = notFree
	b.count[o]--
}
