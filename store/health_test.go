// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"slices"
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
		if got := r.metric(r.s.metrics.misses[ReasonUnavailable]).GetCounter().GetValue(); got != 20 {
			t.Errorf("%v misses were counted, want 20", got)
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

// One write is enough to know that the device is gone: stores go elsewhere from the
// next one on, no slot is put out of use for it, and five seconds after it is back it
// serves.
func TestWriteToAPulledDrive(t *testing.T) {
	for _, gone := range []error{syscall.ENODEV, syscall.ENXIO, syscall.ENOMEDIUM} {
		inBubble(t, func(o *rigOptions) { o.slabs = 2 }, func(t *testing.T, r *rig) {
			keys := names(40)
			r.mustStoreTogether(1000, keys...)
			all0 := r.devs[0].Geometry().Size
			r.devs[0].FailRange(ioengine.Write, 0, all0, gone)
			r.devs[0].FailRange(ioengine.Read, 0, all0, gone)
			if err := r.s.Drain(context.Background(), "s1"); err != nil {
				t.Fatal(err)
			}
			if got := r.store(1000, StoreOptions{}, "first")[0]; got.Status == OK {
				t.Errorf("store on it: %+v", got)
			}
			if err := r.s.Resume(context.Background(), "s1"); err != nil {
				t.Fatal(err)
			}
			st := r.slabStatus("s0")
			if st.Health != HealthOffline || !strings.Contains(st.Reason, "its device is gone") || st.Counts.Used != 20 || st.Counts.Quarantined != 0 {
				t.Errorf("%v: status: %+v", gone, st)
			}
			more := []string{"more0", "more1", "more2", "more3"}
			r.mustStoreTogether(1000, more...)
			if got := r.on(1, more...); len(got) != len(more) {
				t.Errorf("%v: %d of %d stores went to the other", gone, len(got), len(more))
			}
			r.devs[0].Heal()
			time.Sleep(5*time.Second + watchEvery)
			if got := r.load(1, keys...); !cmp.Equal(got, all(40, OK)) {
				t.Errorf("%v: plugged in again: %v", gone, got)
			}
		})
	}
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
		synctest.Wait() // its label is read
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

// The words and metrics for health agree.
func TestHealthMetric(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.slabs, o.gone = 3, map[int]error{2: syscall.ENOENT} })
	if err := r.s.Drain(context.Background(), "s1"); err != nil {
		t.Fatal(err)
	}
	// What has no device is not to be steered.
	var missing *SlabError
	for _, err := range []error{r.s.Drain(context.Background(), "s2"), r.s.Resume(context.Background(), "s2")} {
		if !errors.As(err, &missing) || missing.Slab != "s2" || missing.Health != HealthMissing {
			t.Errorf("of a missing slab: %v", err)
		}
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
			out[strings.Join(labels, " ")] = m.GetGauge().GetValue() + m.GetCounter().GetValue() // it is one of the two
		}
	}
	return out
}

// A batch of neighbours in one bad region costs those keys, not the slab.
func TestLoadsInABadRegion(t *testing.T) {
	inBubble(t, func(o *rigOptions) { o.slots = 2048 }, func(t *testing.T, r *rig) {
		keys := names(100)
		r.mustStoreTogether(1000, keys...)
		bad := keys[10 : 10+3*failLimit]
		for _, k := range bad {
			off, n := r.where(k)
			r.devs[0].FailRange(ioengine.Read, off, n, syscall.EIO)
		}
		if got := r.load(1, bad...); !cmp.Equal(got, all(len(bad), IOError)) {
			t.Errorf("the bad ones: %v", got)
		}
		good := slices.Concat(keys[:10], keys[10+len(bad):])
		if got := r.load(1, good...); !cmp.Equal(got, all(len(good), OK)) {
			t.Errorf("the good ones: %v", got)
		}
		time.Sleep(2 * watchEvery)
		if got := r.health("s0"); got != HealthDegraded {
			t.Errorf("health: %s", got)
		}
	})
}

// A drive that fails every read but its label's serves nobody: it is offline in the
// end, and one error sends it away again.
func TestOnlyTheLabelCanBeRead(t *testing.T) {
	inBubble(t, func(o *rigOptions) { o.slots, o.workers = 2048, 1 }, func(t *testing.T, r *rig) {
		keys := names(200)
		r.mustStoreTogether(1000, keys...)
		r.devs[0].FailRange(ioengine.Read, 1<<20, r.devs[0].Geometry().Size-2<<20, syscall.EIO)
		failed := 0
		for _, k := range keys {
			switch got := r.load(1, k)[0]; got {
			case IOError:
				failed++
			case Unavailable:
			default:
				t.Errorf("load of %q: %v", k, got)
			}
			synctest.Wait() // its label is read
		}
		if st := r.slabStatus("s0"); failed != deadLimit-1 || st.Health != HealthOffline || !strings.Contains(st.Reason, "every read fails") {
			t.Errorf("%d loads failed; status: %+v", failed, st)
		}
		time.Sleep(probeEvery + 2*watchEvery)
		if got := r.health("s0"); got != HealthDegraded {
			t.Errorf("its label was read: %s", got)
		}
		if got := r.load(1, keys[198:]...); !cmp.Equal(got, all(2, Unavailable)) || r.health("s0") != HealthOffline {
			t.Errorf("loads: %v, it is %s", got, r.health("s0"))
		}
	})
}

// Wrong bytes that loads meet put no more slots out of use than errors may.
func TestWrongBytesDoNotUseASlabUp(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.slots = 256 })
	keys := names(100)
	r.devs[0].DropWrites(1<<20, r.devs[0].Geometry().Size-2<<20)
	r.mustStoreTogether(1000, keys...)
	r.devs[0].Heal()
	if got := r.load(1, keys...); !cmp.Equal(got, all(100, Corrupt)) {
		t.Errorf("loads: %v", got)
	}
	r.s.work.Wait()
	r.mustStore(1000, "after") // its commit is behind those
	c := r.counts()
	if limit := quarantineLimit(c.Total); c.Quarantined != limit || c.Used != 1 || c.Deleting+c.Retired != 0 {
		t.Errorf("slots: %+v, want %d quarantined", c, limit)
	}
	if st := r.slabStatus("s0"); st.Health != HealthDegraded || !strings.Contains(st.Reason, "out of use") {
		t.Errorf("status: %+v", st)
	}
	r.restart()
	if got := r.metric(r.s.metrics.recoveryFaults).GetCounter().GetValue(); got != 0 {
		t.Errorf("recovery found %v faults", got)
	}
	if got := r.load(1, keys...); !cmp.Equal(got, all(100, Missing)) {
		t.Errorf("loads after a restart: %v", got)
	}
}
