// SPDX-License-Identifier: Apache-2.0

package store

import (
	"testing"

	"pgregory.net/rapid"
)

// The history remembers the keys that left last, each once and with why it left
// last, and says so once it has forgotten one: against a plain list.
func TestHistoryRemembersTheLast(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		p := &history{size: rapid.IntRange(1, 6).Draw(t, "size")}
		var list []departure // oldest first
		forgot := false
		for range rapid.IntRange(0, 40).Draw(t, "sections") {
			var left []departure
			for range rapid.IntRange(0, 4).Draw(t, "departures") {
				d := departure{digest: digest{uint64(rapid.IntRange(0, 9).Draw(t, "key")), 0}, why: Reason(rapid.IntRange(int(ReasonEvicted), int(ReasonIOError)).Draw(t, "why"))}
				left = append(left, d)
				if d.why == ReasonReplaced {
					continue
				}
				for i := range list {
					if list[i].digest == d.digest {
						list = append(list[:i], list[i+1:]...)
						break
					}
				}
				if list = append(list, d); len(list) > p.size {
					list, forgot = list[1:], true
				}
			}
			p.pend(7, left)
			if rapid.Bool().Draw(t, "absorb") {
				p.absorb()
			}
		}
		for key := range 10 {
			want, wantAt := ReasonNeverStored, int64(0)
			if forgot {
				want = ReasonUnknown
			}
			for _, d := range list {
				if d.digest.hi == uint64(key) {
					want, wantAt = d.why, 7
				}
			}
			if got, at := p.of(digest{uint64(key), 0}); got != want || at != wantAt {
				t.Fatalf("key %d: %v at %d, want %v at %d", key, got, at, want, wantAt)
			}
		}
		if len(p.records) > p.size+1 || len(p.known) != len(list) {
			t.Fatalf("%d records and %d known for %d keys, size %d", len(p.records), len(p.known), len(list), p.size)
		}
	})
}

// The history's memory does not grow with what it forgets.
func TestHistoryIsBounded(t *testing.T) {
	p := &history{size: historySize}
	for i := range 3 * historySize {
		p.pend(1, []departure{{digest: digest{uint64(i), 1}, why: ReasonRemoved}})
		if i%1000 == 0 {
			p.absorb()
		}
	}
	if got, _ := p.of(digest{2 * historySize, 1}); got != ReasonRemoved {
		t.Errorf("the last but %d: %v", historySize, got)
	}
	if got, _ := p.of(digest{2*historySize - 1, 1}); got != ReasonUnknown {
		t.Errorf("the one before: %v", got)
	}
	if len(p.records) != historySize+1 || len(p.known) != historySize || len(p.pending) != 0 {
		t.Errorf("%d records, %d known, %d pending", len(p.records), len(p.known), len(p.pending))
	}
}

// A mass of departures is filed chunk by chunk, in their order, and a reader finds
// all of them.
func TestHistoryInChunks(t *testing.T) {
	p := history{size: historySize}
	d := uint64(0)
	for range 4 {
		left := make([]departure, chunk/2)
		for i := range left {
			d++
			left[i] = departure{digest: digest{hi: d}, why: ReasonCleared}
		}
		p.pend(1, left)
	}
	p.absorbChunk()
	if len(p.known) != chunk || !p.waiting.Load() {
		t.Errorf("%d filed in one section, want %d", len(p.known), chunk)
	}
	if why, at := p.of(digest{hi: d}); why != ReasonCleared || at != 1 || len(p.known) != 2*chunk {
		t.Errorf("the last one: %v at %d; %d filed", why, at, len(p.known))
	}
}
