// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

func TestViews(t *testing.T) {
	views := []View{{}, ViewOfAll(), ViewOf(), ViewOf("a"), ViewOf("a", "b"), ViewOf("a b"), ViewOf(`a" "b`), ViewOf("*")}
	for i, v := range views {
		for j, w := range views {
			if v.Equal(w) != (i == j) {
				t.Errorf("%q and %q: equal is %v", v.key, w.key, v.Equal(w))
			}
		}
	}
	given := []string{"c", "a", "c", "b"}
	v := ViewOf(given...)
	if !v.Equal(ViewOf("a", "b", "c")) || given[0] != "c" {
		t.Errorf("%q of %q", v.key, given)
	}
	if !v.has("a") || !v.has("b") || !v.has("c") || v.has("d") || v.has("") || (View{}).has("") || !ViewOfAll().has("x") {
		t.Error("what is in a view")
	}
}

// Numbers stay exact where they are doubles, and no two starts are alike.
func TestWhereNumbersStart(t *testing.T) {
	seen := map[uint64]bool{}
	var all uint64
	for range 1000 {
		n := drawStart()
		if n < 1 || n > 1<<52 || seen[n] {
			t.Fatalf("drew %d", n)
		}
		seen[n] = true
		all |= n - 1
	}
	if all != 1<<52-1 {
		t.Errorf("some bits are never drawn: %b", all)
	}
}

// What a reader of one namespace is told is the same, whatever others store, remove and
// listen to: numbers, where it may go on, and what a reader who was away is told.
func TestOthersDoNotShow(t *testing.T) {
	tell := func(others func(r *rig, n int)) (out []string) {
		r := newRig(t, func(o *rigOptions) { o.spaces = []Namespace{{Name: ns}, {Name: "other"}} })
		r.s.events.size = 64
		r.s.events.draw = func() uint64 { return 5000 }
		round := 0
		var f *Feed
		note := func(do string) {
			round++
			others(r, round)
			got := drain(t, f)
			sortSnapshot(got)
			out = append(out, fmt.Sprintf("%s: %s; seen %d, last %d", do, strings.Join(got, ", "), f.Seen(), f.Last()))
		}
		again := func(do string) {
			since := f.Seen()
			f.Close()
			round++
			others(r, round)
			f = r.feed(ns, since)
			note(do)
		}
		others(r, 0)
		r.mustStore(10, "old")
		f = r.feed(ns, 0)
		note("begins")
		note("nothing happens")
		r.mustStore(10, "a")
		note("stored")
		again("comes back")
		f.Close()
		r.remove(false, "old")
		f = r.feed(ns, 5001)
		note("comes back after a change")
		r.s.events.linger = -1
		again("comes back late")
		r.mustStore(10, "b")
		note("stored")
		return out
	}
	var theirs *Feed
	alone := tell(func(*rig, int) {})
	beside := tell(func(r *rig, n int) {
		if n == 0 {
			theirs = r.feed("", 0) // so events are kept all the time
		}
		keys := names(3 * n)
		r.storeIn("other", 10, keys...)
		if _, err := r.s.Remove(context.Background(), "other", keys, false); err != nil {
			t.Fatal(err)
		}
		drain(t, theirs)
		r.feed("other", 0).Close()
	})
	if d := cmp.Diff(alone, beside); d != "" {
		t.Errorf("alone (-) and beside others (+):\n%s", d)
	}
	want := []string{
		"begins: 0 snapshot default/old 10, 5000 synced; seen 5000, last 5000",
		"nothing happens: ; seen 5000, last 5000",
		"stored: 5001 stored default/a 10; seen 5001, last 5001",
		"comes back: 5001 synced; seen 5001, last 5001",
		"comes back after a change: 5002 removed default/old 10 removed, 5002 synced; seen 5002, last 5002",
		"comes back late: 0 snapshot default/a 10, 5000 synced; seen 5000, last 5000",
		"stored: 5001 stored default/b 10; seen 5001, last 5001",
	}
	if d := cmp.Diff(want, alone); d != "" {
		t.Error(d)
	}
}

// Others may fill the ring: a reader that misses nothing by that goes on, whether it was
// away or not, and one that does is told so, never skips an event.
func TestOthersFillTheRing(t *testing.T) {
	for _, space := range []string{ns, "default,third"} {
		t.Run(space, func(t *testing.T) {
			r := newRig(t, func(o *rigOptions) { o.spaces = []Namespace{{Name: ns}, {Name: "other"}, {Name: "third"}} })
			r.s.events.size = 8
			there := false
			flood := func(n int) {
				t.Helper()
				for range n {
					if there = !there; there {
						r.storeIn("other", 10, "o")
					} else if _, err := r.s.Remove(context.Background(), "other", []string{"o"}, false); err != nil {
						t.Fatal(err)
					}
				}
			}
			want := func(what string, f *Feed, want ...string) {
				t.Helper()
				got := drain(t, f)
				sortSnapshot(got)
				if d := cmp.Diff(want, got, cmpEmpty); d != "" {
					t.Errorf("%s: %s", what, d)
				}
			}
			here, away := r.feed(space, 0), r.feed(space, 0)
			want("begins", here, "1000 synced")
			r.mustStore(10, "a")
			want("its own", here, "1001 stored default/a 10")
			away.Close()
			flood(20)
			want("nothing but others'", here)
			want("back, with nothing missed", r.feed(space, 1001), "1001 synced")

			flood(20)
			r.mustStore(10, "b")
			flood(7)
			want("behind others', with its own still there", here, "1002 stored default/b 10")
			want("the same, back", r.feed(space, 1001), "1002 stored default/b 10", "1002 synced")

			r.mustStore(10, "c")
			flood(8)
			want("back, with something missed", r.feed(space, 1002),
				"0 snapshot default/a 10", "0 snapshot default/b 10", "0 snapshot default/c 10", "1003 synced")
			want("here, with something missed", here, "0 lost")
			if _, err := here.Next(context.Background()); !errors.Is(err, io.EOF) {
				t.Errorf("after lost: %v", err)
			}
		})
	}
}

var cmpEmpty = cmp.Transformer("nil", func(s []string) string { return strings.Join(s, "\n") })

// Where events were not told whole, all readers begin anew, with other numbers.
func TestGapInEvents(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.spaces = []Namespace{{Name: ns}, {Name: "other"}} })
	all, mine := r.feed("", 0), r.feed(ns, 0)
	drain(t, all)
	drain(t, mine)
	r.mustStore(10, "a")
	r.s.events.turn <- struct{}{}
	r.s.events.tell(told{n: 1})
	<-r.s.events.turn
	for space, f := range map[string]*Feed{"": all, ns: mine} {
		if n := f.Last(); n != f.Seen() {
			t.Errorf("of %q: last %d", space, n)
		}
		if d := cmp.Diff([]string{"0 lost"}, drain(t, f)); d != "" {
			t.Errorf("of %q: %s", space, d)
		}
	}
	for i, since := range []uint64{2000, 2001, 2002} {
		f := r.feed(ns, since)
		if d := cmp.Diff([]string{"0 snapshot default/a 10", "3000 synced"}, drain(t, f)); d != "" {
			t.Errorf("%d, since %d: %s", i, since, d)
		}
	}
}

// Whoever looks through a long ring lets others have the lock now and then, and takes
// note of what they do meanwhile.
func TestOthersMeanwhile(t *testing.T) {
	const size = 4 * locateSteps
	for name, tt := range map[string]struct {
		room      int // in the ring
		at        int // which time that the lock is let go
		meanwhile func(e *events)
		resumed   bool
		seq       uint64 // after the start; if resumed, 0
		next      string // of the feed, after synced
	}{
		"nothing":                   {0, 2, func(*events) {}, true, 0, "1 a, 1 Next"},
		"more of its own":           {10, 2, func(e *events) { tellOf(e, 5, "a", "a") }, true, 0, "1 a, 2 a, 3 a, 4 a, 5 a, 6 a, 6 Next"},
		"more of others":            {10, 2, func(e *events) { tellOf(e, 10, "other", "other") }, true, 0, "1 a, 1 Next"},
		"too much":                  {10, 2, func(e *events) { tellOf(e, 11, "other", "other") }, false, 1, "1 Next"},
		"much too much":             {10, 2, func(e *events) { tellOf(e, 2*size, "a", "other") }, false, 2, "2 Next"},
		"too much at the end":       {0, 4, func(e *events) { tellOf(e, 1, "other", "other") }, true, 0, "0 lost"},
		"what is not told":          {0, 2, func(e *events) { e.tell(told{n: 1}) }, false, 7000, "7000 Next"},
		"what is not told, in room": {10, 3, func(e *events) { e.tell(told{n: 1}) }, false, 7000, "7000 Next"},
		"the same at the end":       {0, 4, func(e *events) { e.tell(told{n: 1}) }, false, 7000, "7000 Next"},
	} {
		t.Run(name, func(t *testing.T) {
			const start = 1000
			e := newEvents()
			e.size = size
			starts := []uint64{start, start + 7000}
			e.draw = func() (n uint64) { n, starts = starts[0], starts[1:]; return n }
			v := ViewOf("a", "b")
			if _, err := e.listen(context.Background(), v, 0); err != nil {
				t.Fatal(err)
			}
			tellOf(e, size-tt.room, "a", "other")
			times := 0
			e.yielded = func() {
				if times++; times == tt.at {
					tt.meanwhile(e)
				}
			}
			p, err := e.listen(context.Background(), v, start)
			if err != nil || p.resumed != tt.resumed || p.seq-start != tt.seq || times < tt.at || times < 3 && tt.resumed {
				t.Fatalf("resumed %v after %d, %v, let go %d times", p.resumed, p.seq-start, err, times)
			}
			e.yielded = nil
			f := &Feed{s: &Store{events: e, o: Options{Now: time.Now}}, nums: p.numbering, next: p.next, seq: p.seq, synced: true}
			var got []string
			for {
				ev, err := f.Next(ended())
				if err != nil {
					got = append(got, fmt.Sprint(f.Seen()-start, " Next"))
					break
				}
				if ev.Kind == EventLost {
					got = append(got, fmt.Sprint(ev.Seq, " lost"))
					break
				}
				got = append(got, fmt.Sprint(ev.Seq-start, " ", ev.Namespace))
			}
			if got := strings.Join(got, ", "); got != tt.next {
				t.Errorf("then %s, want %s", got, tt.next)
			}
		})
	}
	e := newEvents()
	p, err := e.listen(context.Background(), ViewOf("a"), 0)
	if err != nil {
		t.Fatal(err)
	}
	tellOf(e, size, "other", "other")
	times := 0
	e.yielded = func() { times++ }
	f := &Feed{s: &Store{events: e, o: Options{Now: time.Now}}, nums: p.numbering, next: p.next, seq: p.seq, synced: true}
	if _, err := f.Next(ended()); !errors.Is(err, context.Canceled) || times < 3 {
		t.Errorf("a reader behind others': %v, let go %d times", err, times)
	}
}

// tellOf tells events of others, behind one of first.
func tellOf(e *events, n int, first, others string) {
	list := make([]Event, n)
	for i := range list {
		list[i].Namespace = others
	}
	list[0].Namespace = first
	e.tell(told{n: n, events: list, whole: true})
}

// How many views there were says nothing about how many are remembered.
func TestNumberingsAreForgotten(t *testing.T) {
	r := newRig(t)
	kept := r.feed("kept", 0)
	drain(t, kept)
	r.s.events.linger = -1
	for i := range 1000 {
		r.feed(fmt.Sprint("other", i), 0).Close()
		r.s.events.mu.Lock()
		n := len(r.s.events.numberings)
		r.s.events.mu.Unlock()
		if n > minPrune+2 {
			t.Fatalf("%d numberings for one feed", n)
		}
	}
	if d := cmp.Diff([]string{"1000 synced"}, drain(t, r.feed("kept", 1000))); d != "" {
		t.Errorf("the one that has a feed: %s", d)
	}
}

// benchEvents is a full ring of events of others, behind one of "mine".
func benchEvents(names []string) (e *events, since uint64) {
	e = newEvents()
	ctx := context.Background()
	p, _ := e.listen(ctx, ViewOf(names...), 0)
	list := make([]Event, eventRing)
	for i := range list {
		list[i].Namespace = strings.Clone("other")
	}
	list[0].Namespace = names[0]
	e.tell(told{n: len(list), events: list, whole: true})
	return e, p.seq
}

// BenchmarkResume goes on where all but one of the events in the ring are of others.
func BenchmarkResume(b *testing.B) {
	for _, n := range []int{1, 16} {
		b.Run(fmt.Sprint("names=", n), func(b *testing.B) {
			all := names(n)
			slices.Sort(all)
			e, since := benchEvents(all)
			v := ViewOf(all...)
			for b.Loop() {
				p, _ := e.listen(context.Background(), v, since)
				if !p.resumed {
					b.Fatal("a snapshot")
				}
				e.leave(p.numbering)
			}
		})
	}
}
