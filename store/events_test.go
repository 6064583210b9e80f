// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"runtime"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/google/go-cmp/cmp"

	"github.com/rawblockd/rawblockd/ioengine"
)

// ended is a context that asks a feed for no more than what there is.
func ended() context.Context {
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	return ctx
}

// viewOf is all for "", else the namespaces that are named, with commas between.
func viewOf(space string) View {
	if space == "" {
		return ViewOfAll()
	}
	return ViewOf(strings.Split(space, ",")...)
}

// feed begins one of a view.
func (r *rig) feed(space string, since uint64) *Feed {
	r.t.Helper()
	f, err := r.s.Events(context.Background(), viewOf(space), since)
	if err != nil {
		r.t.Fatal(err)
	}
	r.t.Cleanup(f.Close)
	return f
}

// drain returns what a feed has to tell now, in words.
func drain(t *testing.T, f *Feed) []string {
	t.Helper()
	var out []string
	for {
		ev, err := f.Next(ended())
		if errors.Is(err, context.Canceled) || errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, tellEvent(ev))
	}
}

func tellEvent(ev Event) string {
	switch ev.Kind {
	case EventRemoved:
		return fmt.Sprintf("%d removed %s/%s %d %v", ev.Seq, ev.Namespace, ev.Key, ev.Bytes, ev.Reason)
	case EventStored, EventSnapshot:
		return fmt.Sprintf("%d %v %s/%s %d", ev.Seq, ev.Kind, ev.Namespace, ev.Key, ev.Bytes)
	}
	return fmt.Sprintf("%d %v", ev.Seq, ev.Kind)
}

// Every way that an entry comes or goes is told, in order, with its reason.
func TestEvents(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.spaces = []Namespace{{Name: ns}, {Name: "other"}} })
	f := r.feed(ns, 0)
	if d := cmp.Diff([]string{"1000 synced"}, drain(t, f)); d != "" {
		t.Errorf("an empty store: %s", d)
	}
	r.mustStore(100, "a", "b", "c", "d", "e")
	r.pin("b")
	r.storeFor(time.Second, "x", "y", "z")
	r.remove(false, "a", "b", "nobody", "a")
	r.remove(true, "b")
	r.storeVersion(2, 200, StoreOptions{Overwrite: true}, "c")
	r.clock.Add(int64(time.Second))
	r.store(1000, StoreOptions{}, "x")
	r.remove(false, "y")
	r.sweep()
	off, _ := r.where("d")
	r.devs[0].FlipBit(off)
	r.load(1, "d")
	off, n := r.where("e")
	r.devs[0].FailRange(ioengine.Read, off, n, syscall.EIO)
	r.load(1, "e")
	r.devs[0].Heal()
	r.touch(time.Hour, "c")
	if _, err := r.s.Clear(context.Background(), ns); err != nil {
		t.Fatal(err)
	}
	want := []string{
		"1001 stored default/a 100", "1002 stored default/b 100", "1003 stored default/c 100", "1004 stored default/d 100", "1005 stored default/e 100",
		"1006 stored default/x 1000", "1007 stored default/y 1000", "1008 stored default/z 1000",
		"1009 removed default/a 100 removed", "1010 removed default/b 100 forced",
		"1011 removed default/c 100 replaced", "1012 stored default/c 200",
		"1013 removed default/x 1000 expired", "1014 stored default/x 1000", "1015 removed default/y 1000 expired", "1016 removed default/z 1000 expired",
		"1017 removed default/d 100 corrupt", "1018 removed default/e 100 io_error",
	}
	r.await()
	got := drain(t, f)
	if d := cmp.Diff(want, got[:min(len(want), len(got))]); d != "" {
		t.Error(d)
	}
	cleared := map[string]bool{}
	for _, line := range got[min(len(want), len(got)):] {
		cleared[line[5:]] = true
	}
	if d := cmp.Diff(map[string]bool{"removed default/c 200 cleared": true, "removed default/x 1000 cleared": true}, cleared); d != "" {
		t.Errorf("cleared: %s", d)
	}
}

// await returns when all that was queued is written.
func (r *rig) await() {
	r.t.Helper()
	if err := r.s.commits.waitWritten(context.Background(), r.s.commits.position()); err != nil {
		r.t.Fatal(err)
	}
}

// A feed begins with what is there, of its own namespace only, goes on after the
// last event that a reader has, and begins anew where that is not known.
func TestFeedBegins(t *testing.T) {
	r := newRig(t, func(o *rigOptions) {
		o.spaces, o.slabs = []Namespace{{Name: ns, Slabs: []string{"s0"}}, {Name: "other", Slabs: []string{"s1"}}}, 2
	})
	r.mustStore(100, "a", "b")
	r.storeIn("other", 10, "o")
	all := r.feed("", 0)
	if d := cmp.Diff([]string{"0 snapshot default/a 100", "0 snapshot default/b 100", "0 snapshot other/o 10", "1000 synced"}, drain(t, all)); d != "" {
		t.Errorf("all: %s", d)
	}
	mine := r.feed(ns, 0)
	if d := cmp.Diff([]string{"0 snapshot default/a 100", "0 snapshot default/b 100", "2000 synced"}, drain(t, mine)); d != "" {
		t.Errorf("one namespace: %s", d)
	}
	r.storeIn("other", 10, "p")
	r.remove(false, "a")
	r.mustStore(100, "c")
	if d := cmp.Diff([]string{"2001 removed default/a 100 removed", "2002 stored default/c 100"}, drain(t, mine)); d != "" {
		t.Errorf("changes of one namespace: %s", d)
	}
	if d := cmp.Diff([]string{"1001 stored other/p 10", "1002 removed default/a 100 removed", "1003 stored default/c 100"}, drain(t, all)); d != "" {
		t.Errorf("all changes: %s", d)
	}
	if a, m := all.Last(), mine.Last(); a != 1003 || m != 2002 {
		t.Errorf("last: %d and %d", a, m)
	}
	anew := []string{"0 snapshot default/b 100", "0 snapshot default/c 100", "0 snapshot other/o 10", "0 snapshot other/p 10", "1003 synced"}
	mineAnew := []string{"0 snapshot default/b 100", "0 snapshot default/c 100", "2002 synced"}
	for _, tt := range []struct {
		space string
		since uint64
		want  []string
	}{
		{"", 1001, []string{"1002 removed default/a 100 removed", "1003 stored default/c 100", "1003 synced"}},
		{"", 1003, []string{"1003 synced"}},
		{"", 1000, []string{"1001 stored other/p 10", "1002 removed default/a 100 removed", "1003 stored default/c 100", "1003 synced"}},
		{"", 999, anew},  // nobody was given that
		{"", 1004, anew}, // nor that
		{"", 2001, anew}, // another view's
		{"", ^uint64(0), anew},
		{ns, 2000, []string{"2001 removed default/a 100 removed", "2002 stored default/c 100", "2002 synced"}},
		{ns, 2001, []string{"2002 stored default/c 100", "2002 synced"}},
		{ns, 2002, []string{"2002 synced"}},
		{ns, 1999, mineAnew},
		{ns, 2003, mineAnew},
		{ns, 1002, mineAnew},
		{"nobody's", 2000, []string{"3000 synced"}},
	} {
		got := drain(t, r.feed(tt.space, tt.since))
		sortSnapshot(got)
		if d := cmp.Diff(tt.want, got); d != "" {
			t.Errorf("%q since %d: %s", tt.space, tt.since, d)
		}
	}
}

// sortSnapshot sorts the lines of a snapshot, which are in the order of slots.
func sortSnapshot(lines []string) {
	n := 0
	for n < len(lines) && lines[n][0] == '0' {
		n++
	}
	for i := range n {
		for j := i; j > 0 && lines[j] < lines[j-1]; j-- {
			lines[j], lines[j-1] = lines[j-1], lines[j]
		}
	}
}

// A snapshot of more rows than are read at once has them all, and the changes
// meanwhile come after it.
func TestLongSnapshot(t *testing.T) {
	n := 2*snapshotRows + 100
	r := newRig(t, func(o *rigOptions) {
		o.slotSize, o.slots, o.payload, o.slabs = 4096, int64(n)+64, 4096, 2
		o.spaces = []Namespace{{Name: ns, Slabs: []string{"s0"}}, {Name: "other", Slabs: []string{"s1"}}}
	})
	keys := names(n)
	r.mustStore(10, keys...)
	r.storeIn("other", 10, "o")
	f := r.feed("", 0)
	seen := map[string]bool{}
	for i := 0; ; i++ {
		ev, err := f.Next(ended())
		if err != nil {
			t.Fatal(err)
		}
		if ev.Kind == EventSynced {
			if want := uint64(1000 + 2); ev.Seq != want {
				t.Errorf("synced at %d, want %d: after what changed while the snapshot was read", ev.Seq, want)
			}
			break
		}
		if i == 10 { // of a page that was read
			r.remove(false, keys[5])
			r.mustStore(10, "late")
		}
		if seen[ev.Key] = ev.Kind != EventRemoved; ev.Kind == EventRemoved {
			delete(seen, ev.Key)
		}
	}
	if len(seen) != n+1 || seen[keys[5]] || !seen["late"] || !seen["o"] {
		t.Errorf("%d keys, want %d", len(seen), n+1)
	}
}

// A reader that falls behind hears so once, and then the feed is over.
func TestSlowReaderIsLost(t *testing.T) {
	r := newRig(t)
	r.s.events.size = 4
	slow, quick := r.feed(ns, 0), r.feed(ns, 0)
	drain(t, slow)
	drain(t, quick)
	for i, k := range names(5) {
		r.mustStore(10, k)
		if got := drain(t, quick); len(got) != 1 || got[0] != fmt.Sprintf("%d stored default/%s 10", 1000+i+1, k) {
			t.Errorf("a reader that keeps up: %q", got)
		}
	}
	if d := cmp.Diff([]string{"0 lost"}, drain(t, slow)); d != "" {
		t.Error(d)
	}
	if _, err := slow.Next(context.Background()); !errors.Is(err, io.EOF) {
		t.Errorf("after lost: %v", err)
	}
	last := r.feed(ns, 1001)
	if got := drain(t, last); len(got) != 5 || got[0][:4] != "1002" || got[4] != "1005 synced" {
		t.Errorf("since what is still known: %q", got)
	}
	if got := drain(t, r.feed(ns, 0)); len(got) != 6 || got[5] != "1005 synced" {
		t.Errorf("anew: %q", got)
	}
}

// Of a commit that failed nothing is told, and the feed does not end: what there
// is goes on being served.
func TestNothingIsToldOfAFailedCommit(t *testing.T) {
	fs, on, _ := faultyFS(errorfs.OpFileSyncData)
	r := newRig(t, func(o *rigOptions) { o.fs = fs })
	r.mustStore(100, "a", "b")
	f, late := r.feed(ns, 0), r.feed(ns, 0)
	drain(t, f)
	on.Store(true)
	if got := r.remove(false, "a"); got.Results[0].Status != Unavailable {
		t.Fatalf("%+v", got)
	}
	r.store(100, StoreOptions{}, "c")
	if got := drain(t, f); len(got) != 0 {
		t.Errorf("told: %q", got)
	}
	if n := f.Last(); n != 1000 {
		t.Errorf("last: %d", n)
	}
	if _, err := late.Next(context.Background()); !errors.Is(err, ErrUnavailable) {
		t.Errorf("a snapshot: %v", err)
	}
}

// What was being written when a snapshot ended, and then failed, never comes:
// synced does not wait for it.
func TestSyncedAfterAFailure(t *testing.T) {
	r := newRig(t)
	f := r.feed(ns, 0)
	r.s.events.wanted(3)
	if got := drain(t, f); len(got) != 0 {
		t.Errorf("while it is being written: %q", got)
	}
	r.s.events.fail()
	if d := cmp.Diff([]string{"1000 synced"}, drain(t, f)); d != "" {
		t.Error(d)
	}
}

// On a relaxed slab a change is told when the metadata store has it, not when it
// is synced; in sync mode not before it is durable.
func TestWhenAChangeIsTold(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.relaxed = true })
	f := r.feed(ns, 0)
	drain(t, f)
	r.mustStore(10, "a")
	if ev, err := f.Next(context.Background()); err != nil || ev.Key != "a" {
		t.Errorf("relaxed: %+v %v", ev, err)
	}
	if r.s.commits.backlog() == 0 {
		t.Error("it was synced: the test shows nothing")
	}

	stuck := newStuckSync()
	r = newRig(t, func(o *rigOptions) { o.fs = stuck.wrap(vfs.NewMem()) })
	defer stuck.free()
	f = r.feed(ns, 0)
	drain(t, f)
	stuck.on.Store(true)
	done := make(chan []StoreResult)
	go func() { done <- r.store(10, StoreOptions{}, "a") }()
	stuck.hangs(r)
	if got := drain(t, f); len(got) != 0 {
		t.Errorf("before its sync: %q", got)
	}
	stuck.free()
	<-done
	if got := drain(t, f); len(got) != 1 {
		t.Errorf("after its sync: %q", got)
	}
}

// An entry that comes and goes within one batch of the committer is told with
// its key, although no row of it is there to be read.
func TestEventsOfOneBatch(t *testing.T) {
	stuck := newStuckSync()
	r := newRig(t, func(o *rigOptions) { o.fs = stuck.wrap(vfs.NewMem()) })
	defer stuck.free()
	f := r.feed(ns, 0)
	drain(t, f)
	stuck.stick(r)
	done := make(chan []StoreResult)
	go func() { done <- r.store(10, StoreOptions{TTL: time.Second}, "a") }()
	for r.lookup("a")[0] != OK { // polls: published, its row waits behind the sync
		runtime.Gosched()
	}
	r.clock.Add(int64(time.Second))
	r.sweep()
	stuck.free()
	<-done
	r.await()
	if d := cmp.Diff([]string{"1001 stored default/a 10", "1002 removed default/a 10 expired"}, drain(t, f)); d != "" {
		t.Error(d)
	}
}

// A snapshot may show a change that is on its way to the disk and not told yet:
// then synced waits for it, so that the reader is not told of the key anew.
func TestSyncedWaitsForWhatTheSnapshotShows(t *testing.T) {
	stuck := newStuckSync()
	r := newRig(t, func(o *rigOptions) { o.fs = stuck.wrap(vfs.NewMem()) })
	defer stuck.free()
	drain(t, r.feed(ns, 0)) // events are kept
	stuck.on.Store(true)
	done := make(chan []StoreResult)
	go func() { done <- r.store(10, StoreOptions{}, "a") }()
	stuck.hangs(r)
	for _, shown := r.rowOf("a"); !shown; _, shown = r.rowOf("a") { // polls: visible before it is synced
		runtime.Gosched()
	}
	f := r.feed(ns, 0)
	if d := cmp.Diff([]string{"0 snapshot default/a 10"}, drain(t, f)); d != "" {
		t.Errorf("while it is being written: %s", d)
	}
	stuck.free()
	<-done
	if d := cmp.Diff([]string{"1001 stored default/a 10", "1001 synced"}, drain(t, f)); d != "" {
		t.Errorf("afterwards: %s", d)
	}
}

// A feed that has to wait for a commit which hangs leaves at its deadline; and
// one that begins during a commit is told of all of it or of none.
func TestFeedThatBeginsDuringACommit(t *testing.T) {
	stuck := newStuckSync()
	r := newRig(t, func(o *rigOptions) { o.fs = stuck.wrap(vfs.NewMem()) })
	defer stuck.free()
	stuck.on.Store(true)
	done := make(chan []StoreResult)
	go func() { done <- r.store(10, StoreOptions{}, "a", "b") }()
	stuck.hangs(r)
	if _, err := r.s.Events(ended(), ViewOf(ns), 0); !errors.Is(err, context.Canceled) {
		t.Errorf("at its deadline: %v", err)
	}
	began := make(chan *Feed)
	go func() { began <- r.feed(ns, 0) }()
	stuck.free()
	<-done
	if d := cmp.Diff([]string{"0 snapshot default/a 10", "0 snapshot default/b 10", "1000 synced"}, drain(t, <-began)); d != "" {
		t.Error(d)
	}
}

// Nobody listens: changes are counted, and nothing is made or read for them.
func TestNoCostWithoutListeners(t *testing.T) {
	r := newRig(t)
	r.mustStore(10, "a")
	h := r.headOf("a")
	groups := []group{{left: []departure{{head: h, why: ReasonExpired}}, sets: []setRow{{head: h}}}}
	if n := testing.AllocsPerRun(100, func() {
		if got := r.s.changes(groups); got.n != 2 || got.events != nil || got.whole {
			t.Errorf("%+v", got)
		}
	}); n != 0 {
		t.Errorf("%v allocations for a batch that nobody hears of", n)
	}
	if r.ringed() {
		t.Error("there is a ring although nobody ever listened")
	}
}

// ringed tells whether events are kept.
func (r *rig) ringed() bool {
	r.s.events.mu.Lock()
	defer r.s.events.mu.Unlock()
	return r.s.events.ring != nil
}

// Events are kept for a while after the last reader has left, and then no more.
func TestEventsLinger(t *testing.T) {
	r := newRig(t)
	f := r.feed(ns, 0)
	drain(t, f)
	f.Close()
	f.Close() // once counts
	r.mustStore(10, "a")
	f = r.feed(ns, 0)
	f.Close()
	if f = r.feed(ns, 0); f.Last() != 1001 {
		t.Fatal(f.Last())
	}
	f.Close()
	r.mustStore(10, "b")
	again := r.feed(ns, 1001)
	if d := cmp.Diff([]string{"1002 stored default/b 10", "1002 synced"}, drain(t, again)); d != "" {
		t.Errorf("within the time: %s", d)
	}
	again.Close()
	r.s.events.linger = -1
	r.mustStore(10, "c")
	if r.ringed() {
		t.Error("events are kept for nobody")
	}
	if got := drain(t, r.feed(ns, 1002)); len(got) != 4 || got[3] != "2000 synced" {
		t.Errorf("after the time: %q, want a snapshot of three", got)
	}
}

// A reader that waits is woken by what it waits for, leaves at its deadline
// without losing anything, and ends with the store.
func TestFeedWaits(t *testing.T) {
	r := newRig(t)
	f := r.feed(ns, 0)
	if ev, err := f.Next(context.Background()); err != nil || ev.Kind != EventSynced {
		t.Fatalf("%+v %v", ev, err)
	}
	if _, err := f.Next(ended()); !errors.Is(err, context.Canceled) {
		t.Errorf("nothing there: %v", err)
	}
	got := make(chan string)
	go func() {
		for {
			ev, err := f.Next(context.Background())
			if err != nil {
				got <- err.Error()
				return
			}
			got <- tellEvent(ev)
		}
	}()
	for i, k := range names(3) {
		r.mustStore(10, k)
		if line := <-got; line != fmt.Sprintf("%d stored default/%s 10", 1000+i+1, k) {
			t.Errorf("%q", line)
		}
	}
	closed := make(chan error)
	go func() { closed <- r.s.Close() }()
	if line := <-got; line != ErrClosed.Error() {
		t.Errorf("at the end: %q", line)
	}
	if err := <-closed; err != nil {
		t.Error(err)
	}
	if _, err := r.s.Events(context.Background(), ViewOf(ns), 0); !errors.Is(err, ErrClosed) {
		t.Errorf("after the end: %v", err)
	}
}

// A number that an earlier process gave goes for none of this one, whatever it does.
func TestSinceAnEarlierProcess(t *testing.T) {
	r := newRig(t)
	keys := names(40)
	var numbers []uint64
	for i := range 4 {
		r.s.events.draw = drawStart
		f := r.feed(ns, 0)
		r.mustStore(1000, keys[:10*(i+1)]...)
		r.remove(false, keys...)
		r.await()
		for _, since := range numbers {
			p, err := r.s.events.listen(context.Background(), ViewOf(ns), since)
			if err != nil || p.resumed {
				t.Errorf("start %d, since %d of an earlier process: goes on, %v", i, since, err)
			}
			r.s.events.leave(p.numbering)
		}
		numbers = append(numbers, f.Last()-5, f.Last())
		f.Close()
		r.restart()
	}
}

// A snapshot that goes through much of others ends with its reader's context, and
// goes on where it was.
func TestSnapshotOfFewAmongMany(t *testing.T) {
	n := (snapshotPages + 4) * snapshotRows
	r := newRig(t, func(o *rigOptions) {
		o.slotSize, o.slots, o.payload, o.spaces = 4096, int64(n)+64, 4096, []Namespace{{Name: ns}, {Name: "other"}}
	})
	for i, keys := 0, names(n); i < n; i += snapshotRows {
		r.storeIn("other", 10, keys[i:i+snapshotRows]...)
	}
	r.mustStore(10, "mine")
	f := r.feed(ns, 0)
	if ev, err := f.Next(ended()); !errors.Is(err, context.Canceled) || f.slot == 0 {
		t.Fatalf("got %v and %v at row %d; want to be asked again", ev, err, f.slot)
	}
	at := f.slot
	if ev, err := f.Next(context.Background()); err != nil || ev.Key != "mine" || ev.Kind != EventSnapshot || at > uint32(n) {
		t.Errorf("asked again at row %d: %v and %v", at, ev, err)
	}

	f = r.feed(ns, 0)
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	leaving := &leavingContext{Context: ctx, looks: 3, leave: cancel}
	if ev, err := f.Next(leaving); !errors.Is(err, context.Canceled) || f.slot > 3*snapshotRows {
		t.Errorf("a reader that left: %v and %v after %d rows", ev, err, f.slot)
	}
}

// leavingContext ends when it was looked at so many times.
type leavingContext struct {
	context.Context
	looks int
	leave func()
}

func (c *leavingContext) Err() error {
	if c.looks--; c.looks <= 0 {
		c.leave()
	}
	return c.Context.Err()
}
