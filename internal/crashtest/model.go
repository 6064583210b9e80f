// SPDX-License-Identifier: Apache-2.0

package crashtest

import (
	"slices"
	"sync"
)

// keyName is one key of one namespace.
type keyName struct{ ns, key string }

// String is short: some keys are long only to fill memtables.
func (n keyName) String() string { return n.ns + "/" + n.key[:min(len(n.key), 8)] }

// eventKind says what an event did or asserted.
type eventKind uint8

const (
	evStore  eventKind = iota // put a version in place
	evRemove                  // took whatever was there away
	evTouch                   // gave whatever was there a new expiry
)

// outcome is what the store answered.
type outcome uint8

const (
	pending outcome = iota // not answered yet
	done                   // ok
	held                   // exists, of a store; missing, of a remove: asserts a state without a change
	refused                // certainly no effect
	unknown                // an error that may hide an effect
)

// answer is what the store said about one key, and what that means.
type answer struct {
	outcome outcome
	word    string
}

// event is one operation on one key. Begin and end are ticks of the model; an
// end of 0 means not answered.
type event struct {
	kind       eventKind
	outcome    outcome
	version    int
	begin, end uint64
	// expiry of the version stored or touched, in Unix milliseconds, lies between
	// these; 0: never
	expireFrom, expireTo int64
	// sealed: survives any crash, in relaxed mode too
	sealed bool
	answer string // the store's word, for reports
}

// version is one payload that a store was asked to keep.
type version struct {
	length int64
	seed   uint64
}

// history is what the model knows of one key.
type history struct {
	name     keyName
	versions []version // by number; append only
	events   []*event
	watchers int  // operations and loads under way
	pinned   bool // a lease may hold it: then it outlives its expiry
}

// snapshot is the model at one instant; it shares nothing that changes.
type snapshot struct {
	tick          uint64
	now           int64 // Unix milliseconds of the run's clock
	keys          []keySnapshot
	maxGeneration uint64
	inited        bool // the label was acknowledged
}

// keySnapshot is one key of a snapshot.
type keySnapshot struct {
	name     keyName
	versions []version
	events   []event
	pinned   bool
}

// model records what was asked and what was answered.
type model struct {
	mu sync.Mutex
	// +checklocks:mu
	relaxed bool
	// +checklocks:mu
	tick uint64
	// +checklocks:mu
	now int64
	// +checklocks:mu
	keys []*history
	// +checklocks:mu
	maxGeneration uint64
	// +checklocks:mu
	inited bool
}

func newModel(names []keyName, relaxed bool, now int64) *model {
	m := &model{relaxed: relaxed, now: now, tick: 1}
	for _, n := range names {
		m.keys = append(m.keys, &history{name: n})
	}
	return m
}

// begin records operations about to be sent: one event per key. Length is that
// of the payload for stores, ttl the time to live in milliseconds, 0 for none.
func (m *model) begin(kind eventKind, keys []int, lengths []int64, ttl int64) []*event {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tick++
	events := make([]*event, len(keys))
	for i, k := range keys {
		h := m.keys[k]
		e := &event{kind: kind, begin: m.tick}
		if kind == evStore {
			e.version = len(h.versions)
			h.versions = append(h.versions, version{lengths[i], payloadSeed(h.name, e.version)})
		}
		if ttl > 0 {
			e.expireFrom, e.expireTo = m.now+ttl, 1<<62
		}
		h.watchers++
		h.events = append(h.events, e)
		events[i] = e
	}
	return events
}

// end records the answers.
func (m *model) end(keys []int, events []*event, answers []answer, ttl int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tick++
	for i, e := range events {
		e.end, e.outcome, e.answer = m.tick, answers[i].outcome, answers[i].word
		if e.expireTo > 0 && e.outcome != unknown {
			e.expireTo = m.now + ttl
		}
		if e.kind == evTouch && e.outcome == held { // it found nothing: as a remove that finds nothing
			e.kind, e.expireFrom, e.expireTo = evRemove, 0, 0
		}
		h := m.keys[keys[i]]
		h.watchers--
		if !m.relaxed {
			h.prune()
		}
	}
}

// instant is when an observation began.
type instant struct {
	tick uint64
	now  int64
}

// look begins an observation of keys; the instant goes back into seen.
func (m *model) look(keys []int) instant {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tick++
	for _, k := range keys {
		m.keys[k].watchers++
	}
	return instant{m.tick, m.now}
}

// seen ends an observation begun at begin and judges it against the living
// model, where what was acknowledged counts whether or not it is durable.
// Faulty: the metadata store may have failed, so that entries whose commit is
// unresolved are not served.
func (m *model) seen(keys []int, begin instant, found []observation, faulty bool) []finding {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.tick++
	var out []finding
	for i, k := range keys {
		h := m.keys[k]
		h.watchers--
		j := judge{key: h.copy(), begin: begin.tick, end: m.tick, since: begin.now, now: m.now, relaxed: m.relaxed, faulty: faulty}
		if f := j.observe(found[i]); f != nil {
			out = append(out, *f)
		}
		if !m.relaxed {
			h.prune()
		}
	}
	return out
}

// prune forgets events that a later, settled one has put out of reach.
func (h *history) prune() {
	if h.watchers > 0 || len(h.events) < 8 {
		return
	}
	var last *event
	for _, e := range h.events {
		settles := e.outcome == done && e.kind != evTouch || e.outcome == held && e.kind == evRemove
		if settles && (last == nil || e.begin > last.begin) {
			last = e
		}
	}
	if last == nil {
		return
	}
	// What overlaps a kept event may be what explains it, and so on.
	from := last.begin
	for moved := true; moved; {
		moved = false
		for _, e := range h.events {
			if e.end >= from && e.begin < from {
				from, moved = e.begin, true
			}
		}
	}
	for _, e := range h.events {
		// An `exists` beside it rests on a version from before, which may have
		// expired since: forgetting that would leave nothing to explain its end.
		if e.kind == evStore && e.outcome == held && e.begin < last.begin && e.end >= from {
			return
		}
	}
	h.events = slices.DeleteFunc(h.events, func(e *event) bool {
		return e.end < from || e.outcome == refused
	})
}

func (h *history) copy() keySnapshot {
	s := keySnapshot{name: h.name, versions: h.versions, pinned: h.pinned, events: make([]event, len(h.events))}
	for i, e := range h.events {
		s.events[i] = *e
	}
	return s
}

// freeze copies the model and lets take do its part in the same instant. Take
// must not call the model.
func (m *model) freeze(take func()) snapshot {
	m.mu.Lock()
	defer m.mu.Unlock()
	take()
	return m.snapshotLocked()
}

// recovered judges what the first loads after a crash answered.
func (m *model) recovered(found []observation) []finding {
	m.mu.Lock()
	defer m.mu.Unlock()
	var out []finding
	for i, h := range m.keys {
		j := judge{
			key: h.copy(), begin: m.tick + 1, end: m.tick + 1, since: m.now, now: m.now,
			crashed: true, relaxed: m.relaxed,
		}
		if f := j.observe(found[i]); f != nil {
			out = append(out, *f)
		}
	}
	return out
}

// snapshotLocked copies the model.
// +checklocks:m.mu
func (m *model) snapshotLocked() snapshot {
	s := snapshot{
		tick: m.tick, now: m.now, keys: make([]keySnapshot, len(m.keys)),
		maxGeneration: m.maxGeneration, inited: m.inited,
	}
	for i, h := range m.keys {
		s.keys[i] = h.copy()
	}
	return s
}

// pin records that keys are about to be pinned; leases end only with the node.
func (m *model) pin(keys []int) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, k := range keys {
		m.keys[k].pinned = true
	}
}

// unpinAll records a restart: leases do not survive it.
func (m *model) unpinAll() {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, h := range m.keys {
		h.pinned = false
	}
}

// generation records that a slot header with generation g is being written.
func (m *model) generation(g uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.maxGeneration = max(m.maxGeneration, g)
}

// acknowledgeInit records that the label was written and said to be.
func (m *model) acknowledgeInit() {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.inited = true
}

// clock returns the run's time in Unix milliseconds.
func (m *model) clock() int64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.now
}

// advance moves the run's clock on by ms milliseconds.
func (m *model) advance(ms int64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.now += ms
}

// seal marks everything answered before tick as beyond any crash: a clean stop
// has ended.
func (m *model) seal(tick uint64) {
	m.mu.Lock()
	defer m.mu.Unlock()
	for _, h := range m.keys {
		for _, e := range h.events {
			if e.end > 0 && e.end <= tick {
				e.sealed = true
			}
		}
	}
}

// ticks returns the model's time.
func (m *model) ticks() uint64 {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.tick
}

// versionsOf returns the payloads that stores of a key were asked to keep.
func (m *model) versionsOf(key int) []version {
	m.mu.Lock()
	defer m.mu.Unlock()
	return m.keys[key].versions
}

// revive builds the model of the time line that begins with a crash whose
// instant s is. What was under way took effect before, or never.
func revive(s snapshot, relaxed bool) *model {
	m := &model{
		relaxed: relaxed, now: s.now, tick: s.tick + 1,
		maxGeneration: s.maxGeneration, inited: s.inited,
	}
	for i := range s.keys {
		k := &s.keys[i]
		h := &history{name: k.name, versions: slices.Clip(k.versions)}
		for _, e := range k.events {
			if e.end == 0 {
				e.end, e.outcome = s.tick, unknown
			}
			h.events = append(h.events, &e)
		}
		m.keys = append(m.keys, h)
	}
	return m
}

// collapse makes what recovery has shown the state from now on: a clone keeps
// the rest of the unsynced data for good or not at all.
func (m *model) collapse(found []observation) {
	m.mu.Lock()
	defer m.mu.Unlock()
	relaxed := m.relaxed
	counts := func(e *event) bool { return !relaxed || e.sealed }
	for i, h := range m.keys {
		e := &event{outcome: held, kind: evRemove, begin: m.tick, end: m.tick, sealed: true}
		if v := found[i].version; found[i].status == foundHit && v >= 0 {
			e.kind, e.outcome, e.version = evStore, done, v
			e.expireFrom, e.expireTo = h.expiryOf(v, counts)
		}
		h.events = []*event{e}
	}
	m.tick++
}

// expiryOf returns the bounds of a version's expiry after a crash. Counts tells
// whether an answered event is certainly in force.
func (h *history) expiryOf(version int, counts func(*event) bool) (from, to int64) {
	events := h.copy().events
	for i := range events {
		if events[i].kind != evStore || events[i].version != version {
			continue
		}
		never := false
		for _, e := range expiries(events, &events[i], counts) {
			if e.expireFrom == 0 {
				never = true
				continue
			}
			if from == 0 || e.expireFrom < from {
				from = e.expireFrom
			}
			to = max(to, e.expireTo)
		}
		if never && from > 0 {
			to = 1 << 62
		}
	}
	return from, to
}

// expiries returns the events of which one has set the expiry of what s stored,
// if that is there: s itself, and the touches that may have met it. Those before
// a later touch that certainly did are out.
func expiries(events []event, s *event, counts func(*event) bool) []*event {
	var all, out []*event
	for i := range events {
		e := &events[i]
		touched := e.kind == evTouch && e.outcome != refused && (e.end == 0 || e.end >= s.begin)
		if e == s || touched {
			all = append(all, e)
		}
	}
	for _, e := range all {
		over := false
		for _, t := range all {
			over = over || t.kind == evTouch && t.outcome == done && counts(t) && e.end != 0 && e.end < t.begin
		}
		if !over {
			out = append(out, e)
		}
	}
	return out
}
