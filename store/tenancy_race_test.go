// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"

	"github.com/rawblockd/rawblockd/slab"
)

// A store that began before its namespace was deleted ends with an error, or
// keeps the namespace alive; it never brings it back.
func TestDeleteUnderAStore(t *testing.T) {
	ctx := context.Background()
	for name, c := range map[string]struct {
		claimed bool // slots are taken when the delete comes
		again   bool // the name is given to a new namespace before the store goes on
	}{
		"not begun to write":        {},
		"not begun, name is reused": {again: true},
		"writing":                   {claimed: true},
	} {
		t.Run(name, func(t *testing.T) {
			r := newRig(t)
			r.put(Namespace{Name: "n"})
			st, err := r.s.BeginStore(ctx, "n", StoreOptions{})
			if err != nil {
				t.Fatal(err)
			}
			if c.claimed {
				st.Add(r.item("k", payload("k", 1, 1000)))
				if err := r.s.DeleteNamespace(ctx, "n"); !errors.Is(err, ErrNotEmpty) || !strings.Contains(err.Error(), "try again") {
					t.Errorf("delete under a store, where a clear finds nothing: %v", err)
				}
				if got := r.commit(st); got[0] != OK {
					t.Errorf("store: %v", got)
				}
				r.restart()
				if got := r.lookupIn("n", "k"); got[0] != OK {
					t.Errorf("after a restart: %v", got)
				}
				return
			}
			if err := r.s.DeleteNamespace(ctx, "n"); err != nil {
				t.Fatal(err)
			}
			if c.again {
				r.put(Namespace{Name: "n"})
			}
			st.Add(r.item("k", payload("k", 1, 1000)))
			res, err := st.Commit()
			if err != nil || res[0].Status != Unavailable || !errors.Is(res[0].Err, ErrNamespace) {
				t.Errorf("store: %+v, %v", res, err)
			}
			r.restart()
			if c.again {
				if got := r.lookupIn("n", "k"); got[0] != Missing {
					t.Errorf("a store of the old namespace is in the new one: %v", got)
				}
			} else if got := r.s.Namespaces(); len(got) != 1 {
				t.Errorf("after a restart: %+v", got)
			}
		})
	}
}

// A batch that follows another one's key takes it over when that fails; not so
// in a namespace that was deleted in between.
func TestDeleteUnderAFollower(t *testing.T) {
	r := newRig(t)
	ctx := context.Background()
	r.put(Namespace{Name: "n"})
	var batch [2]*Storing
	for i := range batch {
		st, err := r.s.BeginStore(ctx, "n", StoreOptions{})
		if err != nil {
			t.Fatal(err)
		}
		st.Add(r.item("k", payload("k", 1, 1000)))
		batch[i] = st
	}
	batch[0].Abort()
	<-batch[0].ended
	if err := r.s.DeleteNamespace(ctx, "n"); err != nil {
		t.Fatal(err)
	}
	res, err := batch[1].Commit()
	if err != nil || res[0].Status != Unavailable || !errors.Is(res[0].Err, ErrNamespace) {
		t.Errorf("follower: %+v, %v", res, err)
	}
	r.restart()
	if got := r.s.Namespaces(); len(got) != 1 {
		t.Errorf("after a restart: %+v", got)
	}
}

// An entry dropped for bad bytes is charged to nobody, and its row's delete may
// still be on its way: the namespace's end stays behind it.
func TestDeleteBehindACorruptEntry(t *testing.T) {
	mem := vfs.NewCrashableMem()
	r := newRig(t, func(o *rigOptions) { o.fs = mem })
	ctx := context.Background()
	r.put(Namespace{Name: "n"})
	r.storeIn("n", 1000, "k")
	h, ok := r.s.x.find(r.s.hash.of(r.s.named("n").salt, "k"))
	if !ok {
		t.Fatal("not stored")
	}
	r.s.condemn(&loadItem{head: h, LoadItem: LoadItem{Gen: r.s.x.gen[h]}, pay: slab.Payload{Slots: []uint32{h}}}, "test", false)
	if err := r.s.DeleteNamespace(ctx, "n"); err != nil {
		t.Fatal(err)
	}
	crashed := mem.CrashClone(vfs.CrashCloneCfg{})
	r.shut()
	r.fs = crashed
	r.start()
	if got := r.s.Namespaces(); len(got) != 1 {
		t.Errorf("after a crash: %+v", got)
	}
}

// A clear that is waiting for its turn, or is under way, when its namespace is
// deleted ends with an error. It leaves the namespace alone that has its number
// now.
func TestDeleteUnderAClear(t *testing.T) {
	inBubble(t, func(*rigOptions) {}, func(t *testing.T, r *rig) {
		ctx := context.Background()
		r.put(Namespace{Name: "a"})
		r.s.clears <- struct{}{} // another clear is under way
		waiting := make(chan error, 1)
		go func() { waiting <- second(r.s.Clear(ctx, "a")) }()
		synctest.Wait()
		begun, err := r.s.beginClear(r.s.named("a"))
		if err != nil {
			t.Fatal(err)
		}
		old := r.s.named("a").num
		if err := r.s.DeleteNamespace(ctx, "a"); err != nil {
			t.Fatal(err)
		}
		r.put(Namespace{Name: "b"})
		if r.s.named("b").num != old {
			t.Fatal("b has another number: the test shows nothing")
		}
		r.storeIn("b", 1000, "k1", "k2")
		begun.before = math.MaxUint64
		var got ClearResult
		if err := r.s.clearChunk(begun, 0, len(r.s.x.gen), &got, &pace{}); !errors.Is(err, ErrNamespace) || got != (ClearResult{}) {
			t.Errorf("the clear under way: %+v, %v", got, err)
		}
		r.s.endClear()
		<-r.s.clears
		if err := <-waiting; !errors.Is(err, ErrNamespace) {
			t.Errorf("the clear that waited: %v", err)
		}
		if got := r.lookupIn("b", "k1", "k2"); !cmp.Equal(got, all(2, OK)) {
			t.Errorf("b: %v", got)
		}
	})
}

// Leases of a deleted namespace end with it, and cannot be used in a new one of
// its name.
func TestDeleteEndsLeases(t *testing.T) {
	r := newRig(t)
	ctx := context.Background()
	r.put(Namespace{Name: "n"})
	r.storeIn("n", 1000, "k")
	res, err := r.s.Pin(ctx, "n", []string{"k"}, LeaseRequest{})
	if err != nil || res.Lease == nil {
		t.Fatal(err)
	}
	if _, err := r.s.Remove(ctx, "n", []string{"k"}, true); err != nil {
		t.Fatal(err)
	}
	if err := r.s.DeleteNamespace(ctx, "n"); err != nil {
		t.Fatal(err)
	}
	r.put(Namespace{Name: "n"})
	if got := r.s.Leases("n"); len(got) != 0 {
		t.Errorf("leases of the new one: %+v", got)
	}
	if _, _, err := r.s.Unpin(ctx, "n", res.Lease.ID, nil); !errors.Is(err, ErrNoLease) {
		t.Errorf("unpin: %v", err)
	}
	if st := r.s.Status(); st.Leases != 0 || st.Pins != 0 {
		t.Errorf("%d leases, %d pins left", st.Leases, st.Pins)
	}
}

// Namespaces are made, deleted, changed and reloaded while clients store into
// them: what a client was told is stored is there until it removes it, and the
// accounts are exact at the end and after a restart.
func TestNamespacesRace(t *testing.T) {
	const rounds, clients = 60, 4
	r := newRig(t, func(o *rigOptions) { o.slabs, o.slots = 2, 128 })
	ctx := context.Background()
	var stop atomic.Bool
	var work, churn sync.WaitGroup
	expected := func(what string, err error, allowed ...error) {
		for _, a := range allowed {
			if errors.Is(err, a) {
				return
			}
		}
		if err != nil {
			t.Errorf("%s: %v", what, err)
		}
	}
	for _, name := range []string{"a", "b"} {
		churn.Go(func() {
			for i := 0; !stop.Load(); i++ {
				_, _, err := r.s.PutNamespace(ctx, Namespace{Name: name, Slabs: []string{fmt.Sprint("s", i%2)}, Quota: int64(4+i%3) << 20})
				expected("put", err)
				expected("delete", r.s.DeleteNamespace(ctx, name), ErrNotEmpty, ErrNamespace)
			}
		})
	}
	churn.Go(func() {
		for i := int64(1); i == 1 || !stop.Load(); i++ {
			expected("reload", r.s.Reload(ctx, seeds(Namespace{Name: "c", Quota: (4 + i%3) << 20})))
			r.s.Namespaces()
			r.s.Status()
		}
	})
	for c := range clients {
		work.Go(func() {
			for i := range rounds {
				r.storeAndRemove(string("abc"[i%3]), fmt.Sprint(c, "-", i), expected)
			}
		})
	}
	work.Wait()
	stop.Store(true)
	churn.Wait()
	r.s.work.Wait()
	r.checkStates()
	before := r.s.Namespaces()
	r.o.spaces = seeds(Namespace{Name: "c", Quota: r.info("c").Quota})
	r.restart()
	if d := cmp.Diff(before, r.s.Namespaces()); d != "" {
		t.Errorf("namespaces after a restart (-before +after):\n%s", d)
	}
}

// storeAndRemove stores a key if its namespace is there, finds it, and removes it.
func (r *rig) storeAndRemove(space, key string, expected func(string, error, ...error)) {
	ctx := context.Background()
	st, err := r.s.BeginStore(ctx, space, StoreOptions{})
	if err != nil {
		expected("begin", err, ErrNamespace)
		return
	}
	st.Add(r.item(key, payload(key, 1, 1000)))
	res, err := st.Commit()
	expected("commit", err)
	switch {
	case res[0].Status == Unavailable:
		expected("store", res[0].Err, ErrNamespace)
		return
	case res[0].Status != OK:
		expected("store", fmt.Errorf("%v: %w", res[0].Status, res[0].Err))
		return
	}
	found, err := r.s.Lookup(ctx, space, []string{key}, LookupOptions{})
	if err == nil && found.Results[0].Status != OK {
		err = fmt.Errorf("%v of a key that was stored", found.Results[0].Status)
	}
	expected("lookup", err)
	gone, err := r.s.Remove(ctx, space, []string{key}, false)
	if err == nil && gone.Removed != 1 {
		err = fmt.Errorf("%v of a key that was stored", gone.Results[0].Status)
	}
	expected("remove", err)
}

// Clears race with stores and removes: nothing that was stored before a clear
// began outlives it, nothing that began after it ended is gone, and each entry
// that went was counted once.
func TestClearRace(t *testing.T) {
	const rounds, clients = 80, 4
	r := newRig(t, func(o *rigOptions) { o.slabs, o.slots, o.spaces = 2, 256, seeds(Namespace{Name: "other"}) })
	ctx := context.Background()
	kept := names(20)
	r.storeIn("other", 1000, kept...)
	var stored, removed, cleared atomic.Int64
	var stop atomic.Bool
	var work, churn sync.WaitGroup
	churn.Go(func() {
		for !stop.Load() {
			res, err := r.s.Clear(ctx, ns)
			if err != nil {
				t.Error(err)
				return
			}
			cleared.Add(int64(res.Removed))
		}
	})
	for c := range clients {
		work.Go(func() {
			for i := range rounds {
				key := fmt.Sprint(c, "-", i)
				if got := r.storeIn(ns, 1000, key); got[0] != OK {
					t.Errorf("store: %v", got)
				}
				stored.Add(1)
				switch i % 4 {
				case 0:
					removed.Add(int64(r.remove(false, key).Removed))
				case 1:
					res, err := r.s.Clear(ctx, ns)
					if err != nil {
						t.Error(err)
						return
					}
					cleared.Add(int64(res.Removed))
					if got := r.lookup(key); got[0] != Missing {
						t.Errorf("stored before a clear began, and %v when it had ended", got)
					}
				}
			}
		})
	}
	work.Wait()
	stop.Store(true)
	churn.Wait()
	last := r.clear(ns)
	if got, want := removed.Load()+cleared.Load()+int64(last.Removed), stored.Load(); got != want {
		t.Errorf("%d entries removed and cleared, %d were stored", got, want)
	}
	if got := r.info(ns); got.Entries != 0 || got.Used != 0 {
		t.Errorf("left: %+v", got)
	}
	if got := r.lookupIn("other", kept...); !cmp.Equal(got, all(len(kept), OK)) {
		t.Errorf("the other namespace: %v", got)
	}
	if got := r.storeIn(ns, 1000, "after"); got[0] != OK {
		t.Error(got)
	}
	if got := r.lookup("after"); got[0] != OK {
		t.Errorf("stored after all clears: %v", got)
	}
}
