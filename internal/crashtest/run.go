// SPDX-License-Identifier: Apache-2.0

package crashtest

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/rawblockd/rawblockd/ioengine"
)

// run is one seed: init, then rounds of work that end with a clean stop or a
// crash, each round on what the last one left.
type run struct {
	setup   *setup
	buffers *ioengine.Arena
	chosen  func(number uint64) bool
	take    func(p point)
	report  func(p *point, f finding)
	tally   func(op, word string)

	rng   *rand.Rand
	mem   *vfs.MemFS
	model *model
	base  uint64
	crash *point // the end of the last time line, nil after a clean stop

	// verify: a power loss in relaxed mode lies behind, so some rows may have
	// bytes that only their checksum tells from right ones.
	verify bool
	faulty bool // the fault was hit
}

// do runs the seed. An error means that it could not.
func (r *run) do() error {
	r.rng = newRand(r.setup.seed, "run", 0)
	r.model = newModel(r.setup.names, r.setup.relaxed, startTime)
	var err error
	if r.mem, err = newDisk(r.setup); err != nil {
		return err
	}
	for round := range r.setup.rounds {
		if !r.round(round) {
			return nil
		}
	}
	return nil
}

// newDisk makes a file system with an empty metadata folder and a blank device.
func newDisk(s *setup) (*vfs.MemFS, error) {
	mem := vfs.NewCrashableMem()
	if err := mem.MkdirAll(metaPath, 0o755); err != nil {
		return nil, err
	}
	f, err := mem.Create(devicePath, vfs.WriteCategoryUnspecified)
	if err != nil {
		return nil, err
	}
	if _, err = f.Write(make([]byte, s.deviceSize)); err != nil {
		return nil, err
	}
	if err = errors.Join(f.Sync(), f.Close()); err != nil {
		return nil, err
	}
	for _, dir := range []string{metaPath, "/"} {
		d, err := mem.OpenDir(dir)
		if err != nil {
			return nil, err
		}
		if err = errors.Join(d.Sync(), d.Close()); err != nil {
			return nil, err
		}
	}
	return mem, nil
}

// round is one life of the daemon. It returns false when a finding makes going
// on pointless.
func (r *run) round(number int) bool {
	t := &timeline{setup: r.setup, mem: r.mem, model: r.model, base: r.base, verify: r.verify, chosen: r.chosen, take: r.take}
	in := &injector{fault: r.setup.fault, t: t}
	o := nodeOptions{
		setup: r.setup, disk: r.mem, fs: in.wrap(&watchFS{r.mem, t}), t: t, buffers: r.buffers, verify: r.verify,
		clock: r.model.clock, onHeader: r.model.generation,
	}
	t.enabled.Store(true)
	if number == 0 {
		if err := initDevice(o, false); err != nil {
			return r.stop(t, kindBroken, "init: %v", err)
		}
		r.model.acknowledgeInit()
	}
	n, err := openNode(o)
	if err != nil {
		return r.stop(t, kindBroken, "open in round %d: %v", number, err)
	}
	if r.crash != nil && !r.settle(t, n) {
		if err := n.close(); err != nil {
			return r.stop(t, kindBroken, "stop after a finding: %v", err)
		}
		return false
	}
	last := number == r.setup.rounds-1
	if crash := r.rng.IntN(2) == 0; crash && !last {
		t.abandonAt.Store(r.base + t.hooks.Load() + 1 + r.rng.Uint64N(uint64(r.setup.ops*r.setup.actors*12)))
	}
	in.armed.Store(r.setup.fault.name != "" && number == 0)
	r.work(t, n)
	return r.end(t, n)
}

// settle compares what a recovery shows with the model and goes on from there.
func (r *run) settle(t *timeline, n *node) bool {
	found, err := loadAll(n, r.setup.names, r.model.versionsOf)
	if err != nil {
		return r.stop(t, kindBroken, "after recovery: %v", err)
	}
	findings := r.model.recovered(found)
	for _, f := range findings {
		r.report(r.crash, f)
	}
	r.model.collapse(found)
	return len(findings) == 0
}

// work lets the actors loose and waits for them.
func (r *run) work(t *timeline, n *node) {
	var wg sync.WaitGroup
	for i := range r.setup.actors {
		a := &actor{
			setup: r.setup, node: n, t: t, model: r.model, rng: newRand(r.setup.seed, "actor", r.base*8+uint64(i)),
			report: func(f finding) { r.report(r.here(t, "live"), f) }, tally: r.tally,
		}
		wg.Go(a.run)
	}
	wg.Wait()
}

// end closes the round: it goes on from a crash if there was one, else it stops
// the daemon cleanly.
func (r *run) end(t *timeline, n *node) bool {
	tick := r.model.ticks()
	if t.faulty.Load() && r.rng.IntN(2) == 0 {
		t.abandon(t.cut(r.base+t.hooks.Load()+1, "after the fault"))
	}
	err := n.close()
	if t.faulty.Load() {
		// A daemon whose metadata store has failed cannot stop cleanly; it may
		// have failed in the stop itself.
		r.faulty = true
		t.abandon(t.cut(r.base+t.hooks.Load()+1, "after the fault"))
	}
	r.base += t.hooks.Load() + 1
	if p := t.abandoned.Load(); p != nil {
		r.crash, r.mem, r.model, r.verify = p, p.disk, revive(p.model, r.setup.relaxed), p.verify
		again := *p
		again.disk = p.disk.CrashClone(vfs.CrashCloneCfg{}) // all of it is synced
		r.take(again)
		return true
	}
	if err != nil {
		return r.stop(t, kindBroken, "clean stop: %v", err)
	}
	r.crash = nil
	r.model.seal(tick)
	r.model.unpinAll()
	r.take(t.cut(r.base, "after a clean stop"))
	return true
}

func (r *run) stop(t *timeline, k kind, format string, args ...any) bool {
	r.report(r.here(t, "live"), *findingf(k, format, args...))
	return false
}

// here is a point for reports of the living run.
func (r *run) here(t *timeline, where string) *point {
	if r.setup.fault.name != "" {
		where = fmt.Sprintf("%s, fault %s after %d", where, r.setup.fault.name, r.setup.fault.after)
	}
	return &point{setup: r.setup, number: r.base + t.hooks.Load(), where: where}
}
