// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"testing"
	"testing/synctest"
	"time"
)

// modelEvents is what events must do, kept in the simplest way: all that ever was.
type modelEvents struct {
	t     *testing.T
	e     *events
	s     *Store
	rng   *rand.Rand
	past  []string // namespaces of all events
	gaps  int
	views map[string]*modelNumbers // by rig's name of the view
	feeds []*modelFeed
	given []uint64 // some numbers that were handed out

	resumed, anew, lost, skipped int
}

// modelNumbers is the numbering of a view.
type modelNumbers struct {
	start uint64
	from  int // of past
	gaps  int // that there were before
	feeds int
	quiet time.Time
}

// modelFeed is one feed; at is how much of past it has been told.
type modelFeed struct {
	*Feed
	of   *modelNumbers
	view View
	at   int
	seq  uint64
	due  uint64 // synced comes no earlier
}

func (m *modelEvents) alive(n *modelNumbers) bool {
	return n != nil && n.gaps == m.gaps && (n.feeds > 0 || time.Since(n.quiet) <= m.e.linger)
}

// count is how many events of a view there are in part of the past.
func count(past []string, v View) (n uint64) {
	for _, name := range past {
		if v.has(name) {
			n++
		}
	}
	return n
}

// kept is the first of past that is in the ring.
func (m *modelEvents) kept() int { return max(0, len(m.past)-int(m.e.size)) }

func (m *modelEvents) tell() {
	list := make([]Event, 1+m.rng.IntN(5))
	for i := range list {
		list[i].Namespace = []string{"a", "b", "b", "b", "c", "d", "d"}[m.rng.IntN(7)]
		m.past = append(m.past, list[i].Namespace)
	}
	whole := m.e.wanted(len(list))
	if whole && m.rng.IntN(200) == 0 {
		whole = false
		m.gaps++
	}
	m.e.tell(told{n: len(list), events: list, whole: whole})
}

// begin begins a feed somewhere, and checks whether it went on there.
func (m *modelEvents) begin() {
	space := []string{"", "a", "b", "a,c", "a,b,c,d", "x"}[m.rng.IntN(6)]
	v, n := viewOf(space), m.views[space]
	since := uint64(0)
	if n != nil && m.rng.IntN(4) > 0 {
		back := m.rng.IntN(8)
		since = n.start + count(m.past[n.from:], v) + 1 - uint64(back*back)
	} else if len(m.given) > 0 {
		since = m.given[m.rng.IntN(len(m.given))]
	}
	p, err := m.e.listen(context.Background(), v, since)
	if err != nil {
		m.t.Fatal(err)
	}
	if !m.alive(n) {
		n = &modelNumbers{start: p.start, from: len(m.past), gaps: m.gaps}
		m.views[space] = n
	}
	n.feeds++
	last := n.start + count(m.past[n.from:], v)
	f := &modelFeed{Feed: &Feed{s: m.s, nums: p.numbering, next: p.next, seq: p.seq, target: m.e.last()}, of: n, view: v, at: len(m.past), seq: last, due: last}
	want := since >= n.start && since <= last && count(m.past[m.kept():], v) >= last-since
	if want {
		for f.seq = since; count(m.past[f.at:], v) < last-since; f.at-- {
		}
		m.resumed++
	} else {
		m.anew++
	}
	if p.resumed != want || p.seq != f.seq || p.start != n.start {
		m.t.Fatalf("%q since %d: resumed %v after %d; want %v after %d; numbers from %d to %d", space, since, p.resumed, p.seq, want, f.seq, n.start, last)
	}
	m.feeds = append(m.feeds, f)
}

// next takes what a feed has next, if anything; false: it is lost.
func (m *modelEvents) next(f *modelFeed) bool {
	i := f.at
	for i < len(m.past) && !f.view.has(m.past[i]) {
		i++
	}
	lost := f.of.gaps != m.gaps || i < len(m.past) && i < m.kept()
	if f.at < m.kept() && !lost {
		m.skipped++
	}
	ev, err := f.Next(ended())
	for ; err == nil && ev.Kind == EventSynced; ev, err = f.Next(ended()) {
		if ev.Seq != f.seq || ev.Seq < f.due {
			m.t.Fatalf("synced at %d after %d, due at %d", ev.Seq, f.seq, f.due)
		}
	}
	switch {
	case lost:
		if _, end := f.Next(ended()); err != nil || ev.Kind != EventLost || ev.Seq != 0 || !errors.Is(end, io.EOF) {
			m.t.Fatalf("got %v and %v, then %v; want lost", tellEvent(ev), err, end)
		}
		m.lost++
		return false
	case i == len(m.past):
		if !errors.Is(err, context.Canceled) {
			m.t.Fatalf("got %v and %v, want nothing after %d", tellEvent(ev), err, f.seq)
		}
	case err != nil || ev.Namespace != m.past[i] || ev.Seq != f.seq+1:
		m.t.Fatalf("got %v and %v, want %d of %q", tellEvent(ev), err, f.seq+1, m.past[i])
	default:
		f.at, f.seq = i+1, ev.Seq
		m.given = append(m.given, ev.Seq)
	}
	if seen, last := f.Seen(), f.Last(); seen != f.seq || last != f.of.start+count(m.past[f.of.from:], f.view) {
		m.t.Fatalf("seen %d, last %d after %d", seen, last, f.seq)
	}
	return true
}

func (m *modelEvents) end(i int) {
	f := m.feeds[i]
	f.Close()
	f.of.feeds--
	f.of.quiet = time.Now()
	m.feeds = append(m.feeds[:i], m.feeds[i+1:]...)
}

// Whatever comes in whatever order: where feeds go on, what they are told and with which
// numbers is what one finds who remembers everything.
func TestEventsModel(t *testing.T) {
	for seed := range uint64(40) {
		t.Run(fmt.Sprint("seed ", seed), func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				m := &modelEvents{t: t, e: newEvents(), rng: rand.New(rand.NewPCG(31, seed)), views: map[string]*modelNumbers{}}
				m.e.size = 1 + uint64(m.rng.IntN(64))
				m.s = &Store{events: m.e, o: Options{Now: time.Now}}
				for range 2000 {
					switch m.rng.IntN(12) {
					case 0, 1, 2, 3:
						m.tell()
					case 4:
						m.begin()
					case 5:
						if len(m.feeds) > 0 {
							m.end(m.rng.IntN(len(m.feeds)))
						}
					case 6:
						time.Sleep(time.Duration(m.rng.IntN(40)) * time.Second)
					default:
						m.some()
					}
				}
				if m.resumed == 0 || m.anew == 0 {
					t.Errorf("resumed %d, anew %d", m.resumed, m.anew)
				}
				t.Logf("ring of %d: resumed %d, anew %d, lost %d, gone on behind others' %d", m.e.size, m.resumed, m.anew, m.lost, m.skipped)
			})
		})
	}
}

// some takes some events of a feed.
func (m *modelEvents) some() {
	if len(m.feeds) == 0 {
		return
	}
	i := m.rng.IntN(len(m.feeds))
	for range m.rng.IntN(10) {
		if !m.next(m.feeds[i]) {
			m.end(i)
			return
		}
	}
}
