// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rawblockd/rawblockd/ioengine"
	"github.com/rawblockd/rawblockd/meta"
	"github.com/rawblockd/rawblockd/slab"
)

// where is the device offset and length of the payload's head slot of a key.
func (r *rig) where(key string) (off, length int64) {
	r.t.Helper()
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	h, ok := r.s.x.find(r.s.hash.of(r.s.named(ns).salt, key))
	if !ok {
		r.t.Fatalf("%q is not stored", key)
	}
	l := r.slabs[0].Label()
	return l.DataOffset + int64(h)*l.Stride + l.HeaderZone, l.SlotSize
}

func TestFlippedByteCostsOneKey(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.slots = 200 })
	keys := names(32)
	r.mustStore(100_000, keys...) // two slots each
	off, _ := r.where(keys[7])
	r.devs[0].FlipBit(off + 1234)

	want := all(32, OK)
	want[7] = Corrupt
	if got := r.load(1, keys...); !cmp.Equal(got, want) {
		t.Errorf("first load: %v", got)
	}
	want[7] = Missing
	for i := range 2 {
		if got := r.load(1, keys...); !cmp.Equal(got, want) {
			t.Errorf("load afterwards: %v", got)
		}
		if c := r.counts(); c.Quarantined != 2 || c.Used != 62 {
			t.Errorf("slots (restarted %d times): %+v", i, c)
		}
		if i == 0 {
			if got := r.metric(r.s.metrics.corrupt.WithLabelValues("s0")).GetCounter().GetValue(); got != 1 {
				t.Errorf("checksum failures: %v", got)
			}
			r.restart()
			if got := r.metric(r.s.metrics.recoveryFaults).GetCounter().GetValue(); got != 0 {
				t.Errorf("recovery found %v faults: the row was not dropped with its slots", got)
			}
		}
	}
	if got := r.store(100_000, StoreOptions{}, keys[7])[0]; got.Status != OK {
		t.Errorf("store it anew: %+v", got)
	}
}

// H6: a reader that finds bad bytes removes that entry, not a newer one.
func TestCorruptionDoesNotRemoveTheNewerEntry(t *testing.T) {
	r := newRig(t)
	r.mustStore(1000, "a")
	off, n := r.where("a")
	r.devs[0].FlipBit(off)
	release := r.devs[0].Hang(off, n)
	l, err := r.s.Load(context.Background(), ns, []string{"a"})
	if err != nil {
		t.Fatal(err)
	}
	r.devs[0].AwaitInFlight(1)
	if got := r.storeVersion(2, 1000, StoreOptions{Overwrite: true}, "a")[0]; got.Status != OK {
		t.Fatal(got)
	}
	release()
	if it, _ := l.Next(); it.Status != Corrupt {
		t.Errorf("the old entry: %v", it.Status)
	}
	l.Close()
	if got := r.load(2, "a"); got[0] != OK {
		t.Errorf("the new entry: %v", got)
	}
}

// H4, H5: slots of a removed entry are not reused while a read of it goes on.
func TestForcedRemoveUnderRead(t *testing.T) {
	r := newRig(t, exactly(4))
	total := int(r.counts().Total)
	keys := names(total)
	r.mustStore(1000, keys...)
	off, n := r.where(keys[0])
	release := r.devs[0].Hang(off, n)
	l, err := r.s.Load(context.Background(), ns, keys[:1])
	if err != nil {
		t.Fatal(err)
	}
	r.devs[0].AwaitInFlight(1)
	if got := r.remove(true, keys[0]); got.Removed != 1 {
		t.Fatal(got)
	}
	if c := r.counts(); c.Retired != 1 || c.Free != 0 {
		t.Errorf("while it is read: %+v", c)
	}
	if got := r.store(1000, StoreOptions{}, "other")[0]; got.Status != NoSpace {
		t.Errorf("store while the only other slot is read: %v", got.Status)
	}
	release()
	it, _ := l.Next()
	if it.Status != OK || string(bytesOf(it)) != string(payload(keys[0], 1, 1000)) {
		t.Errorf("the read under the remove: %v", it.Status)
	}
	if it.Buf != nil {
		it.Buf.Release()
	}
	l.Close()
	r.s.work.Wait()
	if c := r.counts(); c.Retired != 0 || c.Free != 1 {
		t.Errorf("afterwards: %+v", c)
	}
	r.mustStore(1000, "other")
}

// H5: a pin on an entry that was removed by force never touches the next owner
// of its slot.
func TestStalePinIsNobodysPin(t *testing.T) {
	r := newRig(t, exactly(1), func(o *rigOptions) { o.maxPinned = 1 })
	r.mustStore(10, "a")
	old := r.pin("a")
	r.remove(true, "a")
	r.mustStore(10, "b") // the same slot
	fresh := r.pin("b")
	if rel, stale, _ := r.s.Unpin(context.Background(), ns, old.ID, nil); rel != 0 || stale != 1 {
		t.Errorf("stale unpin: released %d, stale %d", rel, stale)
	}
	if got := r.remove(false, "b").Results[0].Status; got != Pinned {
		t.Errorf("b after the stale unpin: %v", got)
	}
	if rel, _, _ := r.s.Unpin(context.Background(), ns, fresh.ID, nil); rel != 1 {
		t.Errorf("unpin of b released %d", rel)
	}
}

// C3, engine half: one hung op costs one key; the slab serves on.
func TestHungReadCostsOneKey(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.slots = 100; o.workers = 32 })
	keys := names(32)
	r.mustStore(60_000, keys...)
	off, n := r.where(keys[31])
	release := r.devs[0].Hang(off, n)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	l, err := r.s.Load(ctx, ns, keys)
	if err != nil {
		t.Fatal(err)
	}
	for i := range 31 {
		it, _ := l.Next()
		if it.Status != OK {
			t.Errorf("key %d: %v", i, it.Status)
		}
		it.Buf.Release()
	}
	cancel() // the deadline
	if it, _ := l.Next(); it.Status != Deadline || it.Buf != nil {
		t.Errorf("the hung key: %v", it.Status)
	}
	l.Close()
	if got := r.load(1, keys[:31]...); !cmp.Equal(got, all(31, OK)) {
		t.Errorf("while it hangs: %v", got)
	}
	release()
	r.s.work.Wait()
	if got := r.load(1, keys...); !cmp.Equal(got, all(32, OK)) {
		t.Errorf("afterwards: %v", got)
	}
}

// A caller that leaves during the write publishes nothing, and the slots come
// back when the device is done with them, not before.
func TestHungWriteAtDeadline(t *testing.T) {
	r := newRig(t)
	release := r.devs[0].Hang(1<<20, 64<<20)
	ctx, cancel := context.WithCancel(context.Background())
	st, err := r.s.BeginStore(ctx, ns, StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	st.Add(r.item("a", payload("a", 1, 1000)))
	r.devs[0].AwaitInFlight(1)
	cancel()
	res, err := st.Commit()
	if err != nil || res[0].Status != Deadline {
		t.Fatalf("%+v %v", res, err)
	}
	if c := r.counts(); c.Reserved != 1 {
		t.Errorf("while the device writes: %+v", c)
	}
	release()
	<-st.ended
	if c := r.counts(); c.Free != c.Total {
		t.Errorf("afterwards: %+v", c)
	}
	r.mustStore(1000, "a")
}

// C6: a write error at one key leaves it absent and the rest of the batch whole.
func TestWriteErrorCostsOneKey(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.slots = 40 })
	keys := names(8)
	l := r.slabs[0].Label()
	third := l.DataOffset + 2*l.Stride
	r.devs[0].FailRange(ioengine.Write, third, l.Stride, syscall.EIO)
	res := r.store(1000, StoreOptions{}, keys...)
	failed := 0
	for _, x := range res {
		switch x.Status {
		case OK:
		case IOError:
			failed++
			if !errors.Is(x.Err, syscall.EIO) {
				t.Errorf("%q: %v", x.Key, x.Err)
			}
			if got := r.lookup(x.Key); got[0] != Missing {
				t.Errorf("%q after its write failed: %v", x.Key, got)
			}
		default:
			t.Errorf("%q: %v", x.Key, x.Status)
		}
	}
	if c := r.counts(); failed != 1 || c.Quarantined != 1 || c.Used != 7 {
		t.Errorf("%d failed: %+v", failed, c)
	}
	r.restart()
	if c := r.counts(); c.Quarantined != 1 || c.Used != 7 {
		t.Errorf("after a restart: %+v", c)
	}
}

// H15: a flush that failed once makes the slab read-only; loads go on.
func TestFlushErrorMakesTheSlabReadOnly(t *testing.T) {
	r := newRig(t)
	r.mustStore(1000, "a")
	r.devs[0].FailFlush(syscall.EIO)
	if got := r.store(1000, StoreOptions{}, "b")[0].Status; got == OK {
		t.Errorf("store whose flush failed: %v", got)
	}
	if got := r.store(1000, StoreOptions{}, "c")[0].Status; got != Unavailable {
		t.Errorf("store afterwards: %v", got)
	}
	if got := r.load(1, "a", "b", "c"); !cmp.Equal(got, []Status{OK, Missing, Missing}) {
		t.Errorf("loads: %v", got)
	}
	if st := r.s.Status(); st.Slabs[0].ReadOnly == "" {
		t.Errorf("status does not say that the slab is read-only")
	}
}

// H16: a bad sector is a miss of one key, and its slots are not used again.
func TestReadErrorCostsOneKey(t *testing.T) {
	r := newRig(t)
	r.mustStore(1000, "a", "b")
	off, n := r.where("a")
	r.devs[0].FailRange(ioengine.Read, off, n, syscall.EIO)
	if got := r.load(1, "a", "b"); !cmp.Equal(got, []Status{IOError, OK}) {
		t.Errorf("first: %v", got)
	}
	if got := r.load(1, "a", "b"); !cmp.Equal(got, []Status{Missing, OK}) {
		t.Errorf("second: %v", got)
	}
	if c := r.counts(); c.Quarantined != 1 {
		t.Errorf("%+v", c)
	}
}

// A sick drive must not use itself up: beyond a share of its slots, read errors
// cost answers only.
func TestReadErrorsQuarantineABoundedShare(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.slotSize, o.slots, o.payload = 4096, 300, 4096 })
	keys := names(200)
	r.mustStore(100, append([]string{"good"}, keys...)...)
	off, n := r.where("good")
	r.devs[0].FailRange(ioengine.Read, off+n, 64<<20, syscall.EIO)
	for _, k := range keys { // the good one in between: else the slab would count as dead
		if got := r.load(1, k, "good"); !cmp.Equal(got, []Status{IOError, OK}) {
			t.Errorf("load of %q: %v", k, got)
		}
	}
	c := r.counts()
	if want := quarantineLimit(c.Total); c.Quarantined != want {
		t.Errorf("quarantined %d slots, want %d", c.Quarantined, want)
	}
	r.devs[0].Heal()
	if got := r.load(1, keys[199]); got[0] != OK {
		t.Errorf("a key beyond the share, once the drive is well: %v", got)
	}
}

func TestLeaseEndsByItself(t *testing.T) {
	r := newRig(t)
	r.mustStore(10, "a")
	l := r.pin("a")
	r.clock.Add(int64(29 * time.Second))
	r.sweep()
	if st := r.s.Status(); st.Leases != 1 || st.Pins != 1 {
		t.Errorf("before its end: %+v", st)
	}
	r.clock.Add(int64(time.Second))
	r.sweep()
	if st := r.s.Status(); st.Leases != 0 || st.Pins != 0 || st.Namespaces[0].Pinned != 0 {
		t.Errorf("after its end: %+v", st)
	}
	if _, _, err := r.s.Unpin(context.Background(), ns, l.ID, nil); !errors.Is(err, ErrNoLease) {
		t.Errorf("unpin by an expired lease: %v", err)
	}
	if got := r.remove(false, "a"); got.Removed != 1 {
		t.Errorf("remove after the lease: %+v", got)
	}
}

func TestPinsAreCapped(t *testing.T) {
	r := newRig(t, exactly(10), func(o *rigOptions) { o.maxPinned = 0.35 })
	keys := names(5)
	r.mustStore(10, keys...)
	res, err := r.s.Pin(context.Background(), ns, keys, LeaseRequest{})
	if err != nil || !cmp.Equal(statuses(res.Results), []Status{OK, OK, OK, Busy, Busy}) {
		t.Errorf("%+v %v", res, err)
	}
	if err := res.Results[4].Err; !errors.Is(err, ErrPinLimit) || !strings.Contains(err.Error(), "leases.max_pinned") {
		t.Errorf("why: %v", err)
	}
	if _, _, err := r.s.Release(res.Lease.ID); err != nil {
		t.Error(err)
	}
	// So are those that a lookup takes, and what it could not protect is no hit.
	found, err := r.s.Lookup(context.Background(), ns, keys, LookupOptions{Lease: &LeaseRequest{}})
	if err != nil || !cmp.Equal(statuses(found.Results), []Status{OK, OK, OK, Busy, Busy}) || found.Hits != 3 || found.PrefixHits != 3 || found.Lease.Entries != 3 {
		t.Errorf("lookup: %+v %v", found, err)
	}
	if err := found.Results[3].Err; !errors.Is(err, ErrPinLimit) {
		t.Errorf("lookup: why: %v", err)
	}
}

// H23: expiry is absolute, holds across restarts, and a pin outlives it.
func TestExpiry(t *testing.T) {
	r := newRig(t)
	st := r.store(10, StoreOptions{TTL: time.Minute}, "a", "b")
	if st[0].Status != OK {
		t.Fatal(st)
	}
	r.mustStore(10, "forever")
	r.clock.Add(int64(59 * time.Second))
	r.restart()
	r.pin("b")
	r.clock.Add(int64(2 * time.Second))
	gone := func(st Status) bool { return st == Expired || st == Missing } // the sweeper may have come by
	if got := r.lookup("a", "b", "forever"); !gone(got[0]) || !cmp.Equal(got[1:], all(2, OK)) {
		t.Errorf("lookup: %v", got)
	}
	if got := r.load(1, "a", "b"); !gone(got[0]) || got[1] != OK {
		t.Errorf("load: %v", got)
	}
	r.sweep()
	if got := r.lookup("a", "b"); !cmp.Equal(got, []Status{Missing, OK}) {
		t.Errorf("after a sweep: %v", got)
	}
	r.clock.Add(int64(time.Hour))
	r.sweep() // the lease first, then the entry
	if st := r.s.Status(); st.Entries != 1 {
		t.Errorf("%d entries left, want one", st.Entries)
	}
}

func TestStoreOverAnExpiredKey(t *testing.T) {
	r := newRig(t)
	r.store(10, StoreOptions{TTL: time.Second}, "a")
	r.clock.Add(int64(time.Minute))
	if got := r.storeVersion(2, 10, StoreOptions{}, "a")[0].Status; got != OK {
		t.Errorf("store: %v", got)
	}
	if got := r.load(2, "a"); got[0] != OK {
		t.Errorf("load: %v", got)
	}
	if c := r.counts(); c.Used != 1 {
		t.Errorf("%+v", c)
	}
}

func TestMountNumbers(t *testing.T) {
	r := newRig(t)
	r.restart()
	if got := r.slabs[0].Label().Mount; got != 2 {
		t.Fatalf("mounted twice, the label says %d", got)
	}
	inc := meta.Incarnation(r.slabs[0].Label().Incarnation)
	set := func(n uint64) {
		b := r.db.NewBatch()
		b.SetMount(inc, n)
		if err := r.db.Commit(b, true); err != nil {
			t.Fatal(err)
		}
	}
	set(3) // a crash between metadata and label
	r.restart()
	if got := r.slabs[0].Label().Mount; got != 3 {
		t.Errorf("after a crash between the two: %d", got)
	}
	for _, n := range []uint64{1, 2, 5} {
		set(n)
		r.shut()
		if err := r.open(); !errors.Is(err, ErrMount) {
			t.Errorf("metadata at %d, label at 3: %v", n, err)
		}
		set(3)
	}
	r.restart()
	if got := r.slabs[0].Label().Mount; got != 4 {
		t.Errorf("after three refusals and a mount: %d", got)
	}
}

// A drive whose label can be read and not written any more is served, and neither
// its entries nor its mount number suffer.
func TestLabelCannotBeWritten(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.slabs = 2 })
	keys := names(8)
	r.mustStoreTogether(1000, keys...)
	r.shut()
	r.devs[0].FailRange(ioengine.Write, 0, 1<<20, syscall.EIO)
	for range 2 {
		r.start()
		if st := r.slabStatus("s0"); st.Health != HealthReadOnly || !strings.Contains(st.Reason, "label") {
			t.Errorf("status: %+v", st)
		}
		if got := r.load(1, keys...); !cmp.Equal(got, all(8, OK)) {
			t.Errorf("loads: %v", got)
		}
		r.store(1000, StoreOptions{}, "x")
		if got := r.on(0, "x"); len(got) > 0 {
			t.Error("a store went to it")
		}
		r.shut()
	}
	r.devs[0].Heal()
	r.start()
	if st := r.slabStatus("s0"); st.Health != HealthOnline {
		t.Errorf("healed: %+v", st)
	}
	if got := r.load(1, keys...); !cmp.Equal(got, all(8, OK)) {
		t.Errorf("loads, healed: %v", got)
	}
}

// A slab that a later release marked read-only for this one is served, and its
// label stays as it is.
func TestReadOnlyLabel(t *testing.T) {
	r := newRig(t)
	r.mustStore(1000, "a")
	l := r.slabs[0].Label()
	r.shut()
	l.Epoch++
	l.ROCompat = 1 << 31
	r.devs[0].Poke(0, slab.EncodeLabel(&l))
	for range 2 {
		r.start()
		if got := r.load(1, "a"); got[0] != OK {
			t.Errorf("load: %v", got)
		}
		if got := r.store(1000, StoreOptions{}, "b")[0].Status; got != Unavailable {
			t.Errorf("store: %v", got)
		}
		if got := r.slabs[0].Label(); got.Mount != l.Mount || got.Epoch != l.Epoch {
			t.Errorf("label was written: %+v", got)
		}
		r.shut()
	}
}

func TestForeignMetadataIsRefused(t *testing.T) {
	r := newRig(t)
	r.mustStore(10, "a")
	r.shut()
	other := newRig(t)
	mine := r.fs
	r.fs = other.fs
	other.shut()
	if err := r.open(); !errors.Is(err, ErrMount) {
		t.Errorf("metadata of another device: %v", err)
	}
	r.shut()
	r.fs = mine
	r.start()
	if got := r.load(1, "a"); got[0] != OK {
		t.Errorf("with its own metadata again: %v", got)
	}
}

// H10: of two rows that share a slot neither is believed.
func TestRowsThatShareASlot(t *testing.T) {
	r := newRig(t)
	r.mustStore(100_000, "a") // slots 0 and 1
	r.mustStore(1000, "b", "c")
	inc := r.s.volumes[0].inc
	row, ok, err := r.db.Get(inc, 2)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	row.Key, row.Len, row.More = "d", 100_000, []uint32{1}
	b := r.db.NewBatch()
	b.Set(inc, 9, &row)
	if err := r.db.Commit(b, true); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		r.restart()
		if got := r.load(1, "a", "b", "c", "d"); !cmp.Equal(got, []Status{Missing, OK, OK, Missing}) {
			t.Errorf("loads: %v", got)
		}
		if c := r.counts(); c.Quarantined != 3 || c.Used != 2 {
			t.Errorf("slots: %+v", c)
		}
	}
}

func TestTwoRowsOfOneKey(t *testing.T) {
	r := newRig(t)
	r.mustStore(1000, "x", "y", "z")
	r.remove(false, "x", "y", "z")
	r.mustStore(1000, "a", "b")
	inc := r.s.volumes[0].inc
	first, _ := r.where("a")
	l := r.slabs[0].Label()
	head := uint32((first - l.DataOffset) / l.Stride)
	row, ok, err := r.db.Get(inc, head)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	for i, head := range []uint32{0, 20} { // before and after the entry, in the order of the scan
		old := row
		old.Gen = row.Gen - 1 - uint64(i)
		b := r.db.NewBatch()
		b.Set(inc, head, &old)
		if err := r.db.Commit(b, true); err != nil {
			t.Fatal(err)
		}
	}
	r.restart()
	if got := r.load(1, "a", "b"); !cmp.Equal(got, all(2, OK)) {
		t.Errorf("loads: %v", got)
	}
	if c := r.counts(); c.Used != 2 || c.Free != c.Total-2 {
		t.Errorf("slots: %+v", c)
	}
}

// Of inconsistent rows every mixture must come up, and stay usable.
func TestMixturesOfBadRows(t *testing.T) {
	r := newRig(t)
	r.mustStore(1000, "x", "y", "z")
	r.remove(false, "x", "y", "z")
	r.mustStore(100_000, "a") // two slots
	first, _ := r.where("a")
	l := r.slabs[0].Label()
	head := uint32((first - l.DataOffset) / l.Stride)
	inc := r.s.volumes[0].inc
	row, ok, err := r.db.Get(inc, head)
	if err != nil || !ok {
		t.Fatal(ok, err)
	}
	b := r.db.NewBatch()
	older, sharer, broken := row, row, row
	older.Gen, older.More = row.Gen-1, []uint32{20} // a loser of "a" on 19 and 20 ...
	b.Set(inc, 19, &older)
	sharer.Key, sharer.Gen, sharer.More = "s", row.Gen-2, []uint32{20} // ... whose slot 20 another claims
	b.Set(inc, 30, &sharer)
	broken.Key, broken.Len = "t", 1 // a row that cannot be, in the further slot of "a"
	b.Set(inc, row.More[0], &broken)
	if err := r.db.Commit(b, true); err != nil {
		t.Fatal(err)
	}
	for range 2 {
		r.restart()
		if got := r.load(1, "a", "s", "t"); !cmp.Equal(got, all(3, Missing)) {
			t.Errorf("loads: %v", got)
		}
		r.checkStates()
		r.remove(true, "a", "s", "t")
		r.mustStore(1000, "new")
		r.remove(false, "new")
	}
}
