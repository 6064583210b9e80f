// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"

	"github.com/rawblockd/rawblockd/slab"
)

// bySlab counts keys by the slab they are on.
func (r *rig) bySlab(keys ...string) []int {
	r.t.Helper()
	out := make([]int, len(r.devs))
	for _, v := range r.homes(keys...) {
		out[v]++
	}
	return out
}

// One batch spreads over equal slabs, whether its payloads are one op each or many.
// Added key by key it does so nearly: what was added first may be done by then.
func TestBatchSpreadsOverEqualSlabs(t *testing.T) {
	for _, size := range []int{1000, 64 << 10, 2 << 20} {
		for _, together := range []bool{true, false} {
			t.Run(fmt.Sprintf("%d bytes, together %v", size, together), func(t *testing.T) {
				r := newRig(t, func(o *rigOptions) { o.slabs, o.slots, o.workers, o.buffers = 2, 32*32, 32, 128<<20 })
				keys := names(32)
				if together {
					r.mustStoreTogether(size, keys...)
				} else {
					r.mustStore(size, keys...)
				}
				got := r.bySlab(keys...)
				if off := got[0] - 16; together && off != 0 || off < -4 || off > 4 {
					t.Errorf("got %v, want 16 on each", got)
				}
			})
		}
	}
}

// A batch whose keys are partly there already spreads what is new.
func TestOnlyWhatIsStoredCountsAsPlanned(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.slabs = 2 })
	keys := names(32)
	var old, fresh []string
	for i, k := range keys {
		if i%2 == 0 {
			old = append(old, k)
		} else {
			fresh = append(fresh, k)
		}
	}
	r.mustStoreTogether(10, old...)
	st, err := r.s.BeginStore(context.Background(), ns, StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	var items []StoreItem
	for _, k := range keys {
		items = append(items, r.item(k, payload(k, 1, 10)))
	}
	st.Add(items...)
	if _, err := st.Commit(); err != nil {
		t.Fatal(err)
	}
	if got := r.bySlab(fresh...); !cmp.Equal(got, []int{8, 8}) {
		t.Errorf("got %v, want 8 on each", got)
	}
}

// The slab that wastes least takes a payload, until it is full.
func TestSmallestWasteWins(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.slabs, o.slots, o.slotSizes = 3, 32, []int64{256 << 10, 4 << 10, 64 << 10} })
	for size, want := range map[int]int{
		100:            1,
		4<<10 + 1:      1, // 8 KiB against 64 and 256
		64 << 10:       1, // as little on the third; the second comes first
		256<<10 - 5000: 1,
	} {
		key := fmt.Sprint(size)
		if got := r.placed(size); got != want {
			t.Errorf("%s bytes go to slab %d, want %d", key, got, want)
		}
	}
	free := int(r.slabs[1].Counts().Free)
	r.mustStoreTogether(100, names(free)...)
	if c := r.slabs[1].Counts(); c.Free != 0 {
		t.Fatalf("%+v", c)
	}
	for size, want := range map[int]int{100: 2, 64<<10 + 1: 2, 200 << 10: 2, 1 << 20: 0} {
		got := r.placed(size)
		waste := func(v int) int64 { return r.s.volumes[v].slotBytes(int64(size)) }
		if got != want && waste(got) != waste(want) {
			t.Errorf("with the second full %d bytes go to slab %d, want %d", size, got, want)
		}
	}
}

// placed returns where a payload would go.
func (r *rig) placed(size int) int {
	p := r.s.newPlan(r.s.named(ns))
	return p.slabs[p.best(int64(size))].vol
}

// Of equal slabs the one with the shorter queue takes a payload, counted in full
// rounds: as many ops as it has places for cost nothing.
func TestShorterQueueWins(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.slabs, o.workers = 2, 4 })
	// The first has more of its slots free.
	if slots, ok := r.slabs[1].Reserve(20); ok {
		r.slabs[1].Move(slots, slab.Reserved, slab.Used)
		defer r.slabs[1].Move(slots, slab.Deleting, slab.Free)
		defer r.slabs[1].Move(slots, slab.Used, slab.Deleting)
	}
	for ops, want := range map[int]int{0: 0, 3: 0, 4: 1, 11: 1} {
		r.s.volumes[0].busy(ops)
		if got := r.placed(1000); got != want {
			t.Errorf("with %d ops at the first slab: slab %d, want %d", ops, got, want)
		}
		r.s.volumes[0].idle(ops)
	}
	r.s.volumes[0].busy(7)
	r.s.volumes[1].busy(4)
	if got := r.placed(1000); got != 0 {
		t.Errorf("both have one full round: slab %d, want that with more free", got)
	}
	r.s.volumes[0].idle(7)
	r.s.volumes[1].idle(4)
}

// Ops of stores and loads under way count, and no longer when they have ended.
func TestQueueIsCounted(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.slabs, o.workers = 2, 2 })
	r.mustStoreTogether(1<<20, "a", "b")
	a := r.homes("a")["a"]
	release := r.devs[a].Hang(0, 64<<20)
	l, err := r.s.Load(context.Background(), ns, []string{"a"})
	if err != nil {
		t.Fatal(err)
	}
	r.devs[a].AwaitInFlight(1)
	if got := r.s.volumes[a].ops.Load(); got != int64(r.slabs[a].OpsFor(1<<20)) {
		t.Errorf("%d ops, want those of the load", got)
	}
	st, err := r.s.BeginStore(context.Background(), ns, StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	keys := names(4)
	for _, k := range keys {
		st.Add(r.item(k, payload(k, 1, 1000)))
	}
	res, err := st.Commit()
	if err != nil {
		t.Fatal(err)
	}
	for _, x := range res {
		if x.Status != OK {
			t.Errorf("%+v", x)
		}
	}
	if got := r.on(1-a, keys...); len(got) != 4 {
		t.Errorf("%d of 4 keys went to the slab that does not hang", len(got))
	}
	release()
	if it, _ := l.Next(); it.Status == OK {
		it.Buf.Release()
	}
	l.Close()
	r.s.work.Wait()
	for i, v := range r.s.volumes {
		if n := v.ops.Load(); n != 0 {
			t.Errorf("slab %d: %d ops left", i, n)
		}
	}
}

// Whatever slabs they come from, results are in request order, with their bytes.
func TestResultsInRequestOrder(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.slabs, o.slots, o.slotSizes = 3, 64, []int64{64 << 10, 16 << 10, 64 << 10} })
	sizes := []int{1000, 60_000, 20_000, 64 << 10, 5000, 130_000}
	var keys []string
	st, err := r.s.BeginStore(context.Background(), ns, StoreOptions{})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 24 {
		k := fmt.Sprintf("%02d", 23-i)
		keys = append(keys, k)
		st.Add(r.item(k, payload(k, 1, sizes[i%len(sizes)])))
	}
	res, err := st.Commit()
	if err != nil {
		t.Fatal(err)
	}
	for i, x := range res {
		if x.Key != keys[i] || x.Status != OK {
			t.Errorf("result %d: %+v", i, x)
		}
	}
	if n := r.bySlab(keys...); n[0]+n[2] == 0 || n[1] == 0 {
		t.Errorf("the batch lies on one slab: %v", n)
	}
	l, err := r.s.Load(context.Background(), ns, keys)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	for i, k := range keys {
		it, _ := l.Next()
		if it.Key != k || it.Status != OK || !bytes.Equal(bytesOf(it), payload(k, 1, sizes[i%len(sizes)])) {
			t.Errorf("result %d is of %q: %v (%v)", i, it.Key, it.Status, it.Err)
		}
		if it.Buf != nil {
			it.Buf.Release()
		}
	}
}

// A drained slab takes no stores and serves what it has; when no other is left,
// stores say so.
func TestDrain(t *testing.T) {
	ctx := context.Background()
	r := newRig(t, func(o *rigOptions) { o.slabs = 2 })
	keys := names(8)
	r.mustStoreTogether(1000, keys...)
	if err := r.s.Drain(ctx, "s0"); err != nil {
		t.Fatal(err)
	}
	more := names(16)[8:]
	r.mustStoreTogether(1000, more...)
	if got := r.bySlab(more...); !cmp.Equal(got, []int{0, 8}) {
		t.Errorf("stores while s0 is drained: %v", got)
	}
	if got := r.load(1, keys...); !cmp.Equal(got, all(8, OK)) {
		t.Errorf("loads: %v", got)
	}
	if st := r.slabStatus("s0"); st.Health != HealthDraining || st.Reason == "" {
		t.Errorf("status: %+v", st)
	}
	if err := r.s.Drain(ctx, "s1"); err != nil {
		t.Fatal(err)
	}
	got := r.store(1000, StoreOptions{}, "x")[0]
	if got.Status != Unavailable || !strings.Contains(got.Err.Error(), `"s0" is draining`) || !strings.Contains(got.Err.Error(), `"s1" is draining`) {
		t.Errorf("store with every slab drained: %+v", got)
	}
	if got := r.remove(false, keys...); got.Removed != 8 {
		t.Errorf("remove: %+v", got)
	}
	for range 2 {
		if err := r.s.Resume(ctx, "s0"); err != nil {
			t.Fatal(err)
		}
	}
	if got := r.slabStatus("s0").Health; got != HealthOnline {
		t.Errorf("resumed: %v", got)
	}
	r.mustStore(1000, "x")
	for _, err := range []error{r.s.Drain(ctx, "nobody"), r.s.Resume(ctx, "")} {
		if !errors.Is(err, ErrSlab) || !strings.Contains(err.Error(), "s0, s1") {
			t.Errorf("of an unknown slab: %v", err)
		}
	}
}

// Of slabs of different sizes, else equal, the one with the larger part of its slots
// free takes a payload, though the other has more of them.
func TestFreeShareNotNumber(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.slabs = 2 })
	at := func(v int, free, total int64) *planned {
		return &planned{vol: v, v: r.s.volumes[v], depth: 1, free: free, total: total}
	}
	small, large := at(0, 60, 100), at(1, 500, 1000)
	if !small.before(large, 1000) || large.before(small, 1000) {
		t.Error("500 of 1000 free slots go before 60 of 100")
	}
	if small, large := at(0, 50, 100), at(1, 500, 1000); small.before(large, 1000) || large.before(small, 1000) {
		t.Error("of equals one goes before the other")
	}
}

// What the slab that was planned for a payload has no room for any more goes to the
// next best; when none has any, the answer says which was asked last.
func TestNextBestTakesIt(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.slabs = 2 })
	taken := map[int][]uint32{}
	take := func(v int) { // others, between the plan and the reservation
		slots, ok := r.slabs[v].Reserve(int(r.slabs[v].Counts().Free))
		if !ok {
			t.Fatalf("slab %d: %+v", v, r.slabs[v].Counts())
		}
		taken[v] = append(taken[v], slots...)
	}
	defer func() {
		for v, slots := range taken {
			r.slabs[v].Move(slots, slab.Reserved, slab.Free)
		}
	}()
	p := r.s.newPlan(r.s.named(ns))
	one, two := &storeItem{StoreItem: StoreItem{Len: 1000}}, &storeItem{StoreItem: StoreItem{Len: 1000}}
	for _, it := range []*storeItem{one, two} {
		if !p.choose(it) {
			t.Fatal("no slab takes it")
		}
		p.keep(it)
	}
	first := one.vol
	take(first)
	p.reserve(one)
	if one.settle || one.vol != 1-first || len(one.slots) != 1 || one.ids[0] < r.s.volumes[1-first].base || one.ids[0] >= r.s.volumes[1-first].end() {
		t.Errorf("planned for %d, which is full: %+v", first, one)
	}
	taken[1-first] = one.slots
	take(1 - first)
	p.reserve(two)
	if two.status != NoSpace || two.ids != nil || two.err == nil {
		t.Errorf("both are full: %+v", two)
	}
}
