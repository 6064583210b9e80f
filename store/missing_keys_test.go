// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// A key whose slab is missing is not touched, is explained by that, is counted
// as such a miss, and is told of when it is removed or stored anew elsewhere.
func TestKeysOfAMissingSlab(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.slabs, o.slots = 2, 64 })
	keys := names(24)
	r.storeFor(time.Hour, keys...)
	r.away(syscall.ENODEV, 1)
	gone := r.on(1, keys...)
	if len(gone) < 2 || len(gone) > len(keys)-2 {
		t.Fatalf("%d of %d keys are on the missing slab: the test shows nothing", len(gone), len(keys))
	}
	before := r.s.commits.position()
	got := r.touch(2*time.Hour, gone...)
	if d := cmp.Diff(all(len(gone), Unavailable), statuses(got.Results)); d != "" || got.Touched != 0 || got.Results[0].Err == nil {
		t.Errorf("touch: %s %+v", d, got.Results[0])
	}
	if r.s.commits.position() != before {
		t.Error("a touch of keys that cannot be reached changed something")
	}
	e := r.explain(gone[0])
	if e.Status != Unavailable || e.Reason != ReasonUnavailable || e.Slab != "s1" || e.Bytes != 1000 || !strings.Contains(e.Detail, "cannot be served") || e.Err == nil {
		t.Errorf("explain: %+v", e)
	}
	r.lookup(gone...)
	r.load(1, gone...)
	if n := r.missed(ReasonUnavailable); n != float64(2*len(gone)) {
		t.Errorf("%v misses, want %d", n, 2*len(gone))
	}
	f := r.feed(ns, 0)
	drain(t, f)
	r.remove(false, gone[0])
	r.mustStore(500, gone[1])
	first := f.Last() - 2
	want := []string{
		fmt.Sprintf("%d removed default/%s 1000 removed", first, gone[0]),
		fmt.Sprintf("%d removed default/%s 1000 replaced", first+1, gone[1]), fmt.Sprintf("%d stored default/%s 500", first+2, gone[1]),
	}
	if d := cmp.Diff(want, drain(t, f)); d != "" {
		t.Error(d)
	}
}
