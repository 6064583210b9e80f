// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/google/go-cmp/cmp"

	"github.com/rawblockd/rawblockd/ioengine"
	"github.com/rawblockd/rawblockd/slab"
)

func (r *rig) explain(key string) Explanation {
	r.t.Helper()
	e, err := r.s.Explain(context.Background(), ns, key)
	if err != nil {
		r.t.Fatal(err)
	}
	return e
}

// Each way that a key can be or not be has its reason, its time and a sentence.
func TestExplain(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.slotSize, o.payload = 4096, 64<<10 })
	t0 := r.clock.Load() / 1e6
	r.mustStore(10_000, "stored", "removed", "forced", "corrupt", "unreadable")
	r.storeFor(time.Minute, "short", "swept", "kept")
	lease := r.pin("kept", "forced")
	r.clock.Add(int64(time.Second))
	r.remove(false, "removed")
	r.remove(true, "forced")
	for _, key := range []string{"corrupt", "unreadable"} {
		off, n := r.where(key)
		if key == "corrupt" {
			r.devs[0].FlipBit(off + n/2)
		} else {
			r.devs[0].FailRange(ioengine.Read, off, n, syscall.EIO)
		}
		r.load(1, key)
	}
	storing, err := r.s.BeginStore(context.Background(), ns, StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	storing.Add(r.item("storing", payload("storing", 1, 10)))
	t1 := r.clock.Load() / 1e6

	for _, c := range []struct {
		key    string
		status Status
		reason Reason
		at     int64
		says   string
	}{
		{"stored", OK, ReasonStored, t0, "it is stored: 10000 bytes"},
		{"short", OK, ReasonStored, t0, "expires at " + stamp(t0+60_000)},
		{"never", Missing, ReasonNeverStored, 0, "since this process started at " + stamp(t0)},
		{"removed", Missing, ReasonRemoved, t1, "a request removed it, at " + stamp(t1)},
		{"forced", Missing, ReasonRemoved, t1, "by force"},
		{"corrupt", Missing, ReasonCorrupt, t1, "checksum"},
		{"unreadable", Missing, ReasonCorrupt, t1, "could not read"},
		{"storing", Missing, ReasonStoring, 0, "storing it now"},
	} {
		e := r.explain(c.key)
		if e.Status != c.status || e.Reason != c.reason || e.At != c.at || !strings.Contains(e.Detail, c.says) {
			t.Errorf("%q: %+v, want %v, %v at %d, saying %q", c.key, e, c.status, c.reason, c.at, c.says)
		}
		if got := r.lookup(c.key)[0]; got != e.Status {
			t.Errorf("%q: explained as %v, a lookup says %v", c.key, e.Status, got)
		}
	}
	storing.Abort()

	r.clock.Add(int64(time.Minute))
	if e := r.explain("short"); e.Status != Expired || e.Reason != ReasonExpired || e.At != t0+60_000 || e.ExpiresAt != e.At {
		t.Errorf("past its end: %+v", e)
	}
	if e := r.explain("kept"); e.Status != OK || e.Reason != ReasonStored || !e.Pinned || !strings.Contains(e.Detail, "a lease keeps it") {
		t.Errorf("past its end, pinned: %+v", e)
	}
	r.sweep()
	if e := r.explain("swept"); e.Status != Missing || e.Reason != ReasonExpired || e.At != r.clock.Load()/1e6 || e.Slab != "" {
		t.Errorf("swept: %+v", e)
	}
	if _, _, err := r.s.Release(lease.ID); err != nil && !errors.Is(err, ErrNoLease) {
		t.Fatal(err)
	}
	if _, err := r.s.Clear(context.Background(), ns); err != nil {
		t.Fatal(err)
	}
	if e := r.explain("stored"); e.Status != Missing || e.Reason != ReasonRemoved || !strings.Contains(e.Detail, "cleared") {
		t.Errorf("cleared: %+v", e)
	}
	if _, err := r.s.Explain(context.Background(), ns, "a\x00"); !errors.Is(err, ErrInvalidKey) {
		t.Errorf("no key: %v", err)
	}
	if _, err := r.s.Explain(context.Background(), "nobody's", "a"); !errors.Is(err, ErrNamespace) {
		t.Errorf("no namespace: %v", err)
	}
}

// What is known of an entry is right to the slot and the byte.
func TestExplainAnEntry(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.slotSize, o.payload, o.slabs = 4096, 64<<10, 2 })
	r.mustStore(10_000, "before", "a")
	r.touch(time.Hour, "a")
	r.clock.Add(int64(time.Minute))
	r.pin("a")
	inc, slot := r.s.rowKey(r.headOf("a"))
	row, ok, err := r.db.Get(inc, slot)
	if err != nil || !ok {
		t.Fatal(err)
	}
	slabName := r.s.volumes[r.s.volumeOf(r.headOf("a"))].slab.Name()
	want := Explanation{
		Status: OK, Reason: ReasonStored, At: row.StoredAt, Slab: slabName, Slot: slot, Bytes: 10_000, SlotBytes: 3 * 4096,
		Generation: row.Gen, StoredAt: row.StoredAt, ExpiresAt: row.StoredAt + 3_600_000, Pinned: true,
	}
	got := r.explain("a")
	want.Detail = got.Detail
	if d := cmp.Diff(want, got); d != "" {
		t.Error(d)
	}
}

func (r *rig) headOf(key string) id {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	h, ok := r.s.x.find(r.s.hash.of(r.s.named(ns).salt, key))
	if !ok {
		r.t.Fatalf("%q is not there", key)
	}
	return h
}

// A key that leaves, comes back and leaves again is explained by the last time,
// and by nothing while it is there.
func TestExplainTheLastDeparture(t *testing.T) {
	r := newRig(t)
	r.mustStore(10, "a")
	r.remove(false, "a")
	r.storeFor(time.Second, "a")
	if e := r.explain("a"); e.Reason != ReasonStored {
		t.Errorf("while it is there: %+v", e)
	}
	r.store(10, StoreOptions{Overwrite: true, TTL: time.Second}, "a")
	r.clock.Add(int64(time.Second))
	r.sweep()
	if e := r.explain("a"); e.Reason != ReasonExpired {
		t.Errorf("expired after it was removed and overwritten: %+v", e)
	}
}

// Once something was forgotten, never_stored is not claimed any more: of no key.
func TestExplainAfterTheHistoryOverflowed(t *testing.T) {
	r := newRig(t)
	r.s.past.size = 3
	keys := names(4)
	r.mustStore(10, keys...)
	r.remove(false, keys[0], keys[1], keys[2])
	if e := r.explain("never"); e.Reason != ReasonNeverStored {
		t.Errorf("while all is remembered: %+v", e)
	}
	r.remove(false, keys[3])
	for _, key := range []string{"never", keys[0]} {
		if e := r.explain(key); e.Status != Missing || e.Reason != ReasonUnknown || e.At != 0 || !strings.Contains(e.Detail, "only the last 3 keys") {
			t.Errorf("%q: %+v", key, e)
		}
	}
	for _, key := range keys[1:] {
		if e := r.explain(key); e.Reason != ReasonRemoved {
			t.Errorf("%q: %+v", key, e)
		}
	}
	r.lookup("never", keys[0], keys[1])
	if got := r.missed(ReasonUnknown); got != 2 {
		t.Errorf("%v misses counted as unknown, want 2", got)
	}
}

// missed is how many misses were counted with a reason.
func (r *rig) missed(why Reason) float64 {
	return r.metric(r.s.metrics.misses[why]).GetCounter().GetValue()
}

// The history is of this process, and the sentence says so.
func TestExplainAfterARestart(t *testing.T) {
	r := newRig(t)
	r.mustStore(10, "removed", "stays")
	r.remove(false, "removed")
	r.clock.Add(int64(time.Hour))
	r.restart()
	for _, key := range []string{"removed", "never"} {
		e := r.explain(key)
		if e.Reason != ReasonNeverStored || !strings.Contains(e.Detail, "since this process started at "+stamp(r.clock.Load()/1e6)) || !strings.Contains(e.Detail, "not remembered") {
			t.Errorf("%q: %+v", key, e)
		}
	}
	if e := r.explain("stays"); e.Reason != ReasonStored || e.StoredAt != r.clock.Load()/1e6-3_600_000 {
		t.Errorf("what was stored before: %+v", e)
	}
}

// A change that the failed metadata store left open is no removal.
func TestExplainAfterMetadataFailure(t *testing.T) {
	fs, on, _ := faultyFS(errorfs.OpFileSyncData)
	r := newRig(t, func(o *rigOptions) { o.fs = fs })
	r.mustStore(1000, "a", "b", "c")
	r.remove(false, "c")
	on.Store(true)
	r.remove(false, "a")
	r.store(1000, StoreOptions{}, "d")
	for key, want := range map[string]Reason{"a": ReasonUnavailable, "b": ReasonStored, "c": ReasonRemoved, "e": ReasonNeverStored} {
		if e := r.explain(key); e.Reason != want {
			t.Errorf("%q: %+v, want %v", key, e, want)
		}
	}
}

// Misses are counted by why, once per key of a batch, without the pin lock.
func TestMissesByReason(t *testing.T) {
	r := newRig(t)
	r.mustStore(1000, "hit", "removed", "corrupt")
	r.storeFor(time.Second, "dead", "swept")
	r.remove(false, "removed")
	r.clock.Add(int64(time.Second))
	want := map[Reason]float64{}
	check := func(what string) {
		t.Helper()
		got := map[Reason]float64{}
		for _, why := range missReasons() {
			if n := r.missed(why); n > 0 {
				got[why] = n
			}
		}
		if d := cmp.Diff(want, got); d != "" {
			t.Errorf("%s: %s", what, d)
		}
	}
	r.lookup("hit", "removed", "never", "dead", "", "never")
	want[ReasonRemoved], want[ReasonNeverStored], want[ReasonExpired] = 1, 2, 1
	check("lookup")
	r.sweep()
	if got := r.load(1, "hit", "removed", "swept", "never"); got[0] != OK {
		t.Fatal(got)
	}
	want[ReasonRemoved], want[ReasonNeverStored], want[ReasonExpired] = 2, 3, 2
	check("load")
	off, _ := r.where("corrupt")
	r.devs[0].FlipBit(off + 500)
	r.load(1, "corrupt")
	want[ReasonCorrupt] = 1
	check("load of bad bytes")
	r.load(1, "corrupt")
	want[ReasonCorrupt] = 2
	check("load of what was dropped")
	if _, err := r.s.Lookup(context.Background(), ns, []string{"hit", "never", "removed", "removed"}, LookupOptions{Prefix: true}); err != nil {
		t.Fatal(err)
	}
	want[ReasonNeverStored]++
	check("a prefix: what was not looked at is no miss")
	before := r.acquisitions(lockLookup)
	r.lookup(names(50)...)
	if got := r.acquisitions(lockLookup) - before; got != 1 {
		t.Errorf("%d acquisitions for a lookup of misses", got)
	}
}

// An eviction is explained as one, and counted as one.
func TestExplainAnEviction(t *testing.T) {
	r := newRig(t)
	r.mustStore(10, "a")
	h := r.headOf("a")
	lock := r.s.lock(lockSweep)
	g, slots := group{at: 1_000, sync: true}, r.s.newSlotLists(1)
	r.s.dropLocked(&g, slots, h, "", ReasonEvicted)
	r.s.move(slots, slab.Used, slab.Deleting)
	pos := r.s.commits.enqueue(g)
	r.s.unlock(lock)
	if err := r.s.commits.wait(context.Background(), pos); err != nil {
		t.Fatal(err)
	}
	if e := r.explain("a"); e.Status != Missing || e.Reason != ReasonEvicted || e.At != 1_000 || !strings.Contains(e.Detail, "evicted") {
		t.Errorf("%+v", e)
	}
	r.lookup("a")
	if n := r.missed(ReasonEvicted); n != 1 {
		t.Errorf("%v misses counted as evicted", n)
	}
}

// While others store and remove a key, it is never said never to have been
// stored. Run it under -race.
func TestExplainUnderTraffic(t *testing.T) {
	r := newRig(t)
	r.mustStore(10, "k")
	stop := make(chan struct{})
	var wg sync.WaitGroup
	wg.Go(func() {
		defer close(stop)
		for range 300 {
			r.remove(true, "k")
			r.store(10, StoreOptions{}, "k")
		}
	})
	for range 2 {
		wg.Go(func() {
			for {
				select {
				case <-stop:
					return
				default:
				}
				e := r.explain("k")
				switch e.Reason {
				case ReasonStored, ReasonRemoved, ReasonStoring:
				default:
					t.Errorf("%+v", e)
					return
				}
				r.lookup("k")
			}
		})
	}
	wg.Wait()
	if n := r.missed(ReasonNeverStored); n != 0 {
		t.Errorf("%v lookups were counted as of a key never stored", n)
	}
}

// Every reason has its word, and each miss one of the contract's.
func TestReasonWords(t *testing.T) {
	seen := map[string]bool{}
	for r := range reasons {
		if w := r.String(); w == "" || seen[w] {
			t.Errorf("reason %d: %q", r, w)
		}
		seen[r.String()] = true
	}
	for why := ReasonNeverStored; why < reasons; why++ {
		if why == ReasonStoring {
			continue
		}
		found := false
		for _, m := range missReasons() {
			found = found || m == why.miss()
		}
		if !found {
			t.Errorf("%v is counted as %v, which has no counter", why, why.miss())
		}
	}
	if got := fmt.Sprint(reasons); got != "unknown" {
		t.Errorf("beyond the last: %q", got)
	}
}
