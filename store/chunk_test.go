// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
	"slices"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rawblockd/rawblockd/meta"
)

// addMissing restarts the rig with one more slab, whose device is away, and that has
// entries of one slot at the given slots. Key i is the one at the i-th of them.
func (r *rig) addMissing(slots uint32, expires time.Duration, heads ...uint32) (keys []string) {
	r.t.Helper()
	inc := meta.Incarnation{1, 2, 3}
	b := r.db.NewBatch()
	b.SetSlab(inc, meta.SlabRecord{Name: fmt.Sprint("s", len(r.devs)), Device: "away", SlotSize: 64 << 10, Slots: slots})
	b.SetMount(inc, 1)
	gen, err := r.db.NextGenerations(uint64(len(heads)))
	if err != nil {
		r.t.Fatal(err)
	}
	row := meta.Row{Namespace: ns, Len: 1000, Sum: 1, StoredAt: 1}
	if expires > 0 {
		row.ExpiresAt = r.s.o.Now().Add(expires).UnixMilli()
	}
	for i, head := range heads {
		keys = append(keys, fmt.Sprintf("away-%07d", i))
		row.Key, row.Gen = keys[i], gen+uint64(i)
		b.Set(inc, head, &row)
	}
	if err := r.db.Commit(b, true); err != nil {
		r.t.Fatal(err)
	}
	r.shut()
	r.gone = map[int]error{len(r.devs): syscall.ENXIO}
	r.devs = append(r.devs, r.devs[0])
	r.start()
	return keys
}

// What goes through all entries has at most two chunks on their way: a change of
// somebody else waits for those, and not for a million deletes.
func TestWalksStandBack(t *testing.T) {
	const chunks = 6
	var heads []uint32
	for i := range uint32(chunks) {
		heads = append(heads, i*chunk+chunk/2, i*chunk+chunk/2+1)
	}
	for what, walk := range map[string]func(r *rig) error{
		"clear": func(r *rig) error {
			got, err := r.s.Clear(context.Background(), ns)
			if want := (ClearResult{Removed: 2 * chunks}); err == nil && got != want {
				err = fmt.Errorf("%+v, want %+v", got, want)
			}
			return err
		},
		"expiry": func(*rig) error { return nil }, // the sweeper walks by itself
	} {
		t.Run(what, func(t *testing.T) {
			inBubble(t, func(*rigOptions) {}, func(t *testing.T, r *rig) {
				keys := r.addMissing(chunks*chunk, time.Hour, heads...)
				r.s.events.turn <- struct{}{} // the committer gets nowhere
				if what == "expiry" {
					time.Sleep(time.Hour + sweepEvery)
				}
				done := make(chan error, 1)
				go func() { done <- walk(r) }()
				synctest.Wait()
				if n := r.s.commits.backlog(); n != 2 {
					t.Errorf("%d chunks are on their way, want 2", n)
				}
				<-r.s.events.turn
				if err := <-done; err != nil {
					t.Error(err)
				}
				time.Sleep(2 * sweepEvery)
				if got := r.lookup(keys...); !cmp.Equal(got, all(len(keys), Missing)) {
					t.Errorf("after it: %v", got)
				}
			})
		})
	}
}

// In one holding of the pin lock a walk takes out so many entries, or entries with so
// many slots, and no more.
func TestHoldsAreBounded(t *testing.T) {
	for slots, most := range map[int]int{1: 1024, 8: 512} {
		for _, what := range []string{"clear", "expiry"} {
			r := newRig(t, func(o *rigOptions) { o.slotSize, o.slots = 4096, 20_000 })
			for i := range 5 {
				for _, x := range r.store(4096*slots, StoreOptions{TTL: time.Hour}, names(500*i + 500)[500*i:]...) {
					if x.Status != OK {
						t.Fatal(x)
					}
				}
			}
			r.s.events.turn <- struct{}{} // the committer gets nowhere, with this in its hands
			r.s.commits.enqueue(group{})
			for len(r.queued()) > 0 {
				time.Sleep(time.Millisecond)
			}
			done := make(chan struct{})
			go func() {
				defer close(done)
				if what == "clear" {
					r.clear(ns)
					return
				}
				r.clock.Add(int64(2 * time.Hour))
				r.s.sweepAll()
			}()
			groups, all := r.queued(), 0
			for began := time.Now(); all < 2500 && time.Since(began) < time.Minute; time.Sleep(time.Millisecond) {
				groups, all = r.queued(), 0
				for i := range groups {
					all += len(groups[i].deletes)
				}
			}
			for i := range groups {
				if n := len(groups[i].deletes); n > most || n < most && i < (2500-1)/most {
					t.Errorf("%s of entries of %d slots: %d in holding %d", what, slots, n, i)
				}
			}
			<-r.s.events.turn
			<-done
		}
	}
}

// queued returns what waits for the committer.
func (r *rig) queued() []group {
	r.s.commits.mu.Lock()
	defer r.s.commits.mu.Unlock()
	return slices.Clone(r.s.commits.queue)
}

// Leases that end together let others in on the way.
func TestLeasesEndInSeveralHolds(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.slotSize, o.slots, o.maxPinned = 4096, 2000, 1 })
	keys := names(1500)
	for i := range 3 {
		r.mustStore(10, keys[500*i:500*i+500]...)
	}
	for range 6 {
		r.pin(keys...)
	}
	n := 1
	for r.s.sweepSomeLeases(r.s.o.Now().Add(time.Minute)) {
		n++
	}
	if n != 2 {
		t.Errorf("the lock was taken %d times for 6 leases of 1500 pins, want 2", n)
	}
	if st := r.s.Status(); st.Leases != 0 || st.Pins != 0 {
		t.Errorf("afterwards: %+v", st)
	}
}

// Leases end in time, and the daemon stops, also while a sweep waits for the disk.
func TestLeasesEndWhileASweepWaits(t *testing.T) {
	inBubble(t, func(*rigOptions) {}, func(t *testing.T, r *rig) {
		r.addMissing(4*chunk, time.Hour, 1, chunk+1, 2*chunk+1, 3*chunk+1)
		r.mustStore(1000, "pinned")
		r.s.events.turn <- struct{}{}
		time.Sleep(time.Hour)
		synctest.Wait()
		if n := r.s.commits.backlog(); n != 2 {
			t.Fatalf("%d chunks are on their way, want 2: the test shows nothing", n)
		}
		r.pin("pinned")
		time.Sleep(30*time.Second + 2*sweepEvery)
		if l := r.s.Leases(ns); len(l) != 0 {
			t.Errorf("leases that are over: %+v", l)
		}
		<-r.s.events.turn
	})
}

// A commit takes a chunk of deletes, or one group of more, in the order queued.
func TestCommitsAreBounded(t *testing.T) {
	c := newCommitter(nil)
	c.mu.Lock()
	for i, n := range []int{chunk / 2, chunk / 2, 1, 2 * chunk, 0, 0, chunk - 1} {
		c.queue = append(c.queue, group{pos: uint64(i + 1), deletes: make([]id, n)})
	}
	c.mu.Unlock()
	var got [][]uint64
	for {
		groups, _ := c.take()
		if len(groups) == 0 {
			break
		}
		var pos []uint64
		for i := range groups {
			pos = append(pos, groups[i].pos)
		}
		got = append(got, pos)
	}
	if d := cmp.Diff([][]uint64{{1, 2}, {3}, {4}, {5, 6, 7}}, got); d != "" {
		t.Errorf("commits (-want +got):\n%s", d)
	}
}

// The lock is held for 4,096 deletes at a time, however they are grouped, and
// every delete is settled once.
func TestPortions(t *testing.T) {
	var groups []group
	next := id(0)
	for _, n := range []int{1, 0, portion - 2, 3*portion + 5, 7} {
		g := group{}
		for range n {
			g.deletes = append(g.deletes, next)
			next++
		}
		groups = append(groups, g)
	}
	var sizes []int
	want := id(0)
	portions(groups, func(lists [][]id, n int) {
		sizes = append(sizes, n)
		for _, l := range lists {
			for _, d := range l {
				if n--; d != want {
					t.Fatalf("delete %d, want %d", d, want)
				}
				want++
			}
		}
		if n != 0 {
			t.Errorf("%d deletes less than said", n)
		}
	})
	if d := cmp.Diff([]int{4096, 4096, 4096, 4096, 11}, sizes); d != "" || want != next {
		t.Errorf("%d of %d deletes, in portions (-want +got):\n%s", want, next, d)
	}
}

// Few departures leave the room of a holding to the next one; many take it along.
func TestRoomServesAgain(t *testing.T) {
	r := newRig(t)
	for _, n := range []int{1, fewInHold, fewInHold + 1} {
		room := r.s.makeRoom(0, chunk)
		var g group
		room.begin(&g)
		for i := range n {
			g.left, g.deletes = append(g.left, departure{head: id(i)}), append(g.deletes, id(i))
		}
		room.keep(&g)
		shared := room.left != nil && &room.left[:1][0] == &g.left[0]
		if few := n <= fewInHold; few != (room.left != nil) || few != (cap(g.left) < 2*fewInHold) || shared || len(g.left) != n || len(g.deletes) != n {
			t.Errorf("%d departures: room for %d in the group, for %d left; shared: %v", n, cap(g.left), cap(room.left), shared)
		}
	}
}
