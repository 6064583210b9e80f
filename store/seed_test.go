// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"
)

// The last change wins, be it of the file or at run time, whether the file is
// read at a restart or at a reload.
func TestSeedRules(t *testing.T) {
	const mib = 1 << 20
	first := Namespace{Name: "n", Quota: 1 * mib, TTL: time.Minute}
	other := Namespace{Name: "n", Quota: 2 * mib, Slabs: []string{"s1"}}
	api := Namespace{Name: "n", Quota: 3 * mib, Fingerprint: "f"}
	withF := func(n Namespace) Namespace { n.Fingerprint = "f"; return n }
	for name, c := range map[string]struct {
		put    *Namespace // at run time, between the two readings of the file
		file   Namespace  // the second reading
		want   Namespace
		put2   *Namespace // after it
		again  Namespace  // what a third reading of the same file makes of it
		before bool       // put comes before the namespace is in the file at all
	}{
		"neither":               {file: first, want: first, again: first},
		"order of slabs":        {file: first, want: first, again: first},
		"file":                  {file: other, want: other, again: other},
		"run time":              {put: &api, file: first, want: api, again: api},
		"both":                  {put: &api, file: other, want: withF(other), again: withF(other)},
		"run time after file":   {file: other, want: other, put2: &api, again: api},
		"both, then run time":   {put: &api, file: other, want: withF(other), put2: &api, again: api},
		"run time, then in it":  {put: &api, before: true, file: first, want: withF(first), again: withF(first)},
		"back to what it was":   {put: &first, file: first, want: first, again: first},
		"run time, then same":   {put: &other, file: other, want: other, again: other},
		"in it, then run time":  {put: &api, before: true, file: first, want: withF(first), put2: &other, again: other},
		"fingerprint is no set": {put: &api, file: first, want: api, put2: &first, again: first},
	} {
		for _, how := range []string{"restart", "reload"} {
			t.Run(name+"/"+how, func(t *testing.T) {
				r := newRig(t, func(o *rigOptions) {
					o.slabs = 2
					o.spaces = seeds(first)
					if c.before {
						o.spaces = seeds()
					}
				})
				read := func(file Namespace) {
					t.Helper()
					r.o.spaces = seeds(file)
					if how == "restart" {
						r.restart()
					} else if err := r.s.Reload(context.Background(), r.o.spaces); err != nil {
						t.Fatal(err)
					}
				}
				if c.put != nil {
					r.put(*c.put)
				}
				read(c.file)
				r.wantSettings("the file read again", c.want, true, true)
				if c.put2 != nil {
					r.put(*c.put2)
				}
				read(c.file)
				r.wantSettings("and once more", c.again, true, true)
				r.restart()
				r.wantSettings("after a restart", c.again, true, true)
			})
		}
	}
}

// The hash of a section is durable: it may not change from one release to the
// next, and the order in which slabs are listed is no change.
func TestSeedHash(t *testing.T) {
	full := Namespace{Name: "n", Slabs: []string{"b", "a"}, Quota: 5, TTL: 7}
	for want, n := range map[uint64]Namespace{
		0xcbf29ce484222325: {Name: "any"},
		0x79500f39710302c0: full,
	} {
		if got := seedHash(n); got != want {
			t.Errorf("%+v: got %#x, want %#x", n, got, want)
		}
	}
	swapped := full
	swapped.Slabs = []string{"a", "b"}
	if seedHash(swapped) != seedHash(full) {
		t.Error("the order of slabs counts")
	}
	seen := map[uint64]string{}
	for what, n := range map[string]Namespace{
		"full": full, "quota": {Quota: 7}, "ttl": {TTL: 7}, "one slab": {Slabs: []string{"a"}}, "joined": {Slabs: []string{"a\"\nslab \"b"}},
		"two slabs": {Slabs: []string{"a", "b"}}, "nothing": {},
	} {
		if was, twice := seen[seedHash(n)]; twice {
			t.Errorf("%s and %s have one hash", was, what)
		}
		seen[seedHash(n)] = what
	}
}

// One that has left the file is kept, with its entries, and not served; it can
// come back through the file or at run time, and it can be deleted then only.
func TestNamespaceLeavesTheFile(t *testing.T) {
	ctx := context.Background()
	section := Namespace{Name: "n", Quota: 1 << 20}
	for _, how := range []string{"restart", "reload"} {
		t.Run(how, func(t *testing.T) {
			r := newRig(t, func(o *rigOptions) { o.spaces = seeds(section) })
			read := func(file ...Namespace) {
				t.Helper()
				r.o.spaces = seeds(file...)
				if how == "restart" {
					r.restart()
				} else if err := r.s.Reload(ctx, r.o.spaces); err != nil {
					t.Fatal(err)
				}
			}
			r.storeIn("n", 1000, "a")
			lease, err := r.s.Pin(ctx, "n", []string{"a"}, LeaseRequest{})
			if err != nil || lease.Lease == nil {
				t.Fatal(err)
			}
			if err := r.s.DeleteNamespace(ctx, "n"); !errors.Is(err, ErrFromConfig) || !strings.Contains(err.Error(), "out of the file") {
				t.Errorf("delete of one in the file: %v", err)
			}
			read()
			r.wantSettings("left the file", section, false, false)
			for what, err := range map[string]error{
				"lookup": second(r.s.Lookup(ctx, "n", []string{"a"}, LookupOptions{})),
				"store":  second(r.s.BeginStore(ctx, "n", StoreOptions{})),
				"clear":  second(r.s.Clear(ctx, "n")),
			} {
				if !errors.Is(err, ErrNamespace) {
					t.Errorf("%s of one that is not served: %v", what, err)
				}
			}
			if got := r.info("n"); got.Entries != 1 || got.Used != 64<<10 {
				t.Errorf("kept: %+v", got)
			}
			if err := r.s.DeleteNamespace(ctx, "n"); !errors.Is(err, ErrNotEmpty) || !strings.Contains(err.Error(), "not served") {
				t.Errorf("delete of one with entries, which cannot be cleared as it is: %v", err)
			}
			read(section)
			r.wantSettings("in the file again", section, true, true)
			if got := r.lookupIn("n", "a"); got[0] != OK {
				t.Errorf("in the file again: %v", got)
			}
			read()
			changed := Namespace{Name: "n", Quota: 2 << 20}
			if _, created := r.put(changed); !created {
				t.Error("put back into service, and not created")
			}
			r.restart()
			r.wantSettings("put back at run time", changed, true, false)
			if res, err := r.s.Clear(ctx, "n"); err != nil || res.Removed != 1 {
				t.Errorf("clear: %+v, %v", res, err)
			}
			if err := r.s.DeleteNamespace(ctx, "n"); err != nil {
				t.Error(err)
			}
			read(section)
			r.wantSettings("made anew by the file", section, true, true)
			if got := r.lookupIn("n", "a"); got[0] != Missing {
				t.Errorf("made anew: %v", got)
			}
		})
	}
}

func second[T any](_ T, err error) error { return err }

// A bad file changes nothing, not even what is good in it.
func TestReloadRefuses(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.spaces = seeds(Namespace{Name: "n", Quota: 1 << 20}) })
	good := Namespace{Name: ns, Quota: 5 << 20}
	for name, c := range map[string]struct {
		seeds []Namespace
		says  string
	}{
		"none":         {nil, "no namespaces"},
		"twice":        {[]Namespace{good, {Name: "n"}, {Name: "n"}}, `namespace "n": name: it is there twice`},
		"unknown slab": {[]Namespace{good, {Name: "n", Slabs: []string{"x"}}}, `namespace "n": slabs: "x" is not a slab`},
		"quota":        {[]Namespace{good, {Name: "n", Quota: 1}}, `namespace "n": quota: 1 bytes`},
	} {
		if err := r.s.Reload(context.Background(), c.seeds); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: got %v, want %q", name, err, c.says)
		}
	}
	r.wantSettings("after refusals", Namespace{Name: ns}, true, true)
	r.wantSettings("after refusals", Namespace{Name: "n", Quota: 1 << 20}, true, true)
}
