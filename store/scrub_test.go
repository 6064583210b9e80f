// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rawblockd/rawblockd/ioengine"
)

// scrubbed scrubs a slab and returns what came of it.
func (r *rig) scrubbed(name string) ScrubProgress {
	r.t.Helper()
	if err := r.s.Scrub(context.Background(), name); err != nil {
		r.t.Fatal(err)
	}
	return r.scrubEnd(name)
}

func (r *rig) scrubEnd(name string) ScrubProgress {
	r.t.Helper()
	for range 10_000 {
		if p := r.scrubOf(name); p != nil && !p.Running {
			return *p
		}
		time.Sleep(time.Millisecond)
	}
	r.t.Fatalf("scrub of %q does not end: %+v", name, r.scrubOf(name))
	return ScrubProgress{}
}

func (r *rig) scrubOf(name string) *ScrubProgress {
	for _, sl := range r.s.Status().Slabs {
		if sl.Name == name {
			return sl.Scrub
		}
	}
	return nil
}

// A scrub finds what no load has met: flipped bits in any slot of an entry and
// sectors that cannot be read, also where loads verify nothing. What it finds
// goes, the rest stays, and the other slab is not touched.
func TestScrub(t *testing.T) {
	for _, verifyOff := range []bool{false, true} {
		r := newRig(t, func(o *rigOptions) {
			o.slots, o.slabs, o.verifyOff = 200, 2, verifyOff
			o.spaces = []Namespace{{Name: ns, Slabs: []string{"s0"}}, {Name: "other", Slabs: []string{"s1"}}}
		})
		keys := names(40)
		r.mustStore(100_000, keys...) // two slots each
		r.storeIn("other", 1000, keys...)
		if r.scrubOf("s0") != nil {
			t.Error("a scrub before there was one")
		}
		off, _ := r.where(keys[7])
		r.devs[0].FlipBit(off + 1234)
		r.s.mu.Lock()
		h, _ := r.s.x.find(r.s.hash.of(r.s.named(ns).salt, keys[30]))
		second := r.s.x.next[h]
		r.s.mu.Unlock()
		l := r.slabs[0].Label()
		r.devs[0].FlipBit(l.DataOffset + int64(second)*l.Stride + l.HeaderZone + 100)
		off, _ = r.where(keys[20])
		r.devs[0].FailRange(ioengine.Read, off, 4096, syscall.EIO)
		other := r.devs[1].Counts().Transfers[ioengine.Read]

		r.clock.Add(int64(time.Minute))
		want := ScrubProgress{Done: r.slabs[0].SlotCount(), Total: r.slabs[0].SlotCount(), Bad: 3, Ended: r.now()}
		if got := r.scrubbed("s0"); got != want {
			t.Errorf("verify off %v: got %+v, want %+v", verifyOff, got, want)
		}
		if got := r.missed(ReasonCorrupt); got != 0 {
			t.Errorf("verify off %v: a scrub counts as %v misses", verifyOff, got)
		}
		st := all(40, OK)
		st[7], st[20], st[30] = Missing, Missing, Missing
		if got := r.load(1, keys...); !cmp.Equal(got, st) {
			t.Errorf("verify off %v: loads %v", verifyOff, got)
		}
		if c := r.counts(); c.Quarantined != 6 {
			t.Errorf("verify off %v: %d slots out of use, want the 6 of three entries", verifyOff, c.Quarantined)
		}
		if got := r.devs[1].Counts().Transfers[ioengine.Read]; got != other {
			t.Errorf("verify off %v: %d transfers on the slab that is not scrubbed", verifyOff, got-other)
		}
		if got := r.scrubbed("s0"); got.Bad != 0 {
			t.Errorf("verify off %v: the second scrub: %+v", verifyOff, got)
		}
		bad, running := r.gauges("rawblockd_scrub_bad_entries_total"), r.gauges("rawblockd_scrub_running")
		if !cmp.Equal(bad, map[string]float64{"s0": 3, "s1": 0}) || !cmp.Equal(running, map[string]float64{"s0": 0, "s1": 0}) {
			t.Errorf("verify off %v: metrics: %v bad, %v running", verifyOff, bad, running)
		}
		r.restart()
		if got := r.load(1, keys...); !cmp.Equal(got, st) {
			t.Errorf("verify off %v: loads after a restart: %v", verifyOff, got)
		}
	}
}

func TestScrubRefuses(t *testing.T) {
	r := newRig(t)
	r.mustStore(1000, "a")
	ctx := context.Background()
	if err := r.s.Scrub(ctx, "s1"); !errors.Is(err, ErrSlab) {
		t.Errorf("unknown slab: %v", err)
	}
	release := r.devs[0].Hang(0, 1<<40)
	if err := r.s.Scrub(ctx, "s0"); err != nil {
		t.Fatal(err)
	}
	r.devs[0].AwaitInFlight(1)
	if p := r.scrubOf("s0"); !p.Running || !p.Ended.IsZero() {
		t.Errorf("while it runs: %+v", p)
	}
	if got := r.gauges("rawblockd_scrub_running"); got["s0"] != 1 {
		t.Errorf("while it runs: %v running", got)
	}
	if err := r.s.Scrub(ctx, "s0"); !errors.Is(err, ErrScrubbing) {
		t.Errorf("while one runs: %v", err)
	}
	release()
	r.scrubEnd("s0")
	if got := r.gauges("rawblockd_scrub_done_slots"); got["s0"] != float64(r.slabs[0].SlotCount()) {
		t.Errorf("when it has ended: %v slots done", got)
	}
	gone, cancel := context.WithCancel(ctx)
	cancel()
	if err := r.s.Scrub(gone, "s0"); !errors.Is(err, context.Canceled) {
		t.Errorf("for a caller who has left: %v", err)
	}
	last := r.s
	r.shut()
	if err := last.Scrub(ctx, "s0"); !errors.Is(err, ErrClosed) {
		t.Errorf("after Close: %v", err)
	}
	r.start()
}

// While a client's load is in flight a scrub begins no entry, but one a second
// so that it ends some day; when the load has ended it goes on at once.
func TestScrubStandsBack(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *rigOptions) { o.realTime = true })
		keys := names(20)
		r.mustStoreTogether(1000, keys...)
		off, _ := r.where(keys[0])
		release := r.devs[0].Hang(off, 512)
		loaded := make(chan []Status)
		go func() { loaded <- r.load(1, keys[0]) }()
		r.devs[0].AwaitInFlight(1)
		before := r.devs[0].Counts().Transfers[ioengine.Read]
		if err := r.s.Scrub(context.Background(), "s0"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(scrubPatience - time.Millisecond)
		synctest.Wait()
		if p := r.scrubOf("s0"); p.Done != 0 || !p.Running {
			t.Errorf("beside a load: %+v", p)
		}
		if got := r.devs[0].Counts().Transfers[ioengine.Read]; got != before {
			t.Errorf("%d transfers beside a load", got-before)
		}
		release()
		if got := <-loaded; got[0] != OK {
			t.Errorf("load: %v", got)
		}
		synctest.Wait()
		if p := r.scrubOf("s0"); p.Running || p.Done != p.Total {
			t.Errorf("after the load: %+v", p)
		}

		release = r.devs[0].Hang(off, 512)
		go func() { loaded <- r.load(1, keys[0]) }()
		r.devs[0].AwaitInFlight(1)
		first := r.headOf(keys[0])
		r.remove(true, keys[0]) // what hangs is not in the scrub's way
		if err := r.s.Scrub(context.Background(), "s0"); err != nil {
			t.Fatal(err)
		}
		time.Sleep(5*scrubPatience + time.Millisecond)
		synctest.Wait()
		if p := r.scrubOf("s0"); p.Done < 5 || p.Done > 6 || first != 0 {
			t.Errorf("beside a load that never ends, after five seconds: %+v", p)
		}
		release()
		<-loaded
		synctest.Wait()
		if p := r.scrubOf("s0"); p.Running || p.Bad != 0 {
			t.Errorf("in the end: %+v", p)
		}
		r.end()
	})
}

// H22: the entry that is being read is removed, and stored anew. Its slots are
// nobody else's before the read has ended, and what the read finds in them is
// said of nobody else.
func TestScrubOfAnEntryThatGoes(t *testing.T) {
	for name, flip := range map[string]bool{"good bytes": false, "bad bytes": true} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t, exactly(3))
			r.mustStore(1000, "a", "b")
			off, _ := r.where("a")
			if flip {
				r.devs[0].FlipBit(off + 10)
			}
			release := r.devs[0].Hang(off, 512)
			if err := r.s.Scrub(context.Background(), "s0"); err != nil {
				t.Fatal(err)
			}
			r.devs[0].AwaitInFlight(1)
			if got := r.remove(true, "a").Results[0].Status; got != OK {
				t.Fatalf("remove: %v", got)
			}
			if c := r.counts(); c.Retired != 1 || c.Free != 1 {
				t.Errorf("while it is read: %+v", c)
			}
			r.mustStore(1000, "a")
			if got := r.store(1000, StoreOptions{}, "c")[0].Status; got != NoSpace {
				t.Errorf("a store into the slot that is being read: %v", got)
			}
			release()
			if p := r.scrubEnd("s0"); p.Done != 3 || p.Stopped != "" {
				t.Errorf("scrub: %+v", p)
			}
			if got := r.load(1, "a", "b"); !cmp.Equal(got, all(2, OK)) {
				t.Errorf("loads: %v", got)
			}
			if c := r.counts(); c.Quarantined != 0 || c.Free != 1 {
				t.Errorf("afterwards: %+v", c)
			}
			r.mustStore(1000, "c")
		})
	}
}

// Close ends a scrub, be it reading or standing back.
func TestCloseEndsAScrub(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.slots = 200 })
	keys := names(150)
	r.mustStore(10, keys...)
	off, _ := r.where(keys[3])
	release := r.devs[0].Hang(off, 512)
	if err := r.s.Scrub(context.Background(), "s0"); err != nil {
		t.Fatal(err)
	}
	r.devs[0].AwaitInFlight(1)
	closed := make(chan error)
	go func() { closed <- r.s.Close() }()
	<-r.s.stop
	release()
	if err := <-closed; err != nil {
		t.Error(err)
	}
	p := r.scrubOf("s0")
	if p.Running || p.Done >= p.Total || p.Stopped == "" || p.Bad != 0 {
		t.Errorf("ended by Close: %+v", p)
	}
	r.restart()
	if p := r.scrubOf("s0"); p != nil {
		t.Errorf("after a restart: %+v", p)
	}
	if got := r.load(1, keys...); !cmp.Equal(got, all(150, OK)) {
		t.Errorf("loads: %v", got)
	}
}

// A slab that goes out of service under a scrub ends it: a dying drive is not
// read to its end, and what was not read is not dropped.
func TestScrubOfADyingSlab(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.slots = 200 })
	keys := names(150)
	r.mustStore(10, keys...)
	r.devs[0].FailRange(ioengine.Read, 0, 1<<40, syscall.EIO)
	p := r.scrubbed("s0")
	if p.Bad >= failLimit || p.Done > failLimit || !strings.Contains(p.Stopped, HealthOffline) {
		t.Errorf("scrub: %+v", p)
	}
	if err := r.s.Scrub(context.Background(), "s0"); !errors.Is(err, ErrNoScrub) || !strings.Contains(err.Error(), HealthOffline) {
		t.Errorf("scrub of a slab out of service: %v", err)
	}
	r.devs[0].Heal()
	r.restart()
	lost := 0
	for _, st := range r.load(1, keys...) {
		if st != OK {
			lost++
		}
	}
	if lost > p.Bad {
		t.Errorf("%d entries lost, %d were found unreadable", lost, p.Bad)
	}
}

// A scrub that walks through one bad region drops what is there, within the bound,
// and goes on: the slab's label can be read, so it lives.
func TestScrubOverABadRegion(t *testing.T) {
	inBubble(t, func(o *rigOptions) { o.slots = 1024 }, func(t *testing.T, r *rig) {
		keys := names(400)
		r.mustStoreTogether(1000, keys...)
		bad := keys[100 : 100+2*failLimit]
		for _, k := range bad {
			off, n := r.where(k)
			r.devs[0].FailRange(ioengine.Read, off, n, syscall.EIO)
		}
		if p := r.scrubbed("s0"); p.Bad != len(bad) || p.Done != p.Total || p.Stopped != "" {
			t.Errorf("scrub: %+v", p)
		}
		time.Sleep(2 * watchEvery)
		if st := r.slabStatus("s0"); st.Health != HealthDegraded {
			t.Errorf("status: %+v", st)
		}
		want := all(400, OK)
		for i := range bad {
			want[100+i] = Missing
		}
		if got := r.load(1, keys...); !cmp.Equal(got, want) {
			t.Errorf("loads: %v", got)
		}
	})
}

// Wrong bytes all over a slab do not use it up: from the bound on entries go
// without their slots, the scrub ends and the status says why.
func TestScrubDoesNotUseASlabUp(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.slots = 256 })
	r.devs[0].DropWrites(1<<20, r.devs[0].Geometry().Size-2<<20)
	r.mustStoreTogether(1000, names(200)...)
	r.devs[0].Heal()
	p := r.scrubbed("s0")
	limit := quarantineLimit(r.counts().Total)
	if c := r.counts(); c.Quarantined != limit {
		t.Errorf("%d slots are out of use, want %d", c.Quarantined, limit)
	}
	st := r.slabStatus("s0")
	if st.Health != HealthDegraded || !strings.Contains(st.Reason, "out of use") {
		t.Errorf("status: %+v", st)
	}
	if p.Bad != int(limit)+1 || p.Done == p.Total || !strings.Contains(p.Stopped, "out of use") {
		t.Errorf("scrub: %+v", p)
	}
	used := r.counts().Used
	if again := r.scrubbed("s0"); again.Bad != 1 || !strings.Contains(again.Stopped, "out of use") {
		t.Errorf("scrub once more: %+v", again)
	}
	if c := r.counts(); c.Quarantined != limit || c.Used != used-1 {
		t.Errorf("slots: %+v", c)
	}
}
