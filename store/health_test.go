// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rawblockd/rawblockd/internal/simdev"
	"github.com/rawblockd/rawblockd/ioengine"
)

// die makes a device fail everything but flushes.
func die(d *simdev.Device) {
	for _, dir := range []ioengine.Dir{ioengine.Read, ioengine.Write} {
		d.FailRange(dir, 0, d.Geometry().Size, syscall.EIO)
	}
}

// inBubble runs a test with a rig in fake time.
func inBubble(t *testing.T, change func(*rigOptions), run func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *rigOptions) {
			o.interval, o.realTime = 1000*time.Hour, true
			change(o)
		})
		run(t, r)
		r.end()
	})
}

func (r *rig) health(name string) string { return r.slabStatus(name).Health }

// One slab of three dies under load: the others serve, what is on it is a miss of
// that key and no error of the batch, stores go elsewhere, and it comes back.
func TestSlabDiesUnderLoad(t *testing.T) {
	inBubble(t, func(o *rigOptions) {
		o.slabs, o.slots, o.service = 3, 256, func(ioengine.Dir, int) time.Duration { return time.Millisecond }
	}, func(t *testing.T, r *rig) {
		keys := names(90)
		r.mustStoreTogether(1000, keys...)
		homes := r.homes(keys...)
		die(r.devs[1])

		var load sync.WaitGroup
		for w := range 4 {
			load.Go(func() {
				for i := range 10 {
					for j, got := range r.load(1, keys...) {
						dead := homes[keys[j]] == 1
						if !dead && got != OK || dead && got != IOError && got != Missing && got != Unavailable {
							t.Errorf("load of %q on slab %d: %v", keys[j], homes[keys[j]], got)
						}
					}
					for _, res := range r.store(1000, StoreOptions{}, fmt.Sprint(w, "-", i)) {
						if res.Status != OK && res.Status != IOError && res.Status != Unavailable {
							t.Errorf("store: %+v", res)
						}
					}
				}
			})
		}
		load.Wait()
		st := r.slabStatus("s1")
		if st.Health != HealthOffline || !strings.Contains(st.Reason, syscall.EIO.Error()) {
			t.Errorf("the dead slab: %+v", st)
		}
		for _, other := range []string{"s0", "s2"} {
			if got := r.health(other); got != HealthOnline {
				t.Errorf("%s is %s", other, got)
			}
		}
		rest := r.on(1, keys...) // the first few cost their entries
		if n := 30 - len(rest); n >= failLimit || r.slabs[1].Counts().Quarantined > 2*failLimit {
			t.Errorf("%d entries were dropped, %+v", n, r.slabs[1].Counts())
		}
		if got := r.lookup(rest...); !cmp.Equal(got, all(len(rest), Unavailable)) {
			t.Errorf("lookup: %v", got)
		}
		transfers := r.devs[1].Counts().Transfers
		fresh := names(150)[90:]
		r.mustStoreTogether(1000, fresh...)
		anew := rest[:2]
		for _, res := range r.storeVersion(2, 1000, StoreOptions{}, anew...) {
			if res.Status != OK {
				t.Errorf("store of a key on the dead slab: %+v", res)
			}
		}
		if got := r.bySlab(append(fresh, anew...)...); got[1] != 0 {
			t.Errorf("stores went to the dead slab: %v", got)
		}
		if got := r.devs[1].Counts().Transfers; got != transfers {
			t.Errorf("loads and stores reached the dead device: %v, then %v", transfers, got)
		}
		time.Sleep(time.Minute)
		if got := r.health("s1"); got != HealthOffline {
			t.Errorf("after a minute without a sign of life: %s", got)
		}

		r.devs[1].Heal()
		time.Sleep(2 * probeEvery)
		if got := r.load(1, rest[2:]...); !cmp.Equal(got, all(len(rest)-2, OK)) {
			t.Errorf("when it is well: %v", got)
		}
		if got := r.load(2, anew...); !cmp.Equal(got, all(2, OK)) {
			t.Errorf("what was stored anew: %v", got)
		}
		time.Sleep(2 * rateWindow)
		if got := r.slabStatus("s1"); got.Health != HealthOnline || got.Reason != "" {
			t.Errorf("some time later: %+v", got)
		}
		r.mustStoreTogether(1000, names(200)[150:]...)
		if got := r.on(1, names(200)[150:]...); len(got) == 0 {
			t.Error("no store goes to it")
		}
	})
}

// A drive that is pulled costs no entry: that is no error of a place on it.
func TestPulledDriveLosesNoEntries(t *testing.T) {
	inBubble(t, func(o *rigOptions) { o.slabs = 2 }, func(t *testing.T, r *rig) {
		keys := names(40)
		r.mustStoreTogether(1000, keys...)
		r.devs[0].Vanish()
		if got := r.load(1, keys...); !cmp.Equal(got, r.want(keys, 0, Unavailable, OK)) {
			t.Errorf("loads: %v", got)
		}
		if st := r.slabStatus("s0"); st.Health != HealthOffline || st.Counts.Used != 20 || st.Counts.Quarantined != 0 {
			t.Errorf("status: %+v", st)
		}
		r.devs[0].Heal()
		time.Sleep(2 * probeEvery)
		if got := r.load(1, keys...); !cmp.Equal(got, all(40, OK)) {
			t.Errorf("plugged in again: %v", got)
		}
	})
}

// C20: one error in ten is degraded, never offline, and not for long after it ends.
func TestErrorRateDegrades(t *testing.T) {
	inBubble(t, func(o *rigOptions) { o.slots, o.workers = 400, 1 }, func(t *testing.T, r *rig) {
		keys := names(200)
		r.mustStoreTogether(1000, keys...)
		for i, k := range keys {
			if off, n := r.where(k); i%10 == 0 {
				r.devs[0].FailRange(ioengine.Read, off, n, syscall.EIO)
			}
		}
		want := all(200, OK)
		for i := 0; i < 200; i += 10 {
			want[i] = IOError
		}
		if got := r.load(1, keys...); !cmp.Equal(got, want) {
			t.Errorf("loads: %v", got)
		}
		time.Sleep(2 * watchEvery)
		if st := r.slabStatus("s0"); st.Health != HealthDegraded || !strings.Contains(st.Reason, "20 of ") {
			t.Errorf("status: %+v", st)
		}
		if got := r.load(1, keys[1], keys[2]); !cmp.Equal(got, all(2, OK)) {
			t.Errorf("loads while degraded: %v", got)
		}
		r.mustStore(1000, "other")
		time.Sleep(2 * rateWindow)
		if st := r.slabStatus("s0"); st.Health != HealthOnline {
			t.Errorf("after a while without errors: %+v", st)
		}
	})
}

// C20: heavy but healthy load never marks a slab down, however long its queue.
func TestLoadAloneIsHealthy(t *testing.T) {
	inBubble(t, func(o *rigOptions) {
		o.slots, o.workers, o.service = 400, 2, func(d ioengine.Dir, _ int) time.Duration {
			if d == ioengine.Write {
				return 0
			}
			return 14 * time.Second
		}
	}, func(t *testing.T, r *rig) {
		keys := names(64)
		r.mustStoreTogether(1000, keys...)
		began := time.Now()
		if got := r.load(1, keys...); !cmp.Equal(got, all(64, OK)) {
			t.Errorf("loads: %v", got)
		}
		if took := time.Since(began); took != 32*14*time.Second {
			t.Errorf("took %v", took)
		}
		if st := r.slabStatus("s0"); st.Health != HealthOnline {
			t.Errorf("status: %+v", st)
		}
	})
}

// A drive that can only be read goes on serving; stores go elsewhere, and are tried
// again after a while.
func TestOnlyWritesFail(t *testing.T) {
	inBubble(t, func(o *rigOptions) { o.slabs, o.slots = 2, 256 }, func(t *testing.T, r *rig) {
		keys := names(40)
		r.mustStoreTogether(1000, keys...)
		r.devs[0].FailRange(ioengine.Write, 1<<20, 64<<20, syscall.EIO)
		failed := 0
		for i := range 4 * failLimit {
			if got := r.store(1000, StoreOptions{}, fmt.Sprint("x", i))[0].Status; got == IOError {
				failed++
			} else if got != OK {
				t.Errorf("store: %v", got)
			}
		}
		if failed != failLimit {
			t.Errorf("%d stores failed, want %d", failed, failLimit)
		}
		st := r.slabStatus("s0")
		if st.Health != HealthDegraded || !strings.Contains(st.Reason, "every write fails") {
			t.Errorf("status: %+v", st)
		}
		if got := r.load(1, keys...); !cmp.Equal(got, all(40, OK)) {
			t.Errorf("loads: %v", got)
		}
		quarantined := st.Counts.Quarantined
		time.Sleep(probeEvery + 2*watchEvery)
		failed = 0
		for i := range 10 {
			if got := r.store(1000, StoreOptions{}, fmt.Sprint("y", i))[0].Status; got == IOError {
				failed++
			}
		}
		if st := r.slabStatus("s0"); failed != 1 || st.Health != HealthDegraded {
			t.Errorf("tried again: %d stores failed, want one; status %+v", failed, st)
		}
		if got := r.slabStatus("s0").Counts.Quarantined; got > quarantined+1 {
			t.Errorf("a drive that fails every write lost %d more slots", got-quarantined)
		}
		r.devs[0].Heal()
		time.Sleep(2*probeEvery + 2*watchEvery)
		r.mustStoreTogether(1000, names(80)[40:]...)
		if got := r.on(0, names(80)[40:]...); len(got) == 0 {
			t.Error("no store goes to the slab that is well again")
		}
	})
}

// A batch whose every write fails accuses the drive, not the places on it.
func TestFailedBatchQuarantinesNothing(t *testing.T) {
	inBubble(t, func(o *rigOptions) { o.slotSize, o.slots, o.payload = 4096, 300, 4096 }, func(t *testing.T, r *rig) {
		r.devs[0].FailRange(ioengine.Write, 1<<20, 64<<20, syscall.EIO)
		st, err := r.s.BeginStore(context.Background(), ns, StoreOptions{})
		if err != nil {
			t.Fatal(err)
		}
		var items []StoreItem
		for _, k := range names(100) {
			items = append(items, r.item(k, payload(k, 1, 100)))
		}
		st.Add(items...)
		res, err := st.Commit()
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range res {
			if x.Status != IOError {
				t.Errorf("%+v", x)
			}
		}
		if c := r.counts(); c.Free != c.Total {
			t.Errorf("slots: %+v", c)
		}
	})
}

// A dead drive that nobody reads is found out by its label.
func TestOnlyStoresMeetADeadDrive(t *testing.T) {
	inBubble(t, func(o *rigOptions) { o.slabs = 2 }, func(t *testing.T, r *rig) {
		die(r.devs[0])
		for i := range 4 * failLimit {
			r.store(1000, StoreOptions{}, fmt.Sprint("x", i))
		}
		time.Sleep(2 * watchEvery)
		if st := r.slabStatus("s0"); st.Health != HealthOffline || !strings.Contains(st.Reason, "label") {
			t.Errorf("status: %+v", st)
		}
	})
}

// A slab whose flush failed comes back from offline, but not to stores.
func TestFailedFlushStays(t *testing.T) {
	inBubble(t, func(o *rigOptions) { o.slabs = 2 }, func(t *testing.T, r *rig) {
		keys := names(40)
		r.mustStoreTogether(1000, keys...)
		die(r.devs[0])
		r.load(1, keys...)
		if got := r.health("s0"); got != HealthOffline {
			t.Fatalf("dead: %s", got)
		}
		r.devs[0].FailFlush(syscall.EIO)
		if err := r.slabs[0].Flush(); err == nil {
			t.Fatal("the flush did not fail")
		}
		if got := r.health("s0"); got != HealthOffline {
			t.Errorf("dead, and its flush failed: %s", got)
		}
		r.devs[0].Heal()
		time.Sleep(2 * probeEvery)
		st := r.slabStatus("s0")
		if st.Health != HealthReadOnly || !strings.Contains(st.Reason, "flush failed") || st.ReadOnly == "" {
			t.Errorf("alive again: %+v", st)
		}
		rest := r.on(0, keys...)
		if got := r.load(1, rest...); len(rest) == 0 || !cmp.Equal(got, all(len(rest), OK)) {
			t.Errorf("loads: %v", got)
		}
		r.mustStoreTogether(1000, names(60)[40:]...)
		if got := r.on(0, names(60)[40:]...); len(got) > 0 {
			t.Errorf("stores went to it: %v", got)
		}
	})
}

// A slab whose transfers hang is offline until they come back: batches go on
// without it, and its slots and memory come back with it.
func TestHungSlab(t *testing.T) {
	inBubble(t, func(o *rigOptions) { o.slabs, o.slots = 2, 128 }, func(t *testing.T, r *rig) {
		keys := names(20)
		r.mustStoreTogether(1000, keys...)
		release := r.devs[0].Hang(0, r.devs[0].Geometry().Size)
		began := time.Now()
		if got := r.load(1, keys...); !cmp.Equal(got, r.want(keys, 0, Unavailable, OK)) {
			t.Errorf("loads: %v", got)
		}
		took := time.Since(began)
		if took < hangLimit || took > hangLimit+2*watchEvery {
			t.Errorf("the batch took %v", took)
		}
		if st := r.slabStatus("s0"); st.Health != HealthOffline || !strings.Contains(st.Reason, "15s") {
			t.Errorf("status: %+v", st)
		}
		began = time.Now()
		if got := r.load(1, keys...); !cmp.Equal(got, r.want(keys, 0, Unavailable, OK)) {
			t.Errorf("loads while it hangs: %v", got)
		}
		fresh := names(40)[20:]
		r.mustStoreTogether(1000, fresh...)
		if took := time.Since(began); took != 0 {
			t.Errorf("loads and stores while it hangs took %v", took)
		}
		time.Sleep(time.Hour)
		release()
		time.Sleep(2 * watchEvery)
		if st := r.slabStatus("s0"); st.Health != HealthOnline {
			t.Errorf("released: %+v", st)
		}
		if got := r.load(1, keys...); !cmp.Equal(got, all(20, OK)) {
			t.Errorf("loads afterwards: %v", got)
		}
	})
}

// A store whose writes hang on one slab publishes what it has on the other, and
// the slots of the rest come back when the device lets go of them.
func TestHungWrites(t *testing.T) {
	inBubble(t, func(o *rigOptions) { o.slabs, o.slots = 2, 128 }, func(t *testing.T, r *rig) {
		release := r.devs[0].Hang(0, r.devs[0].Geometry().Size)
		keys := names(20)
		began := time.Now()
		st, err := r.s.BeginStore(context.Background(), ns, StoreOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range keys {
			st.Add(r.item(k, payload(k, 1, 1000)))
		}
		res, err := st.Commit()
		if err != nil {
			t.Fatal(err)
		}
		if took := time.Since(began); took < hangLimit || took > hangLimit+2*watchEvery {
			t.Errorf("the batch took %v", took)
		}
		var out []string
		for _, x := range res {
			switch {
			case x.Status == Unavailable && x.Err != nil && strings.Contains(x.Err.Error(), "offline"):
				out = append(out, x.Key)
			case x.Status != OK:
				t.Errorf("%+v", x)
			}
		}
		if got := r.on(1, keys...); len(got)+len(out) != 20 || len(out) == 0 {
			t.Errorf("%d keys are stored, %d unavailable", len(got), len(out))
		}
		if c := r.slabs[0].Counts(); int(c.Reserved) != len(out) {
			t.Errorf("while it hangs: %+v", c)
		}
		if used := r.used(); used != 20*r.o.slotSize {
			t.Errorf("%d bytes are used while it hangs, want what the device may still write", used)
		}
		for _, x := range r.storeVersion(2, 1000, StoreOptions{}, out...) { // the same keys, elsewhere
			if x.Status != OK {
				t.Errorf("%+v", x)
			}
		}
		release()
		r.s.work.Wait()
		if c := r.slabs[0].Counts(); c.Free != c.Total {
			t.Errorf("released: %+v", c)
		}
		if used := r.used(); used != 20*r.o.slotSize {
			t.Errorf("%d bytes are used at the end", used)
		}
		if got := r.load(2, out...); !cmp.Equal(got, all(len(out), OK)) {
			t.Errorf("loads: %v", got)
		}
	})
}

// A flush that hangs keeps stores away, not loads.
func TestHungFlush(t *testing.T) {
	inBubble(t, func(o *rigOptions) { o.slabs, o.slots = 2, 128 }, func(t *testing.T, r *rig) {
		keys := names(20)
		r.mustStoreTogether(1000, keys...)
		release := r.devs[0].HangFlush()
		began := time.Now()
		out := 0
		for _, x := range r.store(1000, StoreOptions{}, names(40)[20:]...) {
			switch x.Status {
			case OK:
			case Unavailable:
				out++
			default:
				t.Errorf("%+v", x)
			}
		}
		if took := time.Since(began); out != 10 || took < hangLimit || took > hangLimit+2*watchEvery {
			t.Errorf("%d keys of 20 are unavailable after %v", out, took)
		}
		if c := r.slabs[0].Counts(); c.Used != 10 || c.Reserved != 0 {
			t.Errorf("slots: %+v", c)
		}
		if st := r.slabStatus("s0"); st.Health != HealthDegraded || !strings.Contains(st.Reason, "flush") {
			t.Errorf("status: %+v", st)
		}
		if got := r.load(1, keys...); !cmp.Equal(got, all(20, OK)) {
			t.Errorf("loads: %v", got)
		}
		began = time.Now()
		r.mustStoreTogether(1000, names(60)[40:]...)
		if took := time.Since(began); took != 0 {
			t.Errorf("stores elsewhere took %v", took)
		}
		release()
		time.Sleep(2 * watchEvery)
		if got := r.health("s0"); got != HealthOnline {
			t.Errorf("released: %s", got)
		}
		r.mustStoreTogether(1000, names(80)[60:]...)
		if got := r.on(0, names(80)[60:]...); len(got) == 0 {
			t.Error("no store goes to it")
		}
	})
}

// A hang shorter than the limit is nobody's end: everybody waits for it.
func TestShortHangIsWaitedFor(t *testing.T) {
	inBubble(t, func(o *rigOptions) { o.slabs = 2 }, func(t *testing.T, r *rig) {
		keys := names(20)
		r.mustStoreTogether(1000, keys...)
		time.AfterFunc(5*time.Second, r.devs[0].Hang(0, r.devs[0].Geometry().Size))
		if got := r.load(1, keys...); !cmp.Equal(got, all(20, OK)) {
			t.Errorf("loads: %v", got)
		}
		if got := r.health("s0"); got != HealthOnline {
			t.Errorf("health: %s", got)
		}
	})
}

// While all is well and idle nobody looks.
func TestIdleIsNotWatched(t *testing.T) {
	inBubble(t, func(o *rigOptions) { o.slabs = 2 }, func(t *testing.T, r *rig) {
		r.mustStoreTogether(1000, names(10)...)
		time.Sleep(time.Minute)
		select {
		case <-r.s.watch:
			t.Error("there is a call to look")
		default:
		}
		r.s.watch <- struct{}{} // taken by a loop that sleeps, not by one that ticks
		synctest.Wait()
		if len(r.s.watch) != 0 {
			t.Error("the loop does not sleep")
		}
	})
}

// What is none of the device's doing says nothing about it.
func TestNotTheDevicesFault(t *testing.T) {
	var busy submitFails
	inBubble(t, func(o *rigOptions) { o.engine = busy.over }, func(t *testing.T, r *rig) {
		keys := names(40)
		r.mustStoreTogether(1000, keys...)
		busy.after(0, syscall.EAGAIN)
		if got := r.load(1, keys...); !cmp.Equal(got, all(40, IOError)) {
			t.Errorf("loads: %v", got)
		}
		if st := r.slabStatus("s0"); st.Health != HealthOnline || st.Counts.Used != 40 {
			t.Errorf("status: %+v", st)
		}
		busy.after(-1, nil)
		if got := r.load(1, keys...); !cmp.Equal(got, all(40, OK)) {
			t.Errorf("loads afterwards: %v", got)
		}
	})
}

// submitFails is an engine whose submission fails in the middle: what comes after
// some number of ops is answered with an error, at once and by whoever submits.
type submitFails struct {
	ioengine.Engine
	mu   sync.Mutex
	left int // ops that go through; negative: all
	err  error
}

func (e *submitFails) over(inner ioengine.Engine) ioengine.Engine {
	e.Engine = inner
	e.after(-1, nil)
	return e
}

func (e *submitFails) after(n int, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.left, e.err = n, err
}

func (e *submitFails) take(n int) (through int, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.left < 0 {
		return n, nil
	}
	through = min(n, e.left)
	e.left -= through
	return through, e.err
}

func (e *submitFails) Submit(ops []ioengine.Op, done ioengine.Done) {
	n, err := e.take(len(ops))
	e.Engine.Submit(ops[:n], done)
	for i := n; i < len(ops); i++ {
		done(i, 0, err)
	}
}

// C25: submission fails in the middle of a batch: every key has its answer at once,
// nobody hangs, nothing is left behind, and the next batch works.
func TestSubmissionFailsInTheMiddle(t *testing.T) {
	for _, why := range []error{syscall.EAGAIN, syscall.EIO, ioengine.ErrClosed} {
		for _, through := range []int{0, 1, 5, 31} {
			t.Run(fmt.Sprint(why, " after ", through), func(t *testing.T) {
				var engine submitFails
				inBubble(t, func(o *rigOptions) { o.slots, o.engine = 256, engine.over }, func(t *testing.T, r *rig) {
					ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
					defer cancel()
					keys := names(32)
					r.mustStoreTogether(100_000, keys...) // two ops each
					began := time.Now()
					engine.after(through, why)
					for i, got := range r.load(1, keys...) {
						if want := map[bool]Status{true: OK, false: IOError}[2*i+1 < through]; got != want && !(got == Unavailable && want == IOError) {
							t.Errorf("load of key %d: %v, want %v", i, got, want)
						}
					}
					engine.after(through, why)
					st, err := r.s.BeginStore(ctx, ns, StoreOptions{})
					if err != nil {
						t.Fatal(err)
					}
					var items []StoreItem
					for i := range 32 {
						k := fmt.Sprint("new", i)
						items = append(items, r.item(k, payload(k, 1, 100_000)))
					}
					st.Add(items...)
					res, err := st.Commit()
					if err != nil {
						t.Fatal(err)
					}
					for _, x := range res {
						if x.Status != OK && x.Err == nil {
							t.Errorf("%+v", x)
						}
					}
					if took := time.Since(began); took > time.Second {
						t.Errorf("the answers took %v", took)
					}
					engine.after(-1, nil)
					time.Sleep(time.Hour) // whatever its health
					r.mustStoreTogether(1000, "next")
					if got := r.load(1, "next"); got[0] != OK {
						t.Errorf("the next batch: %v", got)
					}
				})
			})
		}
	}
}

// The words and metrics for health agree.
func TestHealthMetric(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.slabs, o.gone = 3, map[int]error{2: syscall.ENOENT} })
	if err := r.s.Drain(context.Background(), "s1"); err != nil {
		t.Fatal(err)
	}
	got := r.gauges("rawblockd_slab_health")
	want := map[string]float64{}
	for name, is := range map[string]string{"s0": HealthOnline, "s1": HealthDraining, "s2": HealthMissing} {
		for _, state := range Healths() {
			want[name+" "+state] = 0
		}
		want[name+" "+is] = 1
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Errorf("slab_health (-want +got):\n%s", d)
	}
}

// gauges reads a metric: values by label values in the order of the labels' names.
func (r *rig) gauges(name string) map[string]float64 {
	r.t.Helper()
	reg := prometheus.NewRegistry()
	for _, c := range r.s.Collectors() {
		reg.MustRegister(c)
	}
	families, err := reg.Gather()
	if err != nil {
		r.t.Fatal(err)
	}
	out := map[string]float64{}
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			var labels []string
			for _, l := range m.GetLabel() {
				labels = append(labels, l.GetValue())
			}
			out[strings.Join(labels, " ")] = m.GetGauge().GetValue()
		}
	}
	return out
}
