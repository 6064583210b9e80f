// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rawblockd/rawblockd/internal/simdev"
	"github.com/rawblockd/rawblockd/meta"
	"github.com/rawblockd/rawblockd/slab"
)

// homes tells on which slab each key is.
func (r *rig) homes(keys ...string) map[string]int {
	r.t.Helper()
	out := map[string]int{}
	h := r.s.lock(lockReport)
	defer r.s.unlock(h)
	for _, k := range keys {
		if head, ok := r.s.x.find(r.s.hash.of(r.s.named(ns).salt, k)); ok {
			out[k] = r.s.volumeOf(head)
		}
	}
	return out
}

// on returns those keys that are on a slab.
func (r *rig) on(vol int, keys ...string) []string {
	r.t.Helper()
	homes := r.homes(keys...)
	var out []string
	for _, k := range keys {
		if v, ok := homes[k]; ok && v == vol {
			out = append(out, k)
		}
	}
	return out
}

// want is one status for the keys on a slab and another for the rest.
func (r *rig) want(keys []string, vol int, there, else_ Status) []Status {
	r.t.Helper()
	homes := r.homes(keys...)
	out := make([]Status, len(keys))
	for i, k := range keys {
		out[i] = else_
		if v, ok := homes[k]; ok && v == vol {
			out[i] = there
		}
	}
	return out
}

func (r *rig) slabStatus(name string) SlabStatus {
	r.t.Helper()
	for _, st := range r.s.Status().Slabs {
		if st.Name == name {
			return st
		}
	}
	r.t.Fatalf("no slab %q in the status", name)
	return SlabStatus{}
}

func (r *rig) used() int64 { return r.info(ns).Used }

// away restarts the store without the devices given.
func (r *rig) away(why error, vols ...int) {
	r.t.Helper()
	r.shut()
	r.gone = map[int]error{}
	for _, v := range vols {
		r.gone[v] = why
	}
	r.start()
}

// One slab of three is missing at the start: the others are served, what is on it
// is unavailable and counts, can be removed and stored anew; and what was neither
// is served again when the device is back.
func TestMissingSlab(t *testing.T) {
	const slot = 64 << 10
	r := newRig(t, func(o *rigOptions) { o.slabs, o.quota, o.maxPinned = 3, 60*slot, 1 })
	keys := names(30)
	r.mustStoreTogether(slot+1, keys...) // two slots each
	lost := r.on(1, keys...)
	if len(lost) != 10 {
		t.Fatalf("%d of 30 keys are on the second of three slabs", len(lost))
	}
	full := r.used()
	brief := r.store(10, StoreOptions{TTL: time.Minute}, names(33)[30:]...)
	if brief[0].Status != OverQuota || full != 60*slot {
		t.Fatalf("%d bytes are used: %+v", full, brief)
	}
	r.remove(false, keys[0], keys[1], keys[2])
	gone := r.on(1, keys...)
	r.store(10, StoreOptions{TTL: time.Minute}, "t0", "t1", "t2")
	expiring := r.on(1, "t0", "t1", "t2")
	if len(expiring) != 1 {
		t.Fatalf("%d of three keys with a time to live are on the second of three slabs", len(expiring))
	}
	r.restart() // mounted more than once
	before, transfers := r.used(), r.devs[1].Counts()
	mount := r.slabStatus("s1").Mount

	r.away(fmt.Errorf("open device: %w", syscall.ENXIO), 1)
	if got := r.used(); got != before {
		t.Errorf("%d bytes are used without the slab, %d with it", got, before)
	}
	st := r.slabStatus("s1")
	if st.Health != HealthMissing || !strings.Contains(st.Reason, syscall.ENXIO.Error()) || st.Counts.Used != uint32(2*len(gone)+1) || st.SlotSize != slot || st.Mount != mount {
		t.Errorf("status of the missing slab: %+v", st)
	}
	if got, want := r.lookup(keys[3:]...), r.want(keys[3:], 1, Unavailable, OK); !cmp.Equal(got, want) {
		t.Errorf("lookup: %v", got)
	}
	if got, want := r.load(1, keys[3:]...), r.want(keys[3:], 1, Unavailable, OK); !cmp.Equal(got, want) {
		t.Errorf("load: %v", got)
	}
	found, err := r.s.Lookup(context.Background(), ns, append(gone[:1:1], keys[3:]...), LookupOptions{Lease: &LeaseRequest{}})
	if why := found.Results[0].Err; err != nil || found.PrefixHits != 0 || found.Hits != 27-len(gone) || found.Lease.Entries != found.Hits ||
		why == nil || !strings.Contains(why.Error(), `"s1" is missing`) {
		t.Errorf("lookup with a lease: %d hits, %d at the beginning, %d pinned, %v (%v)", found.Hits, found.PrefixHits, found.Lease.Entries, why, err)
	}
	if _, _, err := r.s.Unpin(context.Background(), ns, found.Lease.ID, nil); err != nil {
		t.Error(err)
	}

	removed, anew, kept := gone[0], gone[1], gone[2:]
	if got := r.remove(false, removed); got.Removed != 1 {
		t.Errorf("remove of a key on it: %+v", got)
	}
	if got := r.storeVersion(2, slot+1, StoreOptions{}, anew)[0]; got.Status != OK {
		t.Errorf("store of a key on it: %+v", got)
	}
	if got := r.storeVersion(2, slot+1, StoreOptions{}, r.on(0, keys...)[0])[0]; got.Status != Exists {
		t.Errorf("store of a key on another: %+v", got)
	}
	r.clock.Add(int64(time.Hour))
	r.sweep()
	r.remove(true, keys[3]) // the answer waits for what was queued before
	if got, want := r.used(), before-(2+3)*slot-2*slot; got != want {
		t.Errorf("%d bytes are used after a remove, three expiries and a remove, want %d", got, want)
	}
	fresh := names(40)[33:]
	r.mustStoreTogether(10, fresh...)
	if got := r.on(1, append(fresh, anew)...); len(got) > 0 {
		t.Errorf("%q went to the missing slab", got)
	}
	for range 2 {
		if got := r.load(1, kept...); !cmp.Equal(got, all(len(kept), Unavailable)) {
			t.Errorf("keys still on it: %v", got)
		}
		if got := r.load(2, removed, anew, expiring[0]); !cmp.Equal(got, []Status{Missing, OK, Missing}) {
			t.Errorf("removed, stored anew, expired: %v", got)
		}
		used := r.used()
		r.away(syscall.ENOENT, 1)
		if got := r.used(); got != used {
			t.Errorf("%d bytes are used after one more start without it, %d before", got, used)
		}
	}
	if got := r.devs[1].Counts(); got != transfers {
		t.Errorf("the missing device was asked: %+v, then %+v", transfers, got)
	}

	used := r.used()
	r.away(nil)
	if got := r.used(); got != used {
		t.Errorf("%d bytes are used with the slab, %d without it", got, used)
	}
	if got := r.load(1, kept...); !cmp.Equal(got, all(len(kept), OK)) {
		t.Errorf("its keys when it is back: %v", got)
	}
	if got := r.load(2, removed, anew, expiring[0]); !cmp.Equal(got, []Status{Missing, OK, Missing}) {
		t.Errorf("removed, stored anew, expired, when it is back: %v", got)
	}
	st = r.slabStatus("s1")
	if c := st.Counts; st.Health != HealthOnline || st.Mount != mount+1 || c.Used != uint32(2*len(kept)) || c.Free != c.Total-c.Used {
		t.Errorf("status when it is back: %+v", st)
	}
	r.remove(true, keys...)
	r.mustStoreTogether(10, names(60)[50:]...)
	if got := r.on(1, names(60)[50:]...); len(got) == 0 {
		t.Error("no store goes to it")
	}
}

// A slab that was never there has no keys; when it comes it is adopted.
func TestSlabMissingFromTheBeginning(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.slabs, o.gone = 2, map[int]error{0: syscall.ENOENT} })
	r.mustStore(1000, "a")
	st := r.slabStatus("s0")
	if st.Health != HealthMissing || st.Counts.Total != 0 || st.Incarnation != "" {
		t.Errorf("status: %+v", st)
	}
	if got, _, err := r.s.List(context.Background(), ns, "", 0); err != nil || len(got) != 1 {
		t.Errorf("list: %v, %v", got, err)
	}
	if m, err := r.s.SlabMap("s0", 0, 10); err != nil || len(m) != 0 {
		t.Errorf("map: %v, %v", m, err)
	}
	r.away(nil)
	if got := r.load(1, "a"); got[0] != OK {
		t.Errorf("load: %v", got)
	}
	if st := r.slabStatus("s0"); st.Health != HealthOnline || st.Mount != 1 {
		t.Errorf("status when it came: %+v", st)
	}
}

// Without any slab there is nothing to serve.
func TestAllSlabsMissing(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.slabs = 2 })
	r.mustStore(1000, "a")
	r.shut()
	r.gone = map[int]error{0: syscall.ENOENT, 1: syscall.EIO}
	err := r.open()
	if err == nil || !errors.Is(err, errNoSlab) || !strings.Contains(err.Error(), syscall.EIO.Error()) || strings.Contains(err.Error(), "\n") {
		t.Errorf("got %v", err)
	}
	r.away(nil)
	if got := r.load(1, "a"); got[0] != OK {
		t.Errorf("load: %v", got)
	}
}

// A slab is known by the name under which it was mounted last: when another drive
// has taken the place, the rows of the first do not count as the second's.
func TestMissingIsTheLastOfItsName(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.slabs = 2 })
	keys := names(8)
	r.mustStoreTogether(1000, keys...)
	first, old := r.devs[1], r.on(1, keys...)
	r.shut()
	r.devs[1] = simdev.New(simdev.Options{Size: first.Geometry().Size, Block: 512})
	if _, err := slab.InitDevice(r.devs[1], slab.InitOptions{SlotSize: r.o.slotSize, Name: "new"}); err != nil {
		t.Fatal(err)
	}
	r.start()
	if got := r.load(1, old...); !cmp.Equal(got, all(len(old), Missing)) {
		t.Errorf("keys of the drive that was taken out: %v", got)
	}
	r.mustStoreTogether(1000, old...)
	second := r.on(1, old...)
	inc := r.slabStatus("s1").Incarnation

	r.away(syscall.EIO, 1)
	if got := r.slabStatus("s1").Incarnation; got != inc {
		t.Errorf("incarnation %s is missing, want %s", got, inc)
	}
	if got := r.lookup(second...); len(second) == 0 || !cmp.Equal(got, all(len(second), Unavailable)) {
		t.Errorf("keys of the second drive: %v", got)
	}
	r.shut()
	r.devs[1] = first
	r.gone = nil
	r.start() // the first drive again: mounted as often as the metadata says
	if got := r.lookup(second...); !cmp.Equal(got, r.want(second, 1, OK, Missing)) {
		t.Errorf("keys of the second drive, with the first: %v", got)
	}
	recs, err := r.db.Slabs()
	if err != nil {
		t.Fatal(err)
	}
	named := 0
	for _, rec := range recs {
		if rec.Name == "s1" {
			named++
			if rec.Inc != meta.Incarnation(r.slabs[1].Label().Incarnation) {
				t.Errorf("%v goes by the name of s1", rec.Inc)
			}
		}
	}
	if len(recs) != 3 || named != 1 {
		t.Errorf("%d records, %d of s1", len(recs), named)
	}
}

// A start that fails changes no names: not even if the slab that would have taken
// another's was mounted before another one refused.
func TestFailedStartKeepsNames(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.slabs = 3 })
	keys := names(12)
	r.mustStoreTogether(1000, keys...)
	first, old := r.devs[1], r.on(1, keys...)
	inc := meta.Incarnation(r.slabs[2].Label().Incarnation)
	n, _, err := r.db.Mount(inc)
	if err != nil || len(old) == 0 {
		t.Fatal(err, old)
	}
	setMount := func(n uint64) {
		b := r.db.NewBatch()
		b.SetMount(inc, n)
		if err := r.db.Commit(b, true); err != nil {
			t.Fatal(err)
		}
	}
	setMount(n + 7)
	r.shut()
	r.devs[1] = simdev.New(simdev.Options{Size: first.Geometry().Size, Block: 512})
	if _, err := slab.InitDevice(r.devs[1], slab.InitOptions{SlotSize: r.o.slotSize, Name: "new"}); err != nil {
		t.Fatal(err)
	}
	if err := r.open(); !errors.Is(err, ErrMount) {
		t.Fatalf("a start with a slab that does not belong to the metadata: %v", err)
	}
	setMount(n)
	r.away(syscall.EIO, 1)
	if got := r.lookup(old...); !cmp.Equal(got, all(len(old), Unavailable)) {
		t.Errorf("keys of the drive that went by the name: %v", got)
	}
	r.shut()
	r.gone = nil
	r.start() // the other drive has the name when a start went well
	r.away(syscall.EIO, 1)
	if got := r.lookup(old...); !cmp.Equal(got, all(len(old), Missing)) {
		t.Errorf("keys of the drive that lost its name: %v", got)
	}
}

// In relaxed mode too: a missing slab is neither flushed nor in the way of a stop.
func TestMissingRelaxedSlab(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.slabs, o.relaxed, o.interval = 2, true, time.Millisecond })
	keys := names(8)
	r.mustStoreTogether(1000, keys...)
	lost := r.on(1, keys...)
	r.away(syscall.EIO, 1)
	if got := r.remove(false, lost[0]); got.Removed != 1 {
		t.Errorf("remove: %+v", got)
	}
	r.mustStore(1000, "other")
	r.away(nil)
	if got := r.load(1, lost...); !cmp.Equal(got, append([]Status{Missing}, all(len(lost)-1, OK)...)) {
		t.Errorf("when it is back: %v", got)
	}
}

// What leases may protect is a share of the namespace's slabs, wherever they are: a
// namespace that was moved to one that is away can still pin what it has.
func TestPinsOfANamespaceWhoseSlabIsAway(t *testing.T) {
	for what, forget := range map[string]bool{"with a record": false, "without": true} {
		t.Run(what, func(t *testing.T) {
			r := newRig(t, func(o *rigOptions) { o.slabs = 2 })
			r.put(Namespace{Name: "n", Slabs: []string{"s0"}})
			if got := r.storeIn("n", 1000, "k"); got[0] != OK {
				t.Fatal(got)
			}
			r.put(Namespace{Name: "n", Slabs: []string{"s1"}})
			if forget {
				b := r.db.NewBatch()
				b.SetSlab(meta.Incarnation(r.slabs[1].Label().Incarnation), meta.SlabRecord{Name: "another"})
				if err := r.db.Commit(b, true); err != nil {
					t.Fatal(err)
				}
			}
			r.away(syscall.ENXIO, 1)
			res, err := r.s.Pin(context.Background(), "n", []string{"k"}, LeaseRequest{})
			if err != nil || res.Results[0].Status != OK || res.Lease == nil {
				t.Errorf("pin: %+v, %v", res, err)
			}
		})
	}
}
