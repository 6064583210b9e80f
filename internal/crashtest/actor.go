// SPDX-License-Identifier: Apache-2.0

package crashtest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"time"

	"github.com/rawblockd/rawblockd/meta"
	"github.com/rawblockd/rawblockd/store"
)

// actor is one client: it sends random operations one after the other and
// tells the model what it asked and what it was answered.
type actor struct {
	setup  *setup
	node   *node
	t      *timeline
	model  *model
	rng    *rand.Rand
	leases []lease
	report func(f finding)
	tally  func(op, word string)
}

// lease is one that the actor has not given back.
type lease struct{ ns, id string }

// run sends operations until they are used up or the power is cut.
func (a *actor) run() {
	for range a.setup.ops {
		if a.t.abandoned.Load() != nil {
			return
		}
		switch n := a.rng.IntN(100); {
		case n < 38:
			a.put()
		case n < 57:
			a.remove()
		case n < 74:
			a.load()
		case n < 81:
			a.lookup()
		case n < 85:
			a.pin()
		case n < 89:
			a.unpin()
		case n < 95:
			a.touch()
		case n < 96:
			a.list()
		case n < 97:
			a.clear()
		default:
			a.model.advance(1 + a.rng.Int64N(3000))
		}
	}
}

// pick draws a batch: distinct keys of one namespace, now and then one twice.
func (a *actor) pick() []int {
	from, to := 0, len(a.setup.names)
	for i, n := range a.setup.names {
		if n.ns != a.setup.names[0].ns {
			to = i
			break
		}
	}
	if a.rng.IntN(8) == 0 {
		from, to = to, len(a.setup.names)
	}
	batch := a.rng.Perm(to - from)
	batch = batch[:min(1+a.rng.IntN(a.setup.maxBatch), len(batch))]
	for i := range batch {
		batch[i] += from
	}
	if a.rng.IntN(8) == 0 {
		batch = append(batch, batch[a.rng.IntN(len(batch))])
	}
	return batch
}

func (a *actor) names(batch []int) []keyName {
	names := make([]keyName, len(batch))
	for i, k := range batch {
		names[i] = a.setup.names[k]
	}
	return names
}

func (a *actor) keys(batch []int) (ns string, keys []string) {
	names := a.names(batch)
	for _, n := range names {
		keys = append(keys, n.key)
	}
	return names[0].ns, keys
}

// length draws a payload's length: mostly unaligned, of one to several slots.
func (a *actor) length() int64 {
	slot := a.setup.slotSize
	switch a.rng.IntN(6) {
	case 0:
		return 1 + a.rng.Int64N(600)
	case 1:
		return slot * (1 + a.rng.Int64N(a.setup.maxPayload/slot))
	case 2:
		return slot*(1+a.rng.Int64N(a.setup.maxPayload/slot)) - a.rng.Int64N(9)
	default:
		return 1 + a.rng.Int64N(a.setup.maxPayload)
	}
}

// put stores a batch, or begins to and leaves.
func (a *actor) put() {
	batch := a.pick()
	o := store.StoreOptions{Overwrite: a.rng.IntN(5) < 3, Force: a.rng.IntN(2) == 0}
	if a.rng.IntN(6) == 0 {
		o.TTL = time.Duration(1+a.rng.IntN(8000)) * time.Millisecond
	}
	lengths := make([]int64, len(batch))
	for i := range lengths {
		lengths[i] = a.length()
	}
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	events := a.model.begin(evStore, batch, lengths, o.TTL.Milliseconds())
	answers := a.send(ctx, cancel, batch, events, o)
	a.model.end(batch, events, answers, o.TTL.Milliseconds())
}

// send drives one store and returns what became of each item.
func (a *actor) send(ctx context.Context, cancel func(), batch []int, events []*event, o store.StoreOptions) []answer {
	answers := make([]answer, len(batch))
	for i := range answers {
		answers[i] = answer{refused, "not sent"}
	}
	ns, keys := a.keys(batch)
	st, err := a.node.store.BeginStore(ctx, ns, o)
	if err != nil {
		return answers
	}
	defer st.Abort()
	together := a.rng.IntN(2) == 0
	var items []store.StoreItem
	for i, k := range batch {
		v := a.model.versionsOf(k)[events[i].version]
		buf, err := a.node.store.Buffer(context.Background(), v.length)
		if err != nil {
			a.report(finding{kindBroken, "no buffer: " + err.Error()})
			return answers
		}
		fillBuf(buf, v)
		items = append(items, store.StoreItem{Key: keys[i], Len: v.length, Buf: buf})
		if !together {
			st.Add(items...)
			items = nil
		}
	}
	st.Add(items...)
	switch a.rng.IntN(14) {
	case 0: // the client is gone in mid-store
		return answers
	case 1: // the deadline falls anywhere in the commit
		go cancel()
	}
	results, err := st.Commit()
	if err != nil {
		a.report(finding{kindBroken, "commit: " + err.Error()})
		return answers
	}
	for i := range results {
		a.tally("store", results[i].Status.String())
		answers[i] = answer{storeOutcome(results[i]), fmt.Sprintf("%v (%v)", results[i].Status, results[i].Err)}
	}
	return answers
}

func storeOutcome(r store.StoreResult) outcome {
	switch {
	case r.Status == store.OK:
		return done
	case r.Status == store.Exists:
		return held
	case r.Status == store.Unavailable, errors.Is(r.Err, store.ErrOutcomeUnknown):
		return unknown
	}
	return refused
}

func (a *actor) remove() {
	batch := a.pick()
	ns, keys := a.keys(batch)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if a.rng.IntN(14) == 0 {
		go cancel()
	}
	events := a.model.begin(evRemove, batch, nil, 0)
	r, err := a.node.store.Remove(ctx, ns, keys, a.rng.IntN(5) < 2)
	answers := make([]answer, len(batch))
	for i := range answers {
		answers[i] = answer{unknown, fmt.Sprint(err)}
		if err == nil {
			a.tally("remove", r.Results[i].Status.String())
			answers[i] = answer{removeOutcome(r.Results[i].Status), r.Results[i].Status.String()}
		}
	}
	a.model.end(batch, events, answers, 0)
}

// clear takes a whole namespace: for the model, a remove of each of its keys.
// Which entries leases kept it does not say.
func (a *actor) clear() {
	ns := a.setup.names[a.pick()[0]].ns
	var all []int
	for i, n := range a.setup.names {
		if n.ns == ns {
			all = append(all, i)
		}
	}
	events := a.model.begin(evRemove, all, nil, 0)
	r, err := a.node.store.Clear(context.Background(), ns)
	cleared := answer{done, "cleared"}
	switch {
	case err != nil:
		cleared = answer{unknown, err.Error()}
		a.refused("clear", err)
	case r.Pinned > 0:
		cleared = answer{unknown, fmt.Sprintf("cleared but for %d", r.Pinned)}
	}
	answers := make([]answer, len(all))
	for i := range answers {
		answers[i] = cleared
	}
	a.tally("clear", "cleared")
	a.model.end(all, events, answers, 0)
}

func removeOutcome(s store.Status) outcome {
	switch s {
	case store.OK:
		return done
	case store.Missing, store.Expired:
		return held
	case store.Pinned, store.Duplicate:
		return refused
	default:
		return unknown
	}
}

// touch gives keys a new time to live.
func (a *actor) touch() {
	batch := a.pick()
	ns, keys := a.keys(batch)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	if a.rng.IntN(14) == 0 {
		go cancel()
	}
	ttl := time.Duration(1+a.rng.IntN(4000)) * time.Millisecond
	events := a.model.begin(evTouch, batch, nil, ttl.Milliseconds())
	r, err := a.node.store.Touch(ctx, ns, keys, ttl)
	answers := make([]answer, len(batch))
	for i := range answers {
		answers[i] = answer{unknown, fmt.Sprint(err)}
		if err == nil {
			a.tally("touch", r.Results[i].Status.String())
			answers[i] = answer{touchOutcome(r.Results[i]), r.Results[i].Status.String()}
		}
	}
	a.model.end(batch, events, answers, ttl.Milliseconds())
}

func touchOutcome(r store.KeyResult) outcome {
	switch {
	case r.Status == store.OK:
		return done
	case r.Status == store.Missing, r.Status == store.Expired:
		return held
	case r.Status == store.Unavailable, errors.Is(r.Err, store.ErrOutcomeUnknown):
		return unknown
	}
	return refused
}

func (a *actor) load() {
	batch := a.pick()
	begin := a.model.look(batch)
	found, err := load(a.node, a.names(batch), func(i int) []version { return a.model.versionsOf(batch[i]) })
	for _, o := range found {
		a.tally("load", [...]string{"missing", "ok", "ok", "corrupt", "error"}[o.status])
	}
	a.judge(batch, begin, found, err)
}

// lookup asks what is there, sometimes with a lease.
func (a *actor) lookup() {
	batch := a.pick()
	ns, keys := a.keys(batch)
	var o store.LookupOptions
	if a.rng.IntN(3) == 0 {
		a.model.pin(batch)
		o.Lease = &store.LeaseRequest{Owner: "actor"}
	}
	begin := a.model.look(batch)
	r, err := a.node.store.Lookup(context.Background(), ns, keys, o)
	found := make([]observation, len(batch))
	for i := range r.Results {
		switch r.Results[i].Status {
		case store.OK, store.Busy:
			found[i].status = foundSome
		case store.Missing, store.Expired:
		default:
			found[i] = observation{status: foundError, text: r.Results[i].Status.String()}
		}
	}
	if r.Lease != nil {
		a.leases = append(a.leases, lease{ns, r.Lease.ID})
	}
	a.judge(batch, begin, found, err)
}

func (a *actor) pin() {
	batch := a.pick()
	ns, keys := a.keys(batch)
	a.model.pin(batch)
	r, err := a.node.store.Pin(context.Background(), ns, keys, store.LeaseRequest{Owner: "actor"})
	if err != nil {
		a.refused("pin", err)
	} else if r.Lease != nil {
		a.leases = append(a.leases, lease{ns, r.Lease.ID})
	}
}

func (a *actor) unpin() {
	if len(a.leases) == 0 {
		return
	}
	i := a.rng.IntN(len(a.leases))
	l := a.leases[i]
	a.leases = append(a.leases[:i], a.leases[i+1:]...)
	if _, _, err := a.node.store.Unpin(context.Background(), l.ns, l.id, nil); err != nil && !errors.Is(err, store.ErrNoLease) {
		a.refused("unpin", err)
	}
}

// list walks a namespace: it must end and name only keys of the run.
func (a *actor) list() {
	known := make(map[string]bool)
	for _, n := range a.setup.names {
		known[n.key] = true
	}
	cursor := ""
	for range 1000 {
		entries, next, err := a.node.store.List(context.Background(), a.setup.names[0].ns, cursor, 5)
		if err != nil {
			a.refused("list", err)
			return
		}
		for _, e := range entries {
			if !known[e.Key] {
				a.report(finding{kindPhantom, "list names a key that was never stored: " + e.Key})
			}
		}
		if next == "" {
			return
		}
		cursor = next
	}
	a.report(finding{kindBroken, "list does not end"})
}

// refused reports an error of the request as a whole, unless the metadata
// store is meant to have failed.
func (a *actor) refused(what string, err error) {
	failed := errors.Is(err, store.ErrUnavailable) || errors.Is(err, meta.ErrFailed)
	if a.t.abandoned.Load() != nil || failed && a.t.faulty.Load() {
		return
	}
	a.report(finding{kindBroken, what + ": " + err.Error()})
}

func (a *actor) judge(batch []int, begin instant, found []observation, err error) {
	if err != nil {
		a.refused("read", err)
		found = make([]observation, len(batch))
		a.model.seen(batch, begin, found, true)
		return
	}
	findings := a.model.seen(batch, begin, found, a.t.faulty.Load())
	if a.t.abandoned.Load() != nil {
		return
	}
	for _, f := range findings {
		a.report(f)
	}
}
