// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

func TestMainJob(t *testing.T) {
	for _, size := range []int{1, 4096, 64 << 10, 64<<10 + 1, 1_124_352, 3<<20 - 1} {
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			r := newRig(t, func(o *rigOptions) { o.slots, o.maxPinned = 512, 1 })
			keys := names(8)
			r.mustStore(size, keys...)
			if got := r.load(1, keys...); !cmp.Equal(got, all(8, OK)) {
				t.Fatalf("load: %v", got)
			}
			res, err := r.s.Lookup(context.Background(), ns, append(keys, "other"), LookupOptions{Lease: &LeaseRequest{Owner: "me"}})
			if err != nil || res.Hits != 8 || res.PrefixHits != 8 || res.Lease == nil || res.Lease.Entries != 8 {
				t.Fatalf("lookup: %+v, %v", res, err)
			}
			if res.Results[3].Bytes != int64(size) || res.Results[8].Status != Missing {
				t.Fatalf("lookup: %+v", res.Results)
			}
			if got := r.remove(false, keys...); got.Removed != 0 || got.Results[0].Status != Pinned {
				t.Fatalf("remove of leased keys: %+v", got)
			}
			if rel, stale, err := r.s.Unpin(context.Background(), ns, res.Lease.ID, nil); rel != 8 || stale != 0 || err != nil {
				t.Fatalf("unpin: %d, %d, %v", rel, stale, err)
			}
			r.restart()
			if got := r.load(1, keys...); !cmp.Equal(got, all(8, OK)) {
				t.Fatalf("load after restart: %v", got)
			}
			if got := r.remove(false, keys[:4]...); got.Removed != 4 {
				t.Fatalf("remove: %+v", got)
			}
			r.restart()
			want := append(all(4, Missing), all(4, OK)...)
			if got := r.load(1, keys...); !cmp.Equal(got, want) {
				t.Fatalf("load after remove and restart: got %v, want %v", got, want)
			}
			r.remove(false, keys...)
			if c := r.counts(); c.Free != c.Total {
				t.Fatalf("after removing all: %+v", c)
			}
		})
	}
}

// The five behaviours of the report on batched removal.
func TestRemoveContract(t *testing.T) {
	r := newRig(t)
	keys := names(5)
	r.mustStore(100, keys...)
	if got := r.remove(false); got.Removed != 0 || len(got.Results) != 0 {
		t.Errorf("no keys: %+v", got)
	}
	if got := r.remove(false, "x", "y"); got.Removed != 0 || !cmp.Equal(statuses(got.Results), all(2, Missing)) {
		t.Errorf("all missing: %+v", got)
	}
	lease := r.pin(keys[2])
	got := r.remove(false, keys...)
	if want := []Status{OK, OK, Pinned, OK, OK}; got.Removed != 4 || !cmp.Equal(statuses(got.Results), want) {
		t.Errorf("one pinned: %+v", got)
	}
	if got := r.load(1, keys[2]); got[0] != OK {
		t.Errorf("pinned key after an unforced remove: %v", got)
	}
	if got := r.remove(true, keys[2]); got.Removed != 1 || got.Results[0].Status != OK {
		t.Errorf("forced: %+v", got)
	}
	if rel, stale, err := r.s.Unpin(context.Background(), ns, lease.ID, nil); rel != 0 || stale != 1 || err != nil {
		t.Errorf("unpin of what was removed by force: %d released, %d stale, %v", rel, stale, err)
	}
	if st := r.s.Status(); st.Pins != 0 || st.Leases != 0 || st.Entries != 0 {
		t.Errorf("afterwards: %+v", st)
	}
}

func TestRemoveTakesThePinLockOnce(t *testing.T) {
	for _, n := range []int{1, 100, 10000} {
		t.Run(fmt.Sprint(n), func(t *testing.T) {
			r := newRig(t, func(o *rigOptions) { o.slotSize, o.slots, o.payload, o.buffers = 4096, 10200, 4096, 128<<20 })
			keys := names(n)
			r.mustStore(16, keys...)
			before := r.acquisitions(lockRemove)
			if got := r.remove(false, keys...); got.Removed != n {
				t.Fatalf("removed %d of %d", got.Removed, n)
			}
			if got := r.acquisitions(lockRemove) - before; got != 1 {
				t.Fatalf("remove of %d keys took the pin lock %d times, want once", n, got)
			}
		})
	}
}

func TestLookupLoadAndPinTakeThePinLockOnce(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.slotSize, o.slots, o.payload = 4096, 600, 4096 })
	keys := names(500)
	r.mustStore(16, keys...)
	for op, do := range map[lockOp]func(){
		lockLookup: func() { r.lookup(keys...) },
		lockLoad:   func() { r.load(1, keys...) },
		lockUnpin: func() {
			l := r.pin(keys[:100]...)
			if _, _, err := r.s.Unpin(context.Background(), ns, l.ID, keys[:100]); err != nil {
				t.Error(err)
			}
		},
		lockPin: func() { r.pin(keys[:100]...) },
	} {
		before := r.acquisitions(op)
		do()
		if got := r.acquisitions(op) - before; got != 1 {
			t.Errorf("%s of many keys took the pin lock %d times, want once", lockNames[op], got)
		}
	}
}

// C13: a repeated key is handled at its place and counted once.
func TestRepeatedKeys(t *testing.T) {
	r := newRig(t)
	res := r.store(100, StoreOptions{}, "a", "b", "a")
	if res[0].Status != OK || res[1].Status != OK || res[2].Status != Duplicate {
		t.Errorf("store: %+v", res)
	}
	if got := r.load(1, "a", "a", "b"); !cmp.Equal(got, all(3, OK)) {
		t.Errorf("load: %v", got)
	}
	l := r.pin("a", "a")
	if got, _, _ := r.s.Unpin(context.Background(), ns, l.ID, []string{"a"}); got != 2 {
		t.Errorf("unpin of a key pinned twice by one lease released %d", got)
	}
	got := r.remove(false, "a", "a", "b")
	if want := []Status{OK, Duplicate, OK}; got.Removed != 2 || !cmp.Equal(statuses(got.Results), want) {
		t.Errorf("remove: %+v", got)
	}
}

// C14: sizes at the edge.
func TestPayloadLimits(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.payload = 1 << 20 })
	st, err := r.s.BeginStore(context.Background(), ns, StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	st.Add(StoreItem{Key: "over", Len: 1<<20 + 1}, StoreItem{Key: "zero"}, StoreItem{Key: "negative", Len: -1})
	st.Add(r.item("fits", payload("fits", 1, 1<<20)))
	res, err := st.Commit()
	if err != nil {
		t.Fatal(err)
	}
	want := []Status{TooLarge, SizeMismatch, SizeMismatch, OK}
	for i := range want {
		if res[i].Status != want[i] {
			t.Errorf("%s: got %v, want %v", res[i].Key, res[i].Status, want[i])
		}
	}
}

// C36, H42: odd keys are keys of their own or invalid, never another's.
func TestKeys(t *testing.T) {
	r := newRig(t)
	good := []string{".", "..", "a/b", "a%2Fb", " ", "é", "e\u0301", strings.Repeat("k", 1024)}
	bad := []string{"", "\xff", "\xfe", "\xed\xa0\x80", "a\nb", "\x00", "\x7f", strings.Repeat("k", 1025)}
	r.mustStore(64, good...)
	if got := r.load(1, good...); !cmp.Equal(got, all(len(good), OK)) {
		t.Errorf("load: %v", got)
	}
	for _, st := range r.store(64, StoreOptions{}, bad...) {
		if st.Status != InvalidKey || !errors.Is(st.Err, ErrInvalidKey) {
			t.Errorf("store %q: %v %v", st.Key, st.Status, st.Err)
		}
	}
	if got := r.lookup(bad...); !cmp.Equal(got, all(len(bad), InvalidKey)) {
		t.Errorf("lookup: %v", got)
	}
	if got := r.remove(true, bad...); got.Removed != 0 || !cmp.Equal(statuses(got.Results), all(len(bad), InvalidKey)) {
		t.Errorf("remove: %+v", got)
	}
	if got := r.s.Status().Entries; got != len(good) {
		t.Errorf("%d entries, want %d", got, len(good))
	}
}

func TestExistsAndOverwrite(t *testing.T) {
	r := newRig(t)
	r.mustStore(100, "a")
	if got := r.storeVersion(2, 100, StoreOptions{}, "a")[0].Status; got != Exists {
		t.Errorf("second store: %v", got)
	}
	r.load(1, "a")
	if got := r.storeVersion(2, 300_000, StoreOptions{Overwrite: true}, "a")[0].Status; got != OK {
		t.Errorf("overwrite: %v", got)
	}
	if got := r.load(2, "a"); got[0] != OK {
		t.Errorf("load after overwrite: %v", got)
	}
	r.pin("a")
	if got := r.storeVersion(3, 100, StoreOptions{Overwrite: true}, "a")[0].Status; got != Pinned {
		t.Errorf("overwrite of a pinned key: %v", got)
	}
	if got := r.storeVersion(3, 100, StoreOptions{Overwrite: true, Force: true}, "a")[0].Status; got != OK {
		t.Errorf("forced overwrite of a pinned key: %v", got)
	}
	if got := r.load(3, "a"); got[0] != OK {
		t.Errorf("load: %v", got)
	}
	if st := r.s.Status(); st.Pins != 0 || st.Entries != 1 || r.counts().Used != 1 {
		t.Errorf("afterwards: %+v %+v", st, r.counts())
	}
}

func TestFullSlab(t *testing.T) {
	r := newRig(t, exactly(10))
	total := int(r.counts().Total)
	res := r.store(64<<10, StoreOptions{}, names(total+1)...)
	for i, x := range res {
		if want := map[bool]Status{true: OK, false: NoSpace}[i < total]; x.Status != want {
			t.Errorf("key %d of %d: got %v, want %v", i, total, x.Status, want)
		}
	}
	if got := r.remove(false, names(1)...); got.Removed != 1 {
		t.Fatal(got)
	}
	if got := r.store(64<<10, StoreOptions{}, "last")[0]; got.Status != OK {
		t.Errorf("store after a remove made room: %+v", got)
	}
}

func TestQuotaCountsSlots(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.quota = 3 * 64 << 10 })
	res := r.store(64<<10+1, StoreOptions{}, "a", "b") // two slots each
	if res[0].Status != OK || res[1].Status != OverQuota {
		t.Fatalf("%+v", res)
	}
	for i := range 2 {
		if got := r.s.Status().Namespaces[0].Used; got != 2*64<<10 {
			t.Errorf("used %d, want two slots (restarted %d times)", got, i)
		}
		r.restart()
	}
	r.mustStore(10, "c")
	r.remove(false, "a", "c")
	if got := r.s.Status().Namespaces[0].Used; got != 0 {
		t.Errorf("used %d after removing all", got)
	}
}

func TestUnknownNamespace(t *testing.T) {
	r := newRig(t)
	_, err := r.s.Lookup(context.Background(), "nobody", []string{"a"}, LookupOptions{})
	if !errors.Is(err, ErrNamespace) {
		t.Errorf("got %v", err)
	}
}

func TestAbortLeavesNothing(t *testing.T) {
	r := newRig(t)
	st, err := r.s.BeginStore(context.Background(), ns, StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	st.Add(r.item("a", payload("a", 1, 200_000)))
	st.Abort()
	<-st.ended
	if c := r.counts(); c.Free != c.Total || r.s.Status().Namespaces[0].Used != 0 {
		t.Errorf("after abort: %+v", c)
	}
	if got := r.lookup("a"); got[0] != Missing {
		t.Errorf("aborted key: %v", got)
	}
}

func TestPrefixLookupStops(t *testing.T) {
	r := newRig(t)
	r.mustStore(10, "a", "b", "d")
	res, err := r.s.Lookup(context.Background(), ns, []string{"a", "b", "c", "d"}, LookupOptions{Prefix: true, Lease: &LeaseRequest{}})
	if err != nil || res.Hits != 2 || res.PrefixHits != 2 || res.Lease.Entries != 2 {
		t.Errorf("%+v %v", res, err)
	}
	// What was not looked at is missing by its word, says so, and is no miss.
	for i, want := range []error{nil, nil, nil, errUnseen} {
		if got := res.Results[i]; got.Err != want || i >= 2 && got.Status != Missing {
			t.Errorf("key %d: %+v", i, got)
		}
	}
	if got := r.s.metrics.resultCounts()["lookup"]; got["missing"] != 1 || got["ok"] != 2 {
		t.Errorf("counted %v", got)
	}
	res, err = r.s.Lookup(context.Background(), ns, []string{"a", "b", "c", "d"}, LookupOptions{})
	if err != nil || res.Hits != 3 || res.PrefixHits != 2 {
		t.Errorf("%+v %v", res, err)
	}
}

func TestList(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.slabs = 2 })
	keys := names(20)
	r.mustStore(1000, keys...)
	r.remove(false, keys[3])
	seen := map[string]bool{}
	cursor, pages := "", 0
	for {
		got, next, err := r.s.List(context.Background(), ns, cursor, 7)
		if err != nil {
			t.Fatal(err)
		}
		for _, e := range got {
			if seen[e.Key] || e.Bytes != 1000 {
				t.Errorf("%+v", e)
			}
			seen[e.Key] = true
		}
		if pages++; next == "" {
			break
		}
		cursor = next
	}
	if len(seen) != 19 || seen[keys[3]] || pages < 3 {
		t.Errorf("%d keys on %d pages", len(seen), pages)
	}
	// A cursor and an entry's name outlast a restart.
	_, cursor, err := r.s.List(context.Background(), ns, "", 7)
	tag := r.s.Tag(5)
	r.restart()
	got, _, again := r.s.List(context.Background(), ns, cursor, 20)
	if err != nil || again != nil || len(got) != 12 || r.s.Tag(5) != tag || tag == r.s.Tag(6) {
		t.Errorf("after a restart: %d entries %v %v, tags %s and %s", len(got), err, again, tag, r.s.Tag(5))
	}
	for _, bad := range []string{"9:x", "0:1", cursor[2:]} {
		if _, _, err := r.s.List(context.Background(), ns, bad, 1); !errors.Is(err, ErrCursor) {
			t.Errorf("bad cursor: %v", err)
		}
	}
}

// Stored asserts what it says, unlike a lookup.
func TestStored(t *testing.T) {
	r := newRig(t)
	r.mustStore(10, "a")
	for key, want := range map[string]Status{"a": Exists, "b": Missing, "": InvalidKey} {
		if got, err := r.s.Stored(context.Background(), ns, key); got != want || err != nil {
			t.Errorf("%q: got %v %v, want %v", key, got, err, want)
		}
	}
	r.commitsBroken(t)
	if got, _ := r.s.Stored(context.Background(), ns, "c"); got != Unavailable {
		t.Errorf("of an entry whose commit failed: %v", got)
	}
}

// commitsBroken publishes "c" as an entry whose commit fails, at the moment
// between publication and failure.
func (r *rig) commitsBroken(t *testing.T) {
	t.Helper()
	r.mustStore(10, "c")
	r.s.commits.mu.Lock()
	r.s.commits.tail++
	r.s.commits.failed = ErrUnavailable
	r.s.commits.mu.Unlock()
}
