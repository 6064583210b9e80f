// SPDX-License-Identifier: Apache-2.0

package crashtest

import (
	"math"
	"testing"
)

// The judge is the oracle of everything else, so each rule is shown to accept
// what is right and to refuse what is wrong.
func TestJudge(t *testing.T) {
	stored := func(v int, begin, end uint64) event {
		return event{kind: evStore, outcome: done, version: v, begin: begin, end: end}
	}
	removed := func(begin, end uint64) event { return event{kind: evRemove, outcome: done, begin: begin, end: end} }
	touched := func(begin, end uint64, expires int64) event {
		return event{kind: evTouch, outcome: done, begin: begin, end: end, expireFrom: expires, expireTo: expires}
	}
	with := func(e event, o outcome) event {
		e.outcome = o
		if o == pending {
			e.end = 0
		}
		return e
	}
	expiring := func(e event, from, to int64) event {
		e.expireFrom, e.expireTo = from, to
		return e
	}
	sealed := func(e event) event {
		e.sealed = true
		return e
	}
	hit := func(v int) observation { return observation{status: foundHit, version: v} }
	gone := observation{status: foundNothing}
	for _, tc := range []struct {
		name    string
		events  []event
		see     observation
		relaxed bool
		faulty  bool
		want    kind // "" for nothing
	}{
		{name: "nothing, nothing", see: gone},
		{name: "acknowledged and there", events: []event{stored(0, 1, 2)}, see: hit(0)},
		{name: "acknowledged and gone", events: []event{stored(0, 1, 2)}, see: gone, want: kindLost},
		{name: "in flight and there", events: []event{with(stored(0, 1, 0), pending)}, see: hit(0)},
		{name: "in flight and gone", events: []event{with(stored(0, 1, 0), pending)}, see: gone},
		{name: "exists and gone", events: []event{with(stored(0, 1, 0), pending), with(stored(1, 2, 3), held)}, see: gone, want: kindLost},
		{name: "refused and there", events: []event{with(stored(0, 1, 2), refused)}, see: hit(0), want: kindPhantom},
		{name: "exists does not publish", events: []event{with(stored(0, 1, 2), held)}, see: hit(0), want: kindPhantom},
		{name: "removed and there", events: []event{stored(0, 1, 2), removed(3, 4)}, see: hit(0), want: kindResurrected},
		{name: "removed and gone", events: []event{stored(0, 1, 2), removed(3, 4)}, see: gone},
		{name: "missing and there", events: []event{stored(0, 1, 2), with(removed(3, 4), held)}, see: hit(0), want: kindResurrected},
		{name: "missing does not remove", events: []event{stored(0, 1, 2), with(removed(3, 4), held)}, see: gone, want: kindLost},
		{name: "remove in flight", events: []event{stored(0, 1, 2), with(removed(3, 0), pending)}, see: gone},
		{name: "remove in flight without effect", events: []event{stored(0, 1, 2), with(removed(3, 0), pending)}, see: hit(0)},
		{name: "remove beside the store", events: []event{stored(0, 1, 4), removed(2, 3)}, see: hit(0)},
		{name: "remove beside the store came last", events: []event{stored(0, 1, 4), removed(2, 3)}, see: gone},
		{name: "pinned does not remove", events: []event{stored(0, 1, 2), with(removed(3, 4), refused)}, see: gone, want: kindLost},
		{name: "overwritten", events: []event{stored(0, 1, 2), stored(1, 3, 4)}, see: hit(0), want: kindResurrected},
		{name: "overwrite in flight, old", events: []event{stored(0, 1, 2), with(stored(1, 3, 0), pending)}, see: hit(0)},
		{name: "overwrite in flight, new", events: []event{stored(0, 1, 2), with(stored(1, 3, 0), pending)}, see: hit(1)},
		{name: "overwrite in flight, neither", events: []event{stored(0, 1, 2), with(stored(1, 3, 0), pending)}, see: gone, want: kindLost},
		{name: "unresolved overwrite hides under a fault", events: []event{stored(0, 1, 2), with(stored(1, 3, 4), unknown)}, see: gone, faulty: true},
		{name: "expired and gone", events: []event{expiring(stored(0, 1, 2), 5, 6)}, see: gone},
		{name: "expired and there", events: []event{expiring(stored(0, 1, 2), 5, 6)}, see: hit(0), want: kindResurrected},
		{name: "not expired and gone", events: []event{expiring(stored(0, 1, 2), 11, 12)}, see: gone, want: kindLost},
		{name: "touched to live longer and there", events: []event{expiring(stored(0, 1, 2), 5, 6), touched(3, 4, 12)}, see: hit(0)},
		{name: "touched to live longer and gone", events: []event{expiring(stored(0, 1, 2), 5, 6), touched(3, 4, 12)}, see: gone, want: kindLost},
		{name: "touched to end and there", events: []event{stored(0, 1, 2), touched(3, 4, 5)}, see: hit(0), want: kindResurrected},
		{name: "touched to end and gone", events: []event{stored(0, 1, 2), touched(3, 4, 5)}, see: gone},
		{name: "touched twice, the first is over", events: []event{stored(0, 1, 2), touched(3, 4, 5), touched(5, 6, 12)}, see: hit(0)},
		{name: "touched twice, the last ended it", events: []event{stored(0, 1, 2), touched(3, 4, 12), touched(5, 6, 5)}, see: hit(0), want: kindResurrected},
		{name: "touches beside each other", events: []event{stored(0, 1, 2), touched(3, 6, 12), touched(4, 5, 5)}, see: hit(0)},
		{name: "touches beside each other, gone", events: []event{stored(0, 1, 2), touched(3, 6, 12), touched(4, 5, 5)}, see: gone},
		{name: "touch in flight, longer", events: []event{expiring(stored(0, 1, 2), 5, 6), with(touched(3, 0, 12), pending)}, see: hit(0)},
		{name: "touch in flight, not longer", events: []event{expiring(stored(0, 1, 2), 5, 6), with(touched(3, 0, 12), pending)}, see: gone},
		{name: "touch refused", events: []event{expiring(stored(0, 1, 2), 5, 6), with(touched(3, 4, 12), refused)}, see: hit(0), want: kindResurrected},
		{name: "touched before it was stored", events: []event{touched(1, 2, 5), stored(0, 3, 4)}, see: hit(0)},
		{name: "a touch of the last version does not end this one", events: []event{touched(1, 2, 5), stored(0, 3, 4)}, see: gone, want: kindLost},
		{name: "touched and removed", events: []event{stored(0, 1, 2), touched(3, 4, 12), removed(5, 6)}, see: hit(0), want: kindResurrected},
		{name: "relaxed, a touch that is not sealed", events: []event{sealed(expiring(stored(0, 1, 2), 5, 6)), touched(3, 4, 12)}, see: gone, relaxed: true},
		{name: "relaxed, a sealed touch", events: []event{sealed(expiring(stored(0, 1, 2), 5, 6)), sealed(touched(3, 4, 12))}, see: gone, relaxed: true, want: kindLost},
		{name: "forgotten and there", see: hit(0), want: kindResurrected},
		{name: "no version's bytes", events: []event{stored(0, 1, 2)}, see: hit(-1), want: kindWrong},
		{name: "corrupt", events: []event{stored(0, 1, 2)}, see: observation{status: foundCorrupt}, want: kindWrong},
		{name: "load refused", events: []event{stored(0, 1, 2)}, see: observation{status: foundError}, want: kindBroken},
		{name: "load refused under a fault", events: []event{stored(0, 1, 2)}, see: observation{status: foundError}, faulty: true, want: kindBroken},
		{name: "relaxed, lost", events: []event{stored(0, 1, 2)}, see: gone, relaxed: true},
		{name: "relaxed, back", events: []event{stored(0, 1, 2), removed(3, 4)}, see: hit(0), relaxed: true},
		{name: "relaxed, corrupt", events: []event{stored(0, 1, 2)}, see: observation{status: foundCorrupt}, relaxed: true},
		{name: "relaxed, phantom", events: []event{with(stored(0, 1, 2), refused)}, see: hit(0), relaxed: true, want: kindPhantom},
		{name: "relaxed, sealed and lost", events: []event{sealed(stored(0, 1, 2))}, see: gone, relaxed: true, want: kindLost},
		{name: "a lookup hits", events: []event{stored(0, 1, 2)}, see: observation{status: foundSome}},
		{name: "a lookup hits nothing", events: []event{stored(0, 1, 2), removed(3, 4)}, see: observation{status: foundSome}, want: kindResurrected},
	} {
		t.Run(tc.name, func(t *testing.T) {
			j := judge{
				key:   keySnapshot{name: keyName{"default", "k"}, versions: make([]version, 2), events: tc.events},
				since: 10, now: 10, begin: math.MaxUint64, end: math.MaxUint64, crashed: true, relaxed: tc.relaxed, faulty: tc.faulty,
			}
			got := kind("")
			if f := j.observe(tc.see); f != nil {
				got = f.kind
			}
			if got != tc.want {
				t.Errorf("got finding %q, want %q", got, tc.want)
			}
		})
	}
}

// An observation judges only what had ended when it began.
func TestJudgeConcurrentLoad(t *testing.T) {
	events := []event{
		{kind: evStore, outcome: done, begin: 1, end: 2},
		{kind: evRemove, outcome: done, begin: 3, end: 6},
	}
	j := judge{key: keySnapshot{events: events, versions: make([]version, 1)}, begin: 5, end: 7}
	if f := j.observe(observation{status: foundHit}); f != nil {
		t.Errorf("a load beside the remove: got %v, want nothing", f.text)
	}
	j.begin, j.end = 7, 8
	if f := j.observe(observation{status: foundHit}); f == nil {
		t.Error("a load after the remove: got nothing, want a finding")
	}
}

func TestPayloadNamesItsVersion(t *testing.T) {
	a, b := keyName{"default", "a"}, keyName{"tenant", "a"}
	buf := make([]byte, 10_001)
	fill(buf, payloadSeed(a, 3), 0)
	if _, ok := same(buf, payloadSeed(a, 3), 0); !ok {
		t.Fatal("a payload does not match itself")
	}
	if _, ok := same(buf[4096:], payloadSeed(a, 3), 4096); !ok {
		t.Error("a part of a payload does not match itself")
	}
	for _, other := range []uint64{payloadSeed(a, 2), payloadSeed(b, 3)} {
		if _, ok := same(buf, other, 0); ok {
			t.Error("a payload matches another version")
		}
	}
	buf[10_000] ^= 1
	if at, ok := same(buf, payloadSeed(a, 3), 0); ok || at != 10_000 {
		t.Errorf("flipped last byte: got place %d, match %v", at, ok)
	}
}

// An answer that a key exists rests on an older version. While it may still be
// asked what became of the key, that version and its expiry are remembered.
func TestPruneKeepsWhatExistsRestsOn(t *testing.T) {
	m := newModel([]keyName{{"default", "k"}}, false, 0)
	do := func(kind eventKind, o outcome, ttl int64) {
		m.end([]int{0}, m.begin(kind, []int{0}, []int64{1}, ttl), []answer{{outcome: o}}, ttl)
	}
	for range 6 {
		do(evStore, done, 0)
	}
	do(evStore, done, 10)
	exists := m.begin(evStore, []int{0}, []int64{1}, 0)
	m.advance(20)
	do(evRemove, held, 0) // missing: the version has expired
	m.end([]int{0}, exists, []answer{{outcome: held}}, 0)
	s := m.freeze(func() {})
	j := judge{key: s.keys[0], begin: math.MaxUint64, end: math.MaxUint64, since: m.clock(), now: m.clock(), crashed: true}
	if f := j.observe(observation{status: foundNothing}); f != nil {
		t.Errorf("absent after it expired: %s", f.text)
	}
}

// A touch that finds nothing asserts that there is nothing, and one that finds a
// key puts nothing of it out of reach.
func TestTouchInTheModel(t *testing.T) {
	m := newModel([]keyName{{"default", "k"}}, false, 100)
	do := func(kind eventKind, o outcome, ttl int64) {
		m.end([]int{0}, m.begin(kind, []int{0}, []int64{1}, ttl), []answer{{outcome: o}}, ttl)
	}
	do(evStore, done, 10)
	for range 20 {
		do(evTouch, done, 30)
	}
	if got := m.freeze(func() {}).keys[0].events; got[0].kind != evStore {
		t.Errorf("the store that the touches rest on is forgotten: %+v", got)
	}
	h := &history{events: eventsOf(m)}
	if from, to := h.expiryOf(0, func(*event) bool { return true }); from != 130 || to != 130 {
		t.Errorf("expires from %d to %d, want 130", from, to)
	}
	if from, to := h.expiryOf(0, func(*event) bool { return false }); from != 110 || to != 130 {
		t.Errorf("expires from %d to %d if any touch may be lost, want 110 to 130", from, to)
	}
	do(evTouch, held, 30)
	s := m.freeze(func() {})
	j := judge{key: s.keys[0], begin: math.MaxUint64, end: math.MaxUint64, since: 100, now: 100, crashed: true}
	if f := j.observe(observation{status: foundHit}); f == nil || f.kind != kindResurrected {
		t.Errorf("there after a touch said that it is missing: %+v", f)
	}
}

// eventsOf returns the events of the model's first key.
func eventsOf(m *model) []*event {
	var out []*event
	for _, e := range m.freeze(func() {}).keys[0].events {
		out = append(out, &e)
	}
	return out
}

// What a later settled event has put out of reach is forgotten; what may still
// matter is kept.
func TestPrune(t *testing.T) {
	m := newModel([]keyName{{"default", "k"}}, false, 0)
	for range 20 {
		events := m.begin(evStore, []int{0}, []int64{1}, 0)
		m.end([]int{0}, events, []answer{{outcome: done}}, 0)
	}
	late := m.begin(evRemove, []int{0}, nil, 0)
	s := m.freeze(func() {})
	if n := len(s.keys[0].events); n > 9 {
		t.Errorf("%d events kept, want at most 9", n)
	}
	j := judge{key: s.keys[0], begin: math.MaxUint64, end: math.MaxUint64, crashed: true}
	if f := j.hit(19); f != nil {
		t.Errorf("the newest version: %s", f.text)
	}
	if f := j.hit(3); f == nil {
		t.Error("an old version: got nothing, want a finding")
	}
	m.end([]int{0}, late, []answer{{outcome: done}}, 0)
}
