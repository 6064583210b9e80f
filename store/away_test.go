// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"strings"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/google/go-cmp/cmp"

	"github.com/rawblockd/rawblockd/meta"
)

// What was cleared or deleted while a slab was not known to the index is not back
// with it, not even in a namespace of the same name. What others have on it is.
func TestClearedWhileASlabIsAway(t *testing.T) {
	ctx := context.Background()
	clear := func(r *rig) error { return second(r.s.Clear(ctx, "a")) }
	remake := func(r *rig) error {
		return errors.Join(r.s.DeleteNamespace(ctx, "a"), third(r.s.PutNamespace(ctx, Namespace{Name: "a", Fingerprint: "model-2"})))
	}
	hide := map[string]func(r *rig){
		"not configured": func(r *rig) { r.devs = r.devs[:1] },
		"missing, without a record": func(r *rig) {
			r.start()
			b := r.db.NewBatch()
			b.SetSlab(meta.Incarnation(r.slabs[1].Label().Incarnation), meta.SlabRecord{Name: "another"})
			if err := r.db.Commit(b, true); err != nil {
				r.t.Fatal(err)
			}
			r.shut()
			r.gone = map[int]error{1: syscall.ENXIO}
		},
	}
	for what, do := range map[string]func(r *rig) error{
		"clear": clear, "delete": remake,
		"clear and delete": func(r *rig) error { return errors.Join(clear(r), remake(r)) },
		"another model":    func(r *rig) error { return third(r.s.PutNamespace(ctx, Namespace{Name: "a", Fingerprint: "model-2"})) },
	} {
		for how, hide := range hide {
			t.Run(what+", "+how, func(t *testing.T) {
				r := newRig(t, func(o *rigOptions) { o.slabs = 2 })
				r.put(Namespace{Name: "a", Fingerprint: "model-1", Slabs: []string{"s1"}})
				r.put(Namespace{Name: "b", Slabs: []string{"s1"}})
				keys := names(8)
				for _, space := range []string{"a", "b"} {
					if got := r.storeIn(space, 1000, keys...); !cmp.Equal(got, all(8, OK)) {
						t.Fatal(got)
					}
				}
				devs := r.devs
				r.shut()
				hide(r)
				r.start()
				if i := r.info("a"); i.Entries != 0 {
					t.Fatalf("%+v: the test shows nothing", i)
				}
				if err := do(r); err != nil {
					t.Fatal(err)
				}
				if got := r.storeIn(ns, 1000, "new"); got[0] != OK {
					t.Errorf("a store elsewhere: %v", got)
				}
				r.shut()
				r.devs, r.gone = devs, nil
				r.start()
				if i := r.info("a"); i.Entries != 0 || i.Used != 0 {
					t.Errorf("what was cleared is back: %+v", i)
				}
				if got := r.lookupIn("b", keys...); !cmp.Equal(got, all(8, OK)) {
					t.Errorf("what another namespace has there: %v", got)
				}
			})
		}
	}
}

// Rows are looked for a chunk at a time, and all of them are found.
func TestManyEntriesAway(t *testing.T) {
	r := newRig(t)
	var heads []uint32
	for i := range uint32(2*chunk + 5) {
		heads = append(heads, i*3)
	}
	keys := r.addMissing(8*chunk, 0, heads...)
	r.shut()
	r.devs, r.gone = r.devs[:1], nil
	r.start()
	r.mustStore(1000, "here")
	if got := r.clear(ns); got != (ClearResult{Removed: 1}) {
		t.Errorf("clear: %+v", got)
	}
	left := 0
	if err := r.db.Scan(meta.Incarnation{1, 2, 3}, 0, 0, func(uint32, meta.Row, error) bool { left++; return true }); err != nil || left != 0 {
		t.Errorf("%d of %d rows are left (%v)", left, len(keys), err)
	}
}

// A record of a slab that a later release wrote refuses the start, as a row does. A
// damaged one costs nothing where there is the device: it is made anew.
func TestRecordsOfSlabsThatCannotBeUsed(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.slabs = 2 })
	r.mustStoreTogether(1000, names(8)...)
	inc := meta.Incarnation(r.slabs[1].Label().Incarnation)
	r.shut()
	pb, err := pebble.Open("meta/pebble", &pebble.Options{FS: r.fs, ErrorIfNotExists: true})
	if err != nil {
		t.Fatal(err)
	}
	err = errors.Join(pb.Set(append([]byte("d/"), inc[:]...), []byte("damaged"), pebble.Sync), pb.Close())
	if err != nil {
		t.Fatal(err)
	}
	r.start()
	if got, ok, err := r.db.Slab(inc); err != nil || !ok || got.Name != "s1" {
		t.Errorf("the record after a start with the device: %+v, %v, %v", got, ok, err)
	}
	if got := r.load(1, names(8)...); !cmp.Equal(got, all(8, OK)) {
		t.Errorf("entries: %v", got)
	}
	b := r.db.NewBatch()
	b.SetSlab(inc, meta.SlabRecord{Name: "s1", Features: meta.Features{Incompat: 1 << 9}})
	if err := r.db.Commit(b, true); err != nil {
		t.Fatal(err)
	}
	r.shut()
	r.gone = map[int]error{1: syscall.ENXIO}
	if err := r.open(); !errors.Is(err, meta.ErrIncompat) || !strings.Contains(err.Error(), inc.String()) {
		t.Errorf("a record of a later release: %v", err)
	}
}
