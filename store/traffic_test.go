// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/google/go-cmp/cmp"

	"github.com/rawblockd/rawblockd/ioengine"
)

// H23: entries expire while stores and leases keep the sweeper awake.
func TestExpiryUnderTraffic(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *rigOptions) { o.realTime, o.interval = true, 1000*time.Hour })
		r.store(10, StoreOptions{TTL: 2 * time.Second}, "a")
		for i := range 40 {
			time.Sleep(100 * time.Millisecond) // fake time
			r.store(10, StoreOptions{TTL: time.Hour}, fmt.Sprint("k", i))
		}
		synctest.Wait()
		if got := r.lookup("a"); got[0] != Missing {
			t.Errorf("two seconds after its end: %v, want it swept", got[0])
		}
		if c := r.counts(); c.Used != 40 {
			t.Errorf("slots: %+v", c)
		}
		l := r.pin("k1")
		time.Sleep(l.TTL + time.Second)
		synctest.Wait()
		if st := r.s.Status(); st.Leases != 0 || st.Pins != 0 {
			t.Errorf("after the lease's end: %+v", st)
		}
		r.end()
	})
}

// A caller is not kept beyond its deadline by a device that hangs, however much
// of the batch is still to be submitted.
func TestManyKeysOnAHungDevice(t *testing.T) {
	r := newRig(t, func(o *rigOptions) {
		o.slotSize, o.slots, o.payload, o.buffers, o.bounce = 4096, 3200, 4096, 16<<20, 8<<20
	})
	release := r.devs[0].Hang(1<<20, 1<<30)
	ctx, cancel := context.WithCancel(context.Background())
	st, err := r.s.BeginStore(ctx, ns, StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	keys := names(3000)
	for _, k := range keys {
		st.Add(r.item(k, payload(k, 1, 100))) // more than bounce memory takes
	}
	cancel()
	res, err := st.Commit()
	if err != nil || res[0].Status != Deadline || res[2999].Status != Deadline {
		t.Errorf("%v %v", res[0], err)
	}
	release()
	<-st.ended
	if c := r.counts(); c.Free != c.Total {
		t.Errorf("afterwards: %+v", c)
	}
}

// An entry that no longer fits the limits costs itself, not the batch.
func TestLoadOfAnEntryBeyondTheBuffers(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.payload, o.buffers = 4<<20, 8<<20 })
	r.mustStore(1000, "x", "y")
	r.mustStore(3<<20, "big")
	r.shut()
	r.o.payload, r.o.buffers = 1<<20, 2<<20
	r.start()
	if got := r.load(1, "x", "big", "y"); !cmp.Equal(got, []Status{OK, TooLarge, OK}) {
		t.Errorf("%v", got)
	}
}

// A follower that may overwrite does so when its leader is done.
func TestOverwritingFollower(t *testing.T) {
	r := newRig(t)
	leader, err := r.s.BeginStore(context.Background(), ns, StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	leader.Add(r.item("a", payload("a", 1, 1000)))
	done := make(chan []StoreResult)
	follower, err := r.s.BeginStore(context.Background(), ns, StoreOptions{Overwrite: true})
	if err != nil {
		t.Fatal(err)
	}
	follower.Add(r.item("a", payload("a", 2, 1000)))
	go func() {
		res, _ := follower.Commit()
		done <- res
	}()
	if res, err := leader.Commit(); err != nil || res[0].Status != OK {
		t.Fatalf("%+v %v", res, err)
	}
	if res := <-done; res[0].Status != OK {
		t.Errorf("follower: %+v", res)
	}
	if got := r.load(2, "a"); got[0] != OK {
		t.Errorf("load: %v", got)
	}
}

// H38, the half about memory: followers keep their bytes only while there is
// plenty, so leaders always get theirs.
func TestFollowersDoNotFillTheMemory(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.payload, o.buffers = 1<<20, 4<<20 })
	leader, err := r.s.BeginStore(context.Background(), ns, StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	keys := names(8)
	release := r.devs[0].Hang(1<<20, 1<<30)
	for _, k := range keys {
		leader.Add(r.item(k, payload(k, 1, 10)))
	}
	r.devs[0].AwaitInFlight(8)
	follower, err := r.s.BeginStore(context.Background(), ns, StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range keys {
		follower.Add(r.item(k, payload(k, 2, 1<<20))) // twice what there is: hangs if all are kept
	}
	if got := r.arena.InUse(); got > 3<<20 {
		t.Errorf("followers hold %d of %d bytes", got, r.arena.Cap())
	}
	leader.Abort()
	release()
	res, err := follower.Commit()
	if err != nil {
		t.Fatal(err)
	}
	kept, dropped := 0, 0
	for _, x := range res {
		switch x.Status {
		case OK:
			kept++
		case Busy:
			dropped++
		}
	}
	if kept == 0 || dropped == 0 || kept+dropped != 8 {
		t.Errorf("%d taken over, %d told to come again", kept, dropped)
	}
}

// What was stored and has expired meanwhile does not exist for a store whose
// body took long to arrive.
func TestExpiryDuringAStore(t *testing.T) {
	r := newRig(t)
	r.store(10, StoreOptions{TTL: time.Second}, "a")
	st, err := r.s.BeginStore(context.Background(), ns, StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	r.clock.Add(int64(time.Minute))
	st.Add(r.item("a", payload("a", 2, 10)))
	if res, err := st.Commit(); err != nil || res[0].Status != OK {
		t.Errorf("%+v %v", res, err)
	}
	if got := r.load(2, "a"); got[0] != OK {
		t.Errorf("load: %v", got)
	}
}

// H28: no lock is held over the sync: loads and lookups go on while it hangs.
func TestLoadsGoOnDuringASync(t *testing.T) {
	entered, leave := make(chan struct{}, 16), make(chan struct{})
	var hang atomic.Bool
	fs := errorfs.Wrap(vfs.NewMem(), errorfs.InjectorFunc(func(op errorfs.Op) error {
		if hang.Load() && op.Kind == errorfs.OpFileSyncData && strings.HasSuffix(op.Path, ".log") {
			entered <- struct{}{}
			<-leave
		}
		return nil
	}))
	r := newRig(t, func(o *rigOptions) { o.fs = fs })
	r.mustStore(1000, "a", "b")
	hang.Store(true)
	done := make(chan RemoveResult)
	go func() { done <- r.remove(false, "b") }()
	<-entered
	if got := r.load(1, "a"); got[0] != OK {
		t.Errorf("load: %v", got)
	}
	if got := r.lookup("a", "b"); !cmp.Equal(got, []Status{OK, Missing}) {
		t.Errorf("lookup: %v", got)
	}
	select {
	case <-done:
		t.Error("the remove answered before its sync")
	default:
	}
	if c := r.counts(); c.Deleting != 1 {
		t.Errorf("slots: %+v", c)
	}
	close(leave)
	if got := <-done; got.Removed != 1 {
		t.Errorf("remove: %+v", got)
	}
}

// H15: write errors take no more than their share of a slab out of use.
func TestWriteErrorsQuarantineABoundedShare(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.slotSize, o.slots, o.payload = 4096, 300, 4096 })
	// Every fourth slot can be written, so that the slab does not count as dead.
	l := r.slabs[0].Label()
	for n := int64(0); n < int64(l.SlotCount); n += 4 {
		r.devs[0].FailRange(ioengine.Write, l.DataOffset+(n+1)*l.Stride, 3*l.Stride, syscall.EIO)
	}
	got := map[Status]int{}
	for _, x := range r.store(100, StoreOptions{}, names(200)...) {
		got[x.Status]++
	}
	if got[IOError] < 100 || got[IOError]+got[OK] != 200 {
		t.Fatal(got)
	}
	c := r.counts()
	if want := quarantineLimit(c.Total); c.Quarantined != want || c.Reserved != 0 {
		t.Errorf("%+v, want %d quarantined", c, want)
	}
	r.devs[0].Heal()
	r.mustStore(100, "well")
}

// H21: stores stop before the metadata's disk is full; loads and removes go on.
func TestShortOfMetadataSpace(t *testing.T) {
	mem := vfs.NewMem()
	r := newRig(t, func(o *rigOptions) { o.fs, o.minFree = mem, 1<<20 })
	r.mustStore(1000, "a", "b")
	mem.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1000})
	r.s.watchSpace()
	if got := r.store(1000, StoreOptions{}, "c")[0]; got.Status != Unavailable || !strings.Contains(got.Err.Error(), "meta.min_free") {
		t.Errorf("store: %+v", got)
	}
	if why := r.s.Status().StoresRefused; !strings.Contains(why, "1000 bytes free, meta.min_free is 1048576") {
		t.Errorf("status: stores refused: %q", why)
	}
	if got := r.load(1, "a"); got[0] != OK {
		t.Errorf("load: %v", got)
	}
	if got := r.remove(false, "b"); got.Removed != 1 {
		t.Errorf("remove: %+v", got)
	}
	mem.TestingSetDiskUsage(vfs.DiskUsage{AvailBytes: 1 << 30})
	r.s.watchSpace()
	r.mustStore(1000, "c")
	if why := r.s.Status().StoresRefused; why != "" {
		t.Errorf("status: stores refused: %q", why)
	}
}

// Relaxed: a background flush follows each interval in which something was
// written, and a clean stop flushes and syncs.
func TestRelaxedFlushes(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *rigOptions) { o.relaxed, o.interval = true, time.Second })
		flushes := func() int { return r.devs[0].Counts().Flushes }
		before := flushes()
		r.mustStore(1000, "a")
		if got := flushes(); got != before {
			t.Errorf("the answer waited for %d flushes", got-before)
		}
		time.Sleep(1500 * time.Millisecond) // fake time
		synctest.Wait()
		after := flushes()
		if after == before {
			t.Error("no flush within an interval")
		}
		time.Sleep(10 * time.Second)
		synctest.Wait()
		if got := flushes(); got != after {
			t.Errorf("%d flushes while idle", got-after)
		}
		r.mustStore(1000, "b")
		dev := r.devs[0]
		r.shut()
		if got := dev.Counts().Flushes; got == after {
			t.Error("a clean stop did not flush")
		}
		r.start()
		if got := r.load(1, "a", "b"); !cmp.Equal(got, all(2, OK)) {
			t.Errorf("after a clean stop: %v", got)
		}
		r.end()
	})
}

// A relaxed store that a crash tore is a miss; it does not accuse the device.
func TestTornRelaxedEntryKeepsItsSlots(t *testing.T) {
	for _, relaxed := range []bool{true, false} {
		r := newRig(t, func(o *rigOptions) { o.relaxed = relaxed })
		r.mustStore(1000, "a")
		off, _ := r.where("a")
		r.restart()
		r.devs[0].FlipBit(off)
		if got := r.load(1, "a", "a"); got[0] != Corrupt {
			t.Errorf("load: %v", got)
		}
		if got := r.load(1, "a"); got[0] != Missing {
			t.Errorf("second load: %v", got)
		}
		if c := r.counts(); (c.Quarantined == 0) != relaxed {
			t.Errorf("relaxed=%v: %+v", relaxed, c)
		}
	}
}

// H37: should slots be given away under a read after all, nothing is served.
func TestGenerationIsComparedAtTheEnd(t *testing.T) {
	r := newRig(t)
	r.mustStore(1000, "a")
	off, n := r.where("a")
	release := r.devs[0].Hang(off, n)
	l, err := r.s.Load(context.Background(), ns, []string{"a"})
	if err != nil {
		t.Fatal(err)
	}
	r.devs[0].AwaitInFlight(1)
	h := l.items[0].head
	was := r.s.x.gen[h]
	r.s.x.setGen(h, was+1)
	release()
	if it, _ := l.Next(); it.Status != Missing || it.Buf != nil {
		t.Errorf("%v", it.Status)
	}
	l.Close()
	r.s.work.Wait()
	r.s.x.setGen(h, was)
	if got := r.metric(r.s.metrics.generationChanged).GetCounter().GetValue(); got != 1 {
		t.Errorf("counted %v", got)
	}
}

// Unpin by key counts pins, and only those of the lease.
func TestUnpinBySubset(t *testing.T) {
	r := newRig(t)
	r.mustStore(10, "a", "b", "c", "other")
	l := r.pin("a", "b", "c")
	r.remove(true, "b")
	r.mustStore(10, "b")
	rel, stale, err := r.s.Unpin(context.Background(), ns, l.ID, []string{"a", "b", "other"})
	if rel != 1 || stale != 1 || err != nil {
		t.Errorf("subset: released %d, stale %d, %v", rel, stale, err)
	}
	rel, stale, err = r.s.Unpin(context.Background(), ns, l.ID, nil)
	if rel != 1 || stale != 0 || err != nil {
		t.Errorf("rest: released %d, stale %d, %v", rel, stale, err)
	}
	if _, _, err = r.s.Unpin(context.Background(), ns, l.ID, nil); !errors.Is(err, ErrNoLease) {
		t.Errorf("afterwards: %v", err)
	}
}

// A key whose slots come from a slab of larger slots is charged for those, or
// refused: the quota is hard.
func TestQuotaOnASlabOfLargerSlots(t *testing.T) {
	r := newRig(t, func(o *rigOptions) {
		o.slabs, o.slots, o.slotSizes = 2, 4, []int64{64 << 10, 1 << 20}
		o.quota = 3 << 20
	})
	small := int(r.slabs[0].Counts().Total)
	for i := range small { // fill the slab of small slots
		r.mustStore(1000, fmt.Sprint("s", i))
	}
	refused := 0
	for i := range 4 {
		switch x := r.store(1000, StoreOptions{}, fmt.Sprint("l", i))[0]; x.Status {
		case OK:
			if x.SlotBytes != 1<<20 {
				t.Errorf("charged %d", x.SlotBytes)
			}
		case OverQuota:
			refused++
		default:
			t.Errorf("%+v", x)
		}
		if used := r.s.Status().Namespaces[0].Used; used > 3<<20 {
			t.Fatalf("uses %d of %d", used, 3<<20)
		}
	}
	if refused == 0 {
		t.Error("nothing was refused")
	}
}

// Quota of what was removed comes back for the store that needs it, in relaxed
// mode too.
func TestRelaxedQuotaComesBack(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.relaxed, o.quota = true, 64<<10 })
	r.mustStore(1000, "a")
	if got := r.remove(false, "a"); got.Removed != 1 {
		t.Fatal(got)
	}
	r.mustStore(1000, "b")
}

// H16: a bad sector in a payload of more slots than the quarantine's share lets the
// key go all the same: it can be stored anew.
func TestBadSectorInALargePayload(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.slotSize, o.slots, o.payload = 4096, 4096, 1<<20 })
	const size = 80 * 4096
	if limit := quarantineLimit(r.counts().Total); limit >= 80 {
		t.Fatalf("the share is %d slots: not what this test is for", limit)
	}
	r.mustStore(size, "a")
	off, n := r.where("a")
	r.devs[0].FailRange(ioengine.Read, off, n, syscall.EIO)
	if got := r.load(1, "a"); got[0] != IOError {
		t.Errorf("first load: %v", got)
	}
	if got := r.load(1, "a"); got[0] != Missing {
		t.Errorf("second load: %v", got)
	}
	r.mustStore(size, "a")
	if got := r.load(1, "a"); got[0] != OK {
		t.Errorf("stored anew: %v", got)
	}
	// Past the share nothing more goes.
	off, n = r.where("a")
	r.devs[0].FailRange(ioengine.Read, off, n, syscall.EIO)
	r.load(1, "a")
	if c := r.counts(); c.Quarantined != 80 || c.Used != 80 {
		t.Errorf("%+v", c)
	}
}

// Quota that waits for a sync comes back also for a key that has to go to its
// second choice of slab.
func TestQuotaComesBackForTheSecondChoice(t *testing.T) {
	r := newRig(t, func(o *rigOptions) {
		o.slabs, o.slots, o.slotSizes, o.relaxed = 2, 3, []int64{64 << 10, 256 << 10}, true
		o.spaces = []Namespace{{Name: ns, Quota: 300 << 10}, {Name: "fill"}}
	})
	r.mustStore(64<<10, "x")
	st, err := r.s.BeginStore(context.Background(), "fill", StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for _, k := range names(int(r.slabs[0].Counts().Free)) {
		st.Add(r.item(k, payload(k, 1, 64<<10)))
	}
	if _, err := st.Commit(); err != nil {
		t.Fatal(err)
	}
	r.remove(false, "x")
	if got := r.store(64<<10, StoreOptions{}, "y")[0]; got.Status != OK {
		t.Errorf("%v (%v)", got.Status, got.Err)
	}
}

// A key that only follows when its caller leaves was never published by this batch:
// its outcome is not unknown.
func TestFollowingAgainIsNotUnknown(t *testing.T) {
	r := newRig(t)
	begin := func(ctx context.Context, version int) *Storing {
		st, err := r.s.BeginStore(ctx, ns, StoreOptions{})
		if err != nil {
			t.Fatal(err)
		}
		st.Add(r.item("a", payload("a", version, 1000)))
		return st
	}
	release := r.devs[0].Hang(1<<20, 64<<20)
	lead := begin(context.Background(), 1)
	r.devs[0].AwaitInFlight(1)
	first := begin(context.Background(), 2)
	ctx, cancel := context.WithCancel(context.Background())
	second := begin(ctx, 3)
	answer := func(st *Storing) chan StoreResult {
		ch := make(chan StoreResult, 1)
		go func() {
			res, _ := st.Commit()
			ch <- res[0]
		}()
		<-st.shown
		return ch
	}
	one := answer(first)
	lead.Abort()
	again := r.devs[0].Hang(1<<20, 64<<20) // before the takeover can begin; the leader's write is not kept by it
	release()
	<-lead.ended
	r.devs[0].AwaitInFlight(1) // the first follower's takeover
	two := answer(second)
	r.until("two first rounds, an abort, and the second's next round", func() bool { return r.acquisitions(lockPublish) >= 4 })
	cancel()
	if got := <-two; got.Status != Deadline || errors.Is(got.Err, ErrOutcomeUnknown) {
		t.Errorf("second follower: %+v", got)
	}
	again()
	if got := <-one; got.Status != OK {
		t.Errorf("first follower: %+v", got)
	}
	<-second.ended
}
