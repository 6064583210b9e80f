// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/google/go-cmp/cmp/cmpopts"

	"github.com/rawblockd/rawblockd/meta"
)

// put makes or changes a namespace; it must succeed.
func (r *rig) put(n Namespace) (NamespaceInfo, bool) {
	r.t.Helper()
	info, created, err := r.s.PutNamespace(context.Background(), n)
	if err != nil {
		r.t.Fatalf("put namespace %q: %v", n.Name, err)
	}
	return info, created
}

// storeIn stores keys of n bytes in a namespace.
func (r *rig) storeIn(space string, n int, keys ...string) []Status {
	r.t.Helper()
	st, err := r.s.BeginStore(context.Background(), space, StoreOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	for _, k := range keys {
		st.Add(r.item(k, payload(k, 1, n)))
	}
	return r.commit(st)
}

func (r *rig) commit(st *Storing) []Status {
	r.t.Helper()
	res, err := st.Commit()
	if err != nil {
		r.t.Fatal(err)
	}
	out := make([]Status, len(res))
	for i := range res {
		out[i] = res[i].Status
	}
	return out
}

func (r *rig) lookupIn(space string, keys ...string) []Status {
	r.t.Helper()
	res, err := r.s.Lookup(context.Background(), space, keys, LookupOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	return statuses(res.Results)
}

// info is what the store says of a namespace.
func (r *rig) info(name string) NamespaceInfo {
	r.t.Helper()
	info, err := r.s.Namespace(name)
	if err != nil {
		r.t.Fatal(err)
	}
	return info
}

func (r *rig) wantSettings(when string, want Namespace, served, fromConfig bool) {
	r.t.Helper()
	got := r.info(want.Name)
	if d := cmp.Diff(want, got.Namespace, cmpopts.EquateEmpty()); d != "" {
		r.t.Errorf("%s: settings (-want +got):\n%s", when, d)
	}
	if got.Served != served || got.FromConfig != fromConfig {
		r.t.Errorf("%s: served %v, from the file %v, want %v, %v", when, got.Served, got.FromConfig, served, fromConfig)
	}
}

// seeds are the namespaces of a file: the rig's own, and more.
func seeds(more ...Namespace) []Namespace { return append([]Namespace{{Name: ns}}, more...) }

// A namespace made at run time works like any other, is there after a restart
// with its settings and entries, and is gone for good once deleted.
func TestNamespaceAtRunTime(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.slabs = 2 })
	ctx := context.Background()
	want := Namespace{Name: "made", Slabs: []string{"s1"}, Quota: 1 << 20, TTL: time.Hour, Fingerprint: "llama/fp8"}
	if info, created := r.put(want); !created || !cmp.Equal(info.Namespace, want) || !info.Served || info.FromConfig {
		t.Errorf("put: %+v, created %v", info, created)
	}
	if got := r.storeIn("made", 1000, "a", "b"); !cmp.Equal(got, all(2, OK)) {
		t.Fatalf("store: %v", got)
	}
	if free := r.slabs[0].Counts().Free; free != r.slabs[0].SlotCount() {
		t.Errorf("slab s0 is not the namespace's and has %d free slots of %d", free, r.slabs[0].SlotCount())
	}
	for _, when := range []string{"at once", "after a restart"} {
		r.wantSettings(when, want, true, false)
		if got := r.lookupIn("made", "a", "b", "c"); !cmp.Equal(got, []Status{OK, OK, Missing}) {
			t.Errorf("%s: lookup %v", when, got)
		}
		if got := r.lookup("a"); got[0] != Missing {
			t.Errorf("%s: another namespace sees the key: %v", when, got)
		}
		if i := r.info("made"); i.Entries != 2 || i.Used != 2*64<<10 {
			t.Errorf("%s: %d entries, %d bytes", when, i.Entries, i.Used)
		}
		r.restart()
	}
	listed, _, err := r.s.List(ctx, "made", "", 10)
	if err != nil || len(listed) != 2 {
		t.Fatalf("list: %+v, %v", listed, err)
	}
	if got := listed[0].ExpiresAt - listed[0].StoredAt; got != time.Hour.Milliseconds() {
		t.Errorf("an entry lives %d ms, the namespace's time to live is an hour", got)
	}
	if err := r.s.DeleteNamespace(ctx, "made"); !errors.Is(err, ErrNotEmpty) || !strings.Contains(err.Error(), "2 entries") {
		t.Errorf("delete of one with entries: %v", err)
	}
	if _, err := r.s.Clear(ctx, "made"); err != nil {
		t.Fatal(err)
	}
	if err := r.s.DeleteNamespace(ctx, "made"); err != nil {
		t.Fatal(err)
	}
	for _, when := range []string{"at once", "after a restart"} {
		if _, err := r.s.Namespace("made"); !errors.Is(err, ErrNamespace) {
			t.Errorf("%s: %v", when, err)
		}
		if _, err := r.s.Lookup(ctx, "made", []string{"a"}, LookupOptions{}); !errors.Is(err, ErrNamespace) {
			t.Errorf("%s: lookup: %v", when, err)
		}
		if err := r.s.DeleteNamespace(ctx, "made"); !errors.Is(err, ErrNamespace) {
			t.Errorf("%s: delete again: %v", when, err)
		}
		if got := r.s.Namespaces(); len(got) != 1 || got[0].Name != ns {
			t.Errorf("%s: list %+v", when, got)
		}
		r.restart()
	}
	if _, created := r.put(Namespace{Name: "made"}); !created {
		t.Error("made again, and not created")
	}
	if got := r.lookupIn("made", "a"); got[0] != Missing {
		t.Errorf("a new namespace of an old name has a key: %v", got)
	}
}

// A number that a deleted namespace leaves is used again: making and deleting
// goes on for ever.
func TestNamespaceNumbersComeBack(t *testing.T) {
	r := newRig(t)
	r.put(Namespace{Name: "other"})
	numbers := func() int {
		r.s.mu.Lock()
		defer r.s.mu.Unlock()
		return len(r.s.spaces)
	}
	before := numbers()
	for i := range 10 {
		name := fmt.Sprint("n", i)
		r.put(Namespace{Name: name})
		r.storeIn(name, 100, "k")
		if _, err := r.s.Clear(context.Background(), name); err != nil {
			t.Fatal(err)
		}
		if err := r.s.DeleteNamespace(context.Background(), name); err != nil {
			t.Fatal(err)
		}
	}
	if got := numbers(); got != before+1 {
		t.Errorf("%d numbers taken by ten namespaces one after the other", got-before)
	}
	r.storeIn("other", 100, "k")
	if got := r.lookupIn("other", "k"); got[0] != OK {
		t.Errorf("the neighbour: %v", got)
	}
}

func TestPutRefuses(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.slabs, o.slotSizes = 2, []int64{64 << 10, 256 << 10} })
	long := strings.Repeat("x", 64)
	for name, c := range map[string]struct {
		n           Namespace
		field, says string
	}{
		"no name":          {Namespace{}, "name", "is no name"},
		"slash":            {Namespace{Name: "a/b"}, "name", `"a/b" is no name`},
		"dots":             {Namespace{Name: ".."}, "name", `".." is no name`},
		"long":             {Namespace{Name: long}, "name", "1 to 63"},
		"unknown slab":     {Namespace{Name: "n", Slabs: []string{"s0", "fast"}}, "slabs", `"fast" is not a slab: known are s0, s1`},
		"slab twice":       {Namespace{Name: "n", Slabs: []string{"s0", "s0"}}, "slabs", "listed twice"},
		"negative quota":   {Namespace{Name: "n", Quota: -1}, "quota", "negative"},
		"no slot":          {Namespace{Name: "n", Quota: 64<<10 - 1}, "quota", "less than one slot (65536)"},
		"no slot there":    {Namespace{Name: "n", Quota: 64 << 10, Slabs: []string{"s1"}}, "quota", "less than one slot (262144)"},
		"negative ttl":     {Namespace{Name: "n", TTL: -time.Second}, "ttl", "too short"},
		"no ttl":           {Namespace{Name: "n", TTL: time.Microsecond}, "ttl", "at least 1ms"},
		"fingerprint":      {Namespace{Name: "n", Fingerprint: "a\n"}, "fingerprint", "control"},
		"long fingerprint": {Namespace{Name: "n", Fingerprint: strings.Repeat("x", 1025)}, "fingerprint", "1024"},
		"of one that is":   {Namespace{Name: ns, Quota: -1}, "quota", "negative"},
	} {
		_, _, err := r.s.PutNamespace(context.Background(), c.n)
		var se *SettingError
		if !errors.As(err, &se) || se.Field != c.field || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want a SettingError of %s with %q", name, err, c.field, c.says)
		}
	}
	if got := r.s.Namespaces(); len(got) != 1 {
		t.Errorf("something was made: %+v", got)
	}
	r.wantSettings("after refusals", Namespace{Name: ns}, true, true)
	for _, name := range []string{"a", "A-1_x.y", strings.Repeat("x", 63)} {
		r.put(Namespace{Name: name})
	}
}

// What one caller changes does not undo what another has changed.
func TestUpdateNamespace(t *testing.T) {
	r := newRig(t)
	ctx := context.Background()
	r.put(Namespace{Name: "n", Quota: 1 << 20})
	done := make(chan error, 2)
	for _, edit := range []func(*Namespace){
		func(n *Namespace) { n.Fingerprint += "f" },
		func(n *Namespace) { n.Quota += 1 << 20 },
	} {
		go func() {
			for range 20 {
				if _, _, err := r.s.UpdateNamespace(ctx, "n", edit); err != nil {
					done <- err
					return
				}
			}
			done <- nil
		}()
	}
	for range 2 {
		if err := <-done; err != nil {
			t.Fatal(err)
		}
	}
	r.wantSettings("after both", Namespace{Name: "n", Quota: 21 << 20, Fingerprint: strings.Repeat("f", 20)}, true, false)
}

func TestFingerprint(t *testing.T) {
	r := newRig(t)
	try := func(fp string, want error) {
		t.Helper()
		if _, _, err := r.s.UpdateNamespace(context.Background(), ns, func(n *Namespace) { n.Fingerprint = fp }); !errors.Is(err, want) {
			t.Errorf("fingerprint %q: got %v, want %v", fp, err, want)
		}
	}
	r.mustStore(100, "k")
	try("a", nil) // none was set
	try("a", nil)
	try("b", ErrFingerprint)
	try("", ErrFingerprint)
	r.restart()
	try("b", ErrFingerprint)
	r.wantSettings("after refusals", Namespace{Name: ns, Fingerprint: "a"}, true, true)
	r.remove(false, "k")
	try("b", nil)
	st, err := r.s.BeginStore(context.Background(), ns, StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	st.Add(r.item("k", payload("k", 1, 100)))
	try("c", ErrFingerprint) // of another model's, on its way
	r.commit(st)
}

// A quota below what is used refuses stores and removes nothing.
func TestQuotaLowered(t *testing.T) {
	r := newRig(t)
	r.mustStore(1000, "a", "b", "c")
	info, created := r.put(Namespace{Name: ns, Quota: 2 * 64 << 10})
	if created || info.Used != 3*64<<10 {
		t.Errorf("put: %+v, created %v", info, created)
	}
	for _, when := range []string{"at once", "after a restart"} {
		if got := r.store(1000, StoreOptions{}, "d")[0].Status; got != OverQuota {
			t.Errorf("%s: store %v", when, got)
		}
		if got := r.load(1, "a", "b", "c"); !cmp.Equal(got, all(3, OK)) {
			t.Errorf("%s: loads %v", when, got)
		}
		r.restart()
	}
	r.remove(false, "a", "b")
	if got := r.store(1000, StoreOptions{}, "d")[0].Status; got != OK {
		t.Errorf("below the quota again: %v", got)
	}
}

// A slab that is in a namespace's settings and no longer configured stops
// nothing: its namespace says so to stores, and has it back with the slab.
func TestSlabLeavesTheConfiguration(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.slabs = 2 })
	r.put(Namespace{Name: "n", Slabs: []string{"s1"}})
	r.storeIn("n", 100, "a")
	devs := r.devs
	r.shut()
	r.devs = devs[:1]
	r.start()
	st, err := r.s.BeginStore(context.Background(), "n", StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	st.Add(r.item("b", payload("b", 1, 100)))
	res, err := st.Commit()
	if err != nil || res[0].Status != Unavailable || !strings.Contains(res[0].Err.Error(), "none of the slabs") {
		t.Errorf("store: %+v, %v", res, err)
	}
	r.wantSettings("without the slab", Namespace{Name: "n", Slabs: []string{"s1"}}, true, false)
	r.shut()
	r.devs = devs
	r.start()
	if got := r.lookupIn("n", "a"); got[0] != OK {
		t.Errorf("with the slab again: %v", got)
	}
	if got := r.storeIn("n", 100, "b"); got[0] != OK {
		t.Errorf("store with the slab again: %v", got)
	}
}

// What a later release added to a namespace's record outlives changes by this
// one, and what it forbids to touch stops the start.
func TestNamespaceRecordOfALaterRelease(t *testing.T) {
	r := newRig(t)
	set := func(f meta.Features) {
		b := r.db.NewBatch()
		b.SetNamespace("n", &meta.NamespaceRecord{Quota: 1 << 20, Features: f})
		if err := r.db.Commit(b, true); err != nil {
			t.Fatal(err)
		}
	}
	later := meta.Features{Compat: 4, Ext: []byte("later")}
	set(later)
	r.restart()
	r.put(Namespace{Name: "n", Quota: 2 << 20})
	found := false
	err := r.db.Namespaces(func(name string, rec meta.NamespaceRecord, err error) {
		if name == "n" {
			found = true
			if d := cmp.Diff(meta.NamespaceRecord{Quota: 2 << 20, Features: later}, rec); d != "" || err != nil {
				t.Errorf("record: %v (-want +got):\n%s", err, d)
			}
		}
	})
	if err != nil || !found {
		t.Fatal("no record", err)
	}
	set(meta.Features{Incompat: 1})
	r.shut()
	if err := r.open(); !errors.Is(err, meta.ErrIncompat) || !strings.Contains(err.Error(), `"n"`) {
		t.Errorf("open: %v", err)
	}
}
