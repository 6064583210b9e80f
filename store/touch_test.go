// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/google/go-cmp/cmp"
)

func (r *rig) touch(ttl time.Duration, keys ...string) TouchResult {
	r.t.Helper()
	res, err := r.s.Touch(context.Background(), ns, keys, ttl)
	if err != nil {
		r.t.Fatal(err)
	}
	return res
}

// storeFor stores keys that expire.
func (r *rig) storeFor(ttl time.Duration, keys ...string) {
	r.t.Helper()
	for _, x := range r.store(1000, StoreOptions{TTL: ttl}, keys...) {
		if x.Status != OK {
			r.t.Fatalf("store %q: %v (%v)", x.Key, x.Status, x.Err)
		}
	}
}

// expiryOf is what the row of a key says once all that was queued is written,
// and whether there is a row.
func (r *rig) expiryOf(key string) (time.Time, bool) {
	r.t.Helper()
	r.await()
	return r.rowOf(key)
}

// rowOf is expiryOf at once.
func (r *rig) rowOf(key string) (time.Time, bool) {
	r.t.Helper()
	list, _, err := r.s.List(context.Background(), ns, "", 0)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, e := range list {
		if e.Key == key {
			return time.UnixMilli(e.ExpiresAt), true
		}
	}
	return time.Time{}, false
}

// A touch sets the expiry from now on, of each key for itself, and says why it
// could not. Bytes and pins stay as they are.
func TestTouch(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.spaces = []Namespace{{Name: ns, TTL: time.Minute}} })
	r.storeFor(10*time.Second, "short", "pinned", "gone")
	r.storeFor(time.Hour, "long")
	lease := r.pin("pinned")
	r.clock.Add(int64(5 * time.Second))
	r.storeFor(time.Second, "over")
	r.remove(false, "gone")
	r.clock.Add(int64(2 * time.Second))

	got := r.touch(20*time.Second, "short", "pinned", "gone", "over", "never", "short", "", "long")
	want := []Status{OK, OK, Missing, Expired, Missing, Duplicate, InvalidKey, OK}
	if d := cmp.Diff(want, statuses(got.Results)); d != "" || got.Touched != 3 {
		t.Errorf("%d touched; %s", got.Touched, d)
	}
	if !errors.Is(got.Results[6].Err, ErrInvalidKey) || got.Results[0].Bytes != 1000 {
		t.Errorf("%+v", got.Results)
	}
	for _, k := range []string{"short", "pinned", "long"} {
		if at, ok := r.expiryOf(k); !ok || !at.Equal(r.now().Add(20*time.Second)) {
			t.Errorf("%q expires at %v, %v, want 20 s from now", k, at, ok)
		}
	}
	r.clock.Add(int64(19 * time.Second))
	r.sweep()
	if got := r.load(1, "short", "pinned", "over", "long"); !cmp.Equal(got, []Status{OK, OK, Missing, OK}) {
		t.Errorf("before their new end: %v", got)
	}
	r.clock.Add(int64(time.Second))
	if got := r.lookup("short", "pinned", "long"); !cmp.Equal(got, []Status{Expired, OK, Expired}) {
		t.Errorf("at their new end: %v, want only the pinned one", got)
	}
	// A pin outlives the expiry, so what it protects is there and can be touched.
	if got := r.touch(0, "pinned", "long"); !cmp.Equal(statuses(got.Results), []Status{OK, Expired}) {
		t.Errorf("after the end: %+v", got.Results)
	}
	if at, _ := r.expiryOf("pinned"); !at.Equal(r.now().Add(time.Minute)) {
		t.Errorf("without a time of its own: to %v, want the namespace's minute from now", at)
	}
	if _, _, err := r.s.Release(lease.ID); err != nil {
		t.Fatal(err)
	}
	r.sweep()
	if got := r.lookup("short", "pinned", "long"); !cmp.Equal(got, []Status{Missing, OK, Missing}) {
		t.Errorf("swept: %v", got)
	}
}

// now is the rig's time.
func (r *rig) now() time.Time { return time.Unix(0, r.clock.Load()) }

// Without a time anywhere a touch changes nothing and writes nothing; with one
// it makes a key without an expiry expire, and the sweeper hears of it.
func TestTouchOfKeysWithoutExpiry(t *testing.T) {
	r := newRig(t)
	r.mustStore(1000, "a")
	r.storeFor(time.Hour, "b")
	before := r.s.commits.position()
	if got := r.touch(0, "a", "b"); got.Touched != 2 {
		t.Errorf("%+v", got.Results)
	}
	if got := r.s.commits.position(); got != before {
		t.Errorf("%d groups of changes for a touch that changes nothing", got-before)
	}
	if at, _ := r.expiryOf("b"); !at.Equal(r.now().Add(time.Hour)) {
		t.Errorf("b expires at %v", at)
	}
	if got := r.touch(time.Second, "a"); got.Touched != 1 {
		t.Errorf("%+v", got.Results)
	}
	r.clock.Add(int64(time.Second))
	r.sweep()
	if got := r.lookup("a", "b"); !cmp.Equal(got, []Status{Missing, OK}) {
		t.Errorf("after its end: %v", got)
	}
	if n := r.s.x.ttls; n != 1 {
		t.Errorf("%d entries with an expiry are counted, there is one", n)
	}
}

// The pin lock is taken twice for a touch, whatever the number of keys.
func TestTouchTakesThePinLockTwice(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.slotSize, o.slots, o.payload = 4096, 2000, 4096 })
	keys := names(1000)
	r.mustStore(10, keys...)
	for _, n := range []int{1, 1000} {
		before := r.acquisitions(lockTouch)
		if got := r.touch(time.Minute, keys[:n]...); got.Touched != n {
			t.Fatalf("%d of %d touched", got.Touched, n)
		}
		if got := r.acquisitions(lockTouch) - before; got != 2 {
			t.Errorf("%d keys: %d acquisitions", n, got)
		}
	}
}

// H25 and its kin: whatever happens between a touch's reading of a row and its
// change, the key is afterwards what that made it, in memory and after a restart.
func TestTouchRaces(t *testing.T) {
	for name, c := range map[string]struct {
		meanwhile func(r *rig)
		want      Status // of the touch
		version   int    // that is there afterwards; 0: none
		lives     time.Duration
	}{
		"removed":            {func(r *rig) { r.remove(false, "a") }, Missing, 0, 0},
		"removed by force":   {func(r *rig) { r.pin("a"); r.remove(true, "a") }, Missing, 0, 0},
		"removed and stored": {func(r *rig) { r.remove(false, "a"); r.storeFor(5*time.Second, "a") }, OK, 1, time.Minute},
		"overwritten": {func(r *rig) {
			r.storeVersion(2, 70_000, StoreOptions{Overwrite: true, TTL: 5 * time.Second}, "a")
		}, OK, 2, time.Minute},
		"expired":                 {func(r *rig) { r.clock.Add(int64(10 * time.Second)) }, Expired, 0, 0},
		"expired and swept":       {func(r *rig) { r.clock.Add(int64(10 * time.Second)); r.sweep() }, Missing, 0, 0},
		"touched":                 {func(r *rig) { r.s.onTouchRead = nil; r.touch(time.Hour, "a") }, OK, 1, time.Minute},
		"its slots are another's": {func(r *rig) { r.remove(false, "a"); r.mustStore(1000, "b") }, Missing, 0, 0},
		"nothing":                 {func(*rig) {}, OK, 1, time.Minute},
	} {
		for _, relaxed := range []bool{false, true} {
			t.Run(fmt.Sprintf("%s, relaxed=%v", name, relaxed), func(t *testing.T) {
				r := newRig(t, exactly(3), func(o *rigOptions) { o.relaxed, o.interval = relaxed, time.Millisecond })
				r.storeFor(10*time.Second, "a")
				r.s.onTouchRead = func() {
					r.s.onTouchRead = nil
					c.meanwhile(r)
				}
				if got := r.touch(time.Minute, "a").Results[0].Status; got != c.want {
					t.Errorf("the touch answers %v, want %v", got, c.want)
				}
				end := r.now().Add(c.lives)
				for _, when := range []string{"before", "after"} {
					if got := r.load(max(c.version, 1), "a")[0]; (got == OK) != (c.version > 0) {
						t.Errorf("%s the restart: %v", when, got)
					}
					if at, ok := r.expiryOf("a"); ok != (c.version > 0) || ok && !at.Equal(end) {
						t.Errorf("%s the restart: expires at %v, %v; want %v", when, at, ok, end)
					}
					if when == "before" {
						r.restart()
					}
				}
			})
		}
	}
}

// A key that is replaced again and again under a touch is answered busy, not
// waited for without end.
func TestTouchGivesUp(t *testing.T) {
	r := newRig(t)
	r.mustStore(1000, "a")
	n := 0
	r.s.onTouchRead = func() {
		n++
		r.store(1000, StoreOptions{Overwrite: true}, "a")
	}
	if got := r.touch(time.Minute, "a"); got.Results[0].Status != Busy || got.Results[0].Err == nil || n != touchRounds {
		t.Errorf("%+v after %d rounds", got, n)
	}
}

// stuckSync makes syncs of Pebble's log hang while it is held.
type stuckSync struct {
	on      atomic.Bool
	entered chan struct{}
	leave   chan struct{}
	once    sync.Once
}

func newStuckSync() *stuckSync {
	return &stuckSync{entered: make(chan struct{}, 16), leave: make(chan struct{})}
}

func (x *stuckSync) wrap(fs vfs.FS) vfs.FS {
	return errorfs.Wrap(fs, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if x.on.Load() && op.Kind == errorfs.OpFileSyncData && strings.HasSuffix(op.Path, ".log") {
			x.entered <- struct{}{}
			<-x.leave
		}
		return nil
	}))
}

// free lets all go, now and later.
func (x *stuckSync) free() {
	x.on.Store(false)
	x.once.Do(func() { close(x.leave) })
}

// stick returns when the committer of r hangs in a sync.
func (x *stuckSync) stick(r *rig) {
	x.on.Store(true)
	h := r.s.lock(lockReport)
	r.s.commits.enqueue(group{sync: true})
	r.s.unlock(h)
	x.hangs(r)
}

// hangs returns when the committer of r, which has something to sync, hangs.
// Pebble itself syncs a log now and then.
func (x *stuckSync) hangs(r *rig) {
	<-x.entered
	r.until("the committer begins its turn", func() bool { return len(r.s.events.turn) > 0 })
}

// A touch of a key whose row is not written yet waits for it, or leaves with its
// caller and changes nothing.
func TestTouchOfAKeyWhoseRowIsOnItsWay(t *testing.T) {
	for _, relaxed := range []bool{false, true} {
		t.Run(fmt.Sprintf("relaxed=%v", relaxed), func(t *testing.T) {
			stuck := newStuckSync()
			r := newRig(t, func(o *rigOptions) { o.fs, o.relaxed = stuck.wrap(vfs.NewMem()), relaxed })
			defer stuck.free()
			stuck.stick(r)
			stored := make(chan []StoreResult, 1)
			go func() { stored <- r.store(1000, StoreOptions{}, "a") }()
			r.until("published before its row is written", func() bool { return r.lookup("a")[0] == OK })
			ctx, cancel := context.WithCancel(context.Background())
			cancel()
			res, err := r.s.Touch(ctx, ns, []string{"a"}, time.Hour)
			if err != nil || res.Results[0].Status != Deadline || errors.Is(res.Results[0].Err, ErrOutcomeUnknown) {
				t.Errorf("by a caller that has left: %+v %v", res, err)
			}
			touched := make(chan TouchResult, 1)
			go func() { touched <- r.touch(time.Minute, "a") }()
			select {
			case got := <-touched:
				t.Errorf("answered before the row is there: %+v", got)
			default:
			}
			stuck.free()
			if got := <-touched; got.Touched != 1 {
				t.Errorf("%+v", got)
			}
			if got := <-stored; got[0].Status != OK {
				t.Errorf("%+v", got)
			}
			if at, ok := r.expiryOf("a"); !ok || !at.Equal(r.now().Add(time.Minute)) {
				t.Errorf("expires at %v, %v", at, ok)
			}
		})
	}
}

// A touch that could not wait for the disk says that its outcome is unknown; one
// that never got there says that nothing was changed.
func TestTouchAtItsDeadline(t *testing.T) {
	stuck := newStuckSync()
	r := newRig(t, func(o *rigOptions) { o.fs = stuck.wrap(vfs.NewMem()) })
	defer stuck.free()
	r.mustStore(1000, "a")
	stuck.stick(r)
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan TouchResult, 1)
	go func() {
		res, err := r.s.Touch(ctx, ns, []string{"a", "b"}, time.Minute)
		if err != nil {
			t.Error(err)
		}
		done <- res
	}()
	r.until("the index has the new end", func() bool { return r.ends()[r.genOf("a")] != 0 })
	cancel()
	for i, got := range (<-done).Results {
		if got.Status != Deadline || !errors.Is(got.Err, ErrOutcomeUnknown) {
			t.Errorf("key %d: %+v, want an unknown outcome: also missing was not sure yet", i, got)
		}
	}
}

func (r *rig) genOf(key string) uint64 {
	res, err := r.s.Lookup(context.Background(), ns, []string{key}, LookupOptions{})
	if err != nil {
		r.t.Error(err)
		return 0
	}
	return res.Results[0].Gen
}

// After the metadata store has failed touches are refused and what they meant to
// touch is served on.
func TestTouchAfterMetadataFailure(t *testing.T) {
	fs, on, mem := faultyFS(errorfs.OpFileSyncData)
	r := newRig(t, func(o *rigOptions) { o.fs = fs })
	r.storeFor(time.Minute, "a")
	on.Store(true)
	for range 2 {
		if got := r.touch(time.Hour, "a").Results[0]; got.Status != Unavailable || got.Err == nil {
			t.Errorf("%+v", got)
		}
		if got := r.load(1, "a"); got[0] != OK {
			t.Errorf("load: %v", got)
		}
	}
	r.shut()
	on.Store(false)
	r.fs = mem.CrashClone(vfs.CrashCloneCfg{})
	r.start()
	if got := r.load(1, "a"); got[0] != OK {
		t.Errorf("load after a restart: %v", got)
	}
}

// What a touch answered in sync mode is there after a crash that loses all that
// was not synced, whether it made a key live longer or shorter.
func TestTouchIsDurable(t *testing.T) {
	fs := vfs.NewCrashableMem()
	r := newRig(t, func(o *rigOptions) { o.fs = fs })
	r.storeFor(10*time.Second, "longer")
	r.storeFor(time.Hour, "shorter")
	r.mustStore(1000, "ends", "stays")
	if got := r.touch(time.Minute, "longer", "shorter", "ends"); got.Touched != 3 {
		t.Fatal(got)
	}
	crashed := fs.CrashClone(vfs.CrashCloneCfg{})
	r.shut()
	r.fs = crashed
	r.start()
	r.clock.Add(int64(30 * time.Second))
	if got := r.load(1, "longer", "shorter", "ends", "stays"); !cmp.Equal(got, all(4, OK)) {
		t.Errorf("within the new time: %v", got)
	}
	r.clock.Add(int64(30 * time.Second))
	if got := r.lookup("longer", "shorter", "ends", "stays"); !cmp.Equal(got, []Status{Expired, Expired, Expired, OK}) {
		t.Errorf("after it: %v", got)
	}
}

// Short of room for metadata a touch that needs a row is refused, as a store is.
// One that needs none is not.
func TestTouchWhileShortOfMetadataSpace(t *testing.T) {
	r := newRig(t)
	r.storeFor(time.Hour, "a")
	r.s.full.Store(1)
	if got := r.touch(time.Minute, "a", "b"); got.Results[0].Status != Unavailable || got.Results[0].Err == nil || got.Results[1].Status != Missing {
		t.Errorf("%+v", got.Results)
	}
	if got := r.touch(0, "a"); got.Touched != 1 {
		t.Errorf("%+v", got.Results)
	}
	r.s.full.Store(-1)
}

// Touches race with stores, removes and sweeps; afterwards rows, index and a
// restart agree on which keys there are and when they end. Run it under -race.
func TestRacingTouches(t *testing.T) {
	for _, relaxed := range []bool{false, true} {
		t.Run(fmt.Sprintf("relaxed=%v", relaxed), func(t *testing.T) {
			r := newRig(t, func(o *rigOptions) {
				o.slotSize, o.slots, o.payload, o.relaxed, o.interval = 4096, 60, 64<<10, relaxed, time.Millisecond
			})
			var wg sync.WaitGroup
			for g := range 6 {
				wg.Go(func() {
					rng := rand.New(rand.NewPCG(7, uint64(g)))
					for range 300 {
						keys := []string{fmt.Sprint("k", rng.IntN(8)), fmt.Sprint("k", rng.IntN(8))}
						switch rng.IntN(6) {
						case 0, 1:
							if err := raceStore(context.Background(), r, rng, keys); err != nil {
								t.Error(err)
							}
						case 2:
							r.remove(rng.IntN(2) == 0, keys...)
						case 3:
							r.clock.Add(int64(rng.IntN(300)) * int64(time.Millisecond))
							r.sweep()
						default:
							for _, res := range r.touch(time.Duration(1+rng.IntN(2000))*time.Millisecond, keys...).Results {
								switch res.Status {
								case OK, Missing, Expired, Duplicate, Busy:
								default:
									t.Errorf("touch: %v (%v)", res.Status, res.Err)
								}
							}
						}
					}
				})
			}
			wg.Wait()
			r.s.work.Wait()
			before := r.ends()
			r.checkStates()
			r.restart()
			r.checkStates()
			if d := cmp.Diff(before, r.ends()); d != "" {
				t.Errorf("the restart changed keys or their ends: %s", d)
			}
		})
	}
}

// ends says when each key of the index ends, by its generation.
func (r *rig) ends() map[uint64]int64 {
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	out, ttls := map[uint64]int64{}, 0
	for h := range r.s.x.life {
		if r.s.x.life[h] == live {
			out[r.s.x.gen[h]] = r.s.x.expiry[h]
			if r.s.x.expiry[h] != 0 {
				ttls++
			}
		}
	}
	if ttls != r.s.x.ttls {
		r.t.Errorf("%d entries expire, %d are counted", ttls, r.s.x.ttls)
	}
	return out
}
