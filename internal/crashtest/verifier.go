// SPDX-License-Identifier: Apache-2.0

package crashtest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"runtime"
	"sync/atomic"

	"github.com/rawblockd/rawblockd/ioengine"
	"github.com/rawblockd/rawblockd/meta"
	"github.com/rawblockd/rawblockd/slab"
	"github.com/rawblockd/rawblockd/store"
)

// verifier opens what a crash left and judges it.
type verifier struct {
	buffers *ioengine.Arena
	nested  atomic.Int64 // crashes during recovery
}

// check returns everything that is wrong with a point. Depth counts crashes
// during the recovery from a crash.
func (v *verifier) check(p point, depth int) []finding {
	c := &checking{verifier: v, p: p, rng: newRand(p.setup.seed, "check", p.number), relaxed: p.setup.relaxed}
	var inner *point
	o := nodeOptions{
		setup: p.setup, disk: p.disk, fs: p.disk, buffers: v.buffers,
		verify:   p.verify,
		clock:    func() int64 { return p.model.now },
		onHeader: c.header,
	}
	if depth == 0 && c.rng.IntN(16) == 0 {
		o.t = c.crashAgain(&inner)
		o.fs = &watchFS{p.disk, o.t}
	}
	c.recover(o)
	if inner != nil {
		v.nested.Add(1)
		c.findings = append(c.findings, v.check(*inner, depth+1)...)
	}
	if n := v.buffers.InUse(); n != 0 {
		c.bad(kindBroken, "%d bytes of buffers were not given back", n)
	}
	return c.findings
}

// checking is the state of one check.
type checking struct {
	*verifier
	p        point
	rng      *rand.Rand
	relaxed  bool
	findings []finding

	node    *node
	found   []observation
	lowest  atomic.Uint64 // generation written by this node, 0: none
	expired bool          // some row may have expired
}

func (c *checking) bad(k kind, format string, args ...any) {
	c.findings = append(c.findings, *findingf(k, format, args...))
}

// header notes the lowest generation that the recovered node wrote.
func (c *checking) header(g uint64) {
	for {
		old := c.lowest.Load()
		if old != 0 && old <= g || c.lowest.CompareAndSwap(old, g) {
			return
		}
	}
}

// crashAgain makes a time line that crashes once during recovery.
func (c *checking) crashAgain(inner **point) *timeline {
	at := c.p.number + 1 + c.rng.Uint64N(60)
	m := revive(c.p.model, c.relaxed)
	t := &timeline{
		setup: c.p.setup, mem: c.p.disk, model: m, base: c.p.number, verify: c.p.verify,
		chosen: func(n uint64) bool { return n == at },
		take: func(p point) {
			p.where = c.p.where + ", then " + p.where
			*inner = &p
		},
	}
	t.enabled.Store(true)
	return t
}

// recover opens the clone and works on it.
func (c *checking) recover(o nodeOptions) {
	n, err := openNode(o)
	if err != nil && !c.p.model.inited {
		n, err = c.initAgain(o)
	}
	if o.t != nil {
		o.t.enabled.Store(false)
	}
	if err != nil {
		c.bad(kindBroken, "does not open: %v", err)
		return
	}
	c.node = n
	c.judgeRecovered()
	if len(c.findings) == 0 {
		c.goOn()
	}
	if err := n.close(); err != nil {
		c.bad(kindBroken, "does not close: %v", err)
	}
}

// initAgain does what the operator of an init that was cut off would do.
func (c *checking) initAgain(o nodeOptions) (*node, error) {
	if err := initDevice(o, true); err != nil {
		return nil, fmt.Errorf("init after an init that was cut off: %w", err)
	}
	return openNode(o)
}

// judgeRecovered compares states and bytes with the model.
func (c *checking) judgeRecovered() {
	for i := range c.p.model.keys {
		for _, e := range c.p.model.keys[i].events {
			c.expired = c.expired || e.expireFrom > 0 && e.expireFrom <= c.p.model.now
		}
	}
	c.states(true)
	found, err := c.load()
	if err != nil {
		c.bad(kindBroken, "%v", err)
		return
	}
	c.found = found
	for i, o := range found {
		j := judge{
			key: c.p.model.keys[i], begin: math.MaxUint64, end: math.MaxUint64, since: c.p.model.now, now: c.p.model.now,
			crashed: true, relaxed: c.relaxed,
		}
		if f := j.observe(o); f != nil {
			c.findings = append(c.findings, *f)
		}
		if o.status == foundCorrupt {
			c.expired = true // its slots are out of use, the row goes in time
		}
	}
}

func (c *checking) load() ([]observation, error) {
	return loadAll(c.node, c.p.setup.names, func(i int) []version { return c.p.model.keys[i].versions })
}

// stillTries bounds how often states looks again while something is under way. A
// slot that never leaves DELETING is a finding, not a reason to wait.
const stillTries = 20_000

// states compares the slots' states with the rows. The sweeper looks for expired
// entries as soon as a store is open, so the two are read until no change came
// between: the counts before and after the rows are the same, and no delete waits
// for its commit.
func (c *checking) states(fresh bool) {
	var counts slab.Counts
	var owner map[uint32]string
	var found []finding
	for range stillTries {
		counts = c.node.slab.Counts()
		owner, found = c.rows(fresh)
		if counts.Deleting == 0 && counts == c.node.slab.Counts() {
			break
		}
		runtime.Gosched()
	}
	c.findings = append(c.findings, found...)
	sum := counts.Free + counts.Reserved + counts.Used + counts.Deleting + counts.Retired + counts.Quarantined
	if sum != counts.Total || counts.Total != c.node.slab.SlotCount() {
		c.bad(kindStates, "slot states add up to %d of %d: %+v", sum, c.node.slab.SlotCount(), counts)
	}
	if c.expired || c.relaxed && !fresh {
		return // sweeps and background syncs may be under way
	}
	if used, out := counts.Used, counts.Quarantined; int(used) != len(owner) ||
		counts.Free != counts.Total-used-out || out > 0 && !c.relaxed {
		c.bad(kindStates, "rows occupy %d slots, states are %+v", len(owner), counts)
	}
}

// rows reads which key each slot belongs to, and what is wrong with the rows
// themselves.
func (c *checking) rows(fresh bool) (owner map[uint32]string, found []finding) {
	bad := func(k kind, format string, args ...any) { found = append(found, *findingf(k, format, args...)) }
	owner = make(map[uint32]string)
	err := c.node.db.Scan(meta.Incarnation(c.node.slab.Label().Incarnation), 0, 0, func(head uint32, r meta.Row, err error) bool {
		if err != nil {
			bad(kindStates, "row of slot %d: %v", head, err)
			return true
		}
		if r.Gen > c.p.model.maxGeneration && fresh {
			bad(kindStates, "row of slot %d has generation %d, the highest ever written is %d", head, r.Gen, c.p.model.maxGeneration)
		}
		for _, s := range append([]uint32{head}, r.More...) {
			if other, taken := owner[s]; taken {
				bad(kindStates, "slot %d belongs to %q and to %q", s, other, r.Key)
			}
			owner[s] = r.Key
		}
		return true
	})
	if err != nil {
		bad(kindBroken, "scan: %v", err)
	}
	return owner, found
}

// goOn uses the recovered store: it must be able to store wherever there is
// room, remove, and leave all other keys as they are.
func (c *checking) goOn() {
	names := c.p.setup.names
	victim := c.rng.IntN(len(names))
	if c.found[victim].status == foundHit && c.rng.IntN(2) == 0 {
		c.removeKey(victim)
	}
	free := int64(c.node.slab.Counts().Free)
	if free == 0 {
		return
	}
	length := 1 + c.rng.Int64N(min(free*c.p.setup.slotSize, c.p.setup.maxPayload))
	target := c.rng.IntN(len(names))
	if !c.storeKey(target, length) {
		return
	}
	again, err := c.load()
	if err != nil {
		c.bad(kindBroken, "%v", err)
		return
	}
	for i, o := range again {
		switch was := c.found[i]; {
		case o.status == foundHit && o.version < 0:
			c.bad(kindWrong, "key %q after a store of %q: %s", names[i], names[target], o.text)
		case was.status == foundCorrupt && o.status == foundNothing:
		case o.status != was.status || o.version != was.version:
			c.bad(kindLost, "key %q was %+v and is %+v after a store of %q", names[i], was, o, names[target])
		}
	}
	if low := c.lowest.Load(); low <= c.p.model.maxGeneration {
		c.bad(kindStates, "generation %d was given out after a restart, %d was used before", low, c.p.model.maxGeneration)
	}
	c.states(false)
}

func (c *checking) removeKey(k int) {
	name := c.p.setup.names[k]
	r, err := c.node.store.Remove(context.Background(), name.ns, []string{name.key}, false)
	if err != nil || r.Results[0].Status != store.OK {
		c.bad(kindBroken, "remove of %q after recovery: %v %v", name, r.Results, err)
		return
	}
	c.found[k] = observation{status: foundNothing, version: -1}
}

// storeKey stores one more version of key k.
func (c *checking) storeKey(k int, length int64) bool {
	key := &c.p.model.keys[k]
	v := version{length, payloadSeed(key.name, len(key.versions))}
	status, err := c.put(key.name, v)
	if err != nil || status != store.OK {
		c.bad(kindBroken, "store of %q, %d bytes, after recovery: %v %v; states %+v", key.name, length, status, err, c.node.slab.Counts())
		return false
	}
	key.versions = append(key.versions[:len(key.versions):len(key.versions)], v)
	c.found[k] = observation{status: foundHit, version: len(key.versions) - 1}
	return true
}

func (c *checking) put(name keyName, v version) (store.Status, error) {
	ctx := context.Background()
	st, err := c.node.store.BeginStore(ctx, name.ns, store.StoreOptions{Overwrite: true})
	if err != nil {
		return 0, err
	}
	defer st.Abort()
	buf, err := c.node.store.Buffer(ctx, v.length)
	if err != nil {
		return 0, err
	}
	fillBuf(buf, v)
	st.Add(store.StoreItem{Key: name.key, Len: v.length, Buf: buf})
	results, err := st.Commit()
	if err != nil {
		return 0, err
	}
	return results[0].Status, errors.Join(results[0].Err)
}
