// SPDX-License-Identifier: Apache-2.0

package crashtest

import "fmt"

// kind is the class of a finding, and a column of the closing line.
type kind string

const (
	kindWrong       kind = "wrong"       // bytes that are not this version's, or no version's
	kindLost        kind = "lost"        // an acknowledged state that is not in force
	kindResurrected kind = "resurrected" // what an acknowledged operation had ended
	kindPhantom     kind = "phantom"     // a version that never was published
	kindStates      kind = "states"      // slots that do not add up, shared slots, generations used twice
	kindBroken      kind = "broken"      // the store does not open, serve or stop as it must
)

// kinds in the order of the closing line.
func kinds() []kind {
	return []kind{kindWrong, kindLost, kindResurrected, kindPhantom, kindStates, kindBroken}
}

// finding is one thing the product did wrong.
type finding struct {
	kind kind
	text string
}

func findingf(k kind, format string, args ...any) *finding {
	return &finding{k, fmt.Sprintf(format, args...)}
}

// found says what a load answered for one key.
type found uint8

const (
	foundNothing found = iota // missing or expired
	foundHit                  // ok, with bytes
	foundSome                 // ok, of a lookup
	foundCorrupt              // the checksum refused it
	foundError                // anything else
)

// observation is the answer of a load for one key.
type observation struct {
	status  found
	version int    // of a hit whose bytes are right, else -1
	text    string // how the bytes are wrong, or which error
}

// judge decides whether an observation of one key is possible.
//
// The rules are those of a register with intervals: an operation takes effect
// somewhere between its begin and its end, an unanswered one somewhere after
// its begin or never. So B certainly follows A only if A ended before B began.
type judge struct {
	key        keySnapshot
	begin, end uint64 // of the observation, in ticks
	since, now int64  // its clock, from begin to end
	// crashed: the observation follows a crash; relaxed: only what is sealed
	// must have survived it.
	crashed, relaxed bool
	// faulty: the metadata store may have failed; what it left unresolved need
	// not be served.
	faulty bool
}

// observe returns what is wrong with o, or nil.
func (j *judge) observe(o observation) *finding {
	switch o.status {
	case foundHit:
		if o.version < 0 {
			return findingf(kindWrong, "key %q: %s; %s", j.key.name, o.text, j.describe())
		}
		return j.hit(o.version)
	case foundCorrupt:
		if j.relaxed && j.crashed {
			return nil // the second wall: a store of the lost interval
		}
		return findingf(kindWrong, "key %q: answered corrupt on a device that keeps its promises; %s", j.key.name, j.describe())
	case foundSome:
		return j.some()
	case foundError:
		if j.faulty && j.absent() == nil {
			return nil
		}
		return findingf(kindBroken, "key %q: load answered %s; %s", j.key.name, o.text, j.describe())
	}
	return j.absent()
}

// counts reports whether the state that e asserts must be in force for the
// observer. In relaxed mode an acknowledged change is unresolved until the next
// background sync: a crash may undo it, and a failed metadata store unserves it.
func (j *judge) counts(e *event) bool {
	if e.end == 0 || e.end >= j.begin {
		return false
	}
	return !j.relaxed || e.sealed || !j.crashed && !j.faulty
}

// hit judges a right payload of version v.
func (j *judge) hit(v int) *finding {
	var s *event
	for i := range j.key.events {
		if e := &j.key.events[i]; e.kind == evStore && e.version == v {
			s = e
		}
	}
	if s == nil {
		return findingf(kindResurrected, "key %q: version %d came back though it was ended long ago; %s", j.key.name, v, j.describe())
	}
	if s.outcome == refused || s.outcome == held {
		return findingf(kindPhantom, "key %q: version %d was refused and is there; %s", j.key.name, v, j.describe())
	}
	if (j.crashed || !j.key.pinned) && !j.mayLive(s) {
		return findingf(kindResurrected, "key %q: version %d has expired and is served at %d; %s", j.key.name, v, j.now, j.describe())
	}
	for i := range j.key.events {
		x := &j.key.events[i]
		if x == s || !j.counts(x) || s.end == 0 || s.end >= x.begin {
			continue
		}
		if x.kind == evRemove && (x.outcome == done || x.outcome == held) {
			return findingf(kindResurrected, "key %q: version %d is there after an acknowledged remove; %s", j.key.name, v, j.describe())
		}
		if x.kind == evStore && x.outcome == done {
			return findingf(kindResurrected, "key %q: version %d is there after version %d was acknowledged; %s", j.key.name, v, x.version, j.describe())
		}
	}
	return nil
}

// mayLive reports whether what s stored may not have expired.
func (j *judge) mayLive(s *event) bool {
	for _, e := range expiries(j.key.events, s, j.counts) {
		if e.expireTo == 0 || e.expireTo >= j.since {
			return true
		}
	}
	return false
}

// some judges a hit whose bytes nobody saw: one version must be possible.
func (j *judge) some() *finding {
	for v := range j.key.versions {
		if j.hit(v) == nil {
			return nil
		}
	}
	return findingf(kindResurrected, "key %q: a lookup hits, no version can be there; %s", j.key.name, j.describe())
}

// absent judges the answer that there is no such key.
func (j *judge) absent() *finding {
	for i := range j.key.events {
		p := &j.key.events[i]
		if p.kind == evRemove || !j.counts(p) || p.outcome != done && p.outcome != held {
			continue
		}
		if !j.mayHaveEnded(p) {
			return findingf(kindLost, "key %q: absent, though a %v of version %d was acknowledged (%s); %s", j.key.name, p.kind, p.version, p.outcome, j.describe())
		}
	}
	return nil
}

// mayHaveEnded reports whether anything could have taken away what p asserts.
func (j *judge) mayHaveEnded(p *event) bool {
	for i := range j.key.events {
		n := &j.key.events[i]
		if n.begin >= j.end {
			continue
		}
		removes := n.kind == evRemove && (n.outcome == done || n.outcome == pending || n.outcome == unknown)
		if removes && (n.end == 0 || n.end >= p.begin) {
			return true
		}
		hides := j.faulty && n.kind == evStore && n != p && (n.outcome == unknown || n.outcome == pending)
		if hides && (n.end == 0 || n.end >= p.begin) {
			return true
		}
		expires := n.kind != evRemove && n.expireFrom > 0 && n.expireFrom <= j.now && n.outcome != refused && n.outcome != held
		if expires && (n == p || p.outcome == held || n.end == 0 || n.end >= p.begin) {
			return true
		}
	}
	return false
}

// describe lists the key's events for a report.
func (j *judge) describe() string {
	text := fmt.Sprintf("seen in ticks %d to %d at %d; events", j.begin, j.end, j.now)
	for _, e := range j.key.events {
		text += fmt.Sprintf(" [%v v%d %s %s %d-%d", e.kind, e.version, e.outcome, e.answer, e.begin, e.end)
		if e.expireTo > 0 {
			text += fmt.Sprintf(" expires %d-%d", e.expireFrom, e.expireTo)
		}
		text += "]"
	}
	return text
}

// String names what an event did in reports.
func (k eventKind) String() string { return [...]string{"store", "remove", "touch"}[k] }

// String names an outcome in reports.
func (o outcome) String() string {
	return [...]string{"pending", "done", "held", "refused", "unknown"}[o]
}
