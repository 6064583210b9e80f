// SPDX-License-Identifier: Apache-2.0

package ioengine

import (
	"testing"

	"pgregory.net/rapid"
)

// TestBuddyModel keeps a map of pages beside the allocator: no run overlaps
// another, fits never lies, freed runs merge as far as they can.
func TestBuddyModel(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		const pieces = 3
		b := newBuddy(pieces)
		used := make([]bool, pieces*piecePages)
		runs := map[int32]int{}
		var order []int32
		for range rapid.IntRange(1, 200).Draw(t, "steps") {
			if len(order) == 0 || rapid.Bool().Draw(t, "alloc") {
				pages := rapid.IntRange(1, piecePages).Draw(t, "pages")
				if !b.fits(0, pages) {
					continue
				}
				page := b.alloc(pages)
				for p := page; p < page+int32(pages); p++ {
					if used[p] {
						t.Fatalf("page %d is in two runs", p)
					}
					used[p] = true
				}
				runs[page] = pages
				order = append(order, page)
			} else {
				i := rapid.IntRange(0, len(order)-1).Draw(t, "which")
				page := order[i]
				order = append(order[:i], order[i+1:]...)
				for p := page; p < page+int32(runs[page]); p++ {
					used[p] = false
				}
				b.free(page, runs[page])
			}
			checkBuddy(t, b, used)
		}
	})
}

// checkBuddy compares the free blocks with the map: exactly the free pages, and
// in the largest blocks possible.
func checkBuddy(t *rapid.T, b *buddy, used []bool) {
	free := func(from, pages int) bool {
		for p := from; p < from+pages; p++ {
			if used[p] {
				return false
			}
		}
		return true
	}
	listed := 0
	for o := range b.head {
		blocks := 0
		for p := b.head[o]; p != noPage; p = b.next[p] {
			blocks++
			listed += 1 << o
			if !free(int(p), 1<<o) {
				t.Fatalf("block of %d pages at %d is on the free list and in use", 1<<o, p)
			}
			if whole := int(p) &^ (1 << o); o < pieceOrder && free(whole, 2<<o) {
				t.Fatalf("block of %d pages at %d was not merged with its buddy", 1<<o, p)
			}
		}
		if blocks != b.count[o] {
			t.Fatalf("order %d: %d blocks listed, %d counted", o, blocks, b.count[o])
		}
	}
	want := 0
	for _, u := range used {
		if !u {
			want++
		}
	}
	if listed != want {
		t.Fatalf("%d pages on the free lists, %d are free", listed, want)
	}
}
