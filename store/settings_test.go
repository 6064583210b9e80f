// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/google/go-cmp/cmp"

	"github.com/rawblockd/rawblockd/meta"
)

// Entries stay on the slab that a namespace no longer lists: they are served,
// their removes are as durable as that slab promises, and new ones go elsewhere.
func TestSlabsOfANamespaceChange(t *testing.T) {
	for name, restart := range map[string]bool{"at once": false, "after a restart": true} {
		t.Run(name, func(t *testing.T) {
			mem := vfs.NewCrashableMem()
			r := newRig(t, func(o *rigOptions) {
				o.fs, o.slabs, o.relaxedOn = mem, 2, []int{1}
				o.spaces = seeds(Namespace{Name: "n", Slabs: []string{"s0"}})
			})
			ctx := context.Background()
			if got := r.storeIn("n", 1000, "a", "b"); !cmp.Equal(got, all(2, OK)) {
				t.Fatal(got)
			}
			r.put(Namespace{Name: "n", Slabs: []string{"s1"}})
			if restart {
				r.restart()
			}
			if got := r.storeIn("n", 1000, "c"); got[0] != OK {
				t.Fatal(got)
			}
			if a, b := r.slabs[0].Counts().Used, r.slabs[1].Counts().Used; a != 2 || b != 1 {
				t.Errorf("used slots: %d and %d, want 2 and 1", a, b)
			}
			if got := r.lookupIn("n", "a", "b", "c"); !cmp.Equal(got, all(3, OK)) {
				t.Errorf("lookup: %v", got)
			}
			if got := r.info("n"); got.Entries != 3 || got.Used != 3*64<<10 {
				t.Errorf("accounts: %+v", got)
			}
			res, err := r.s.Remove(ctx, "n", []string{"a"}, false)
			if err != nil || res.Results[0].Status != OK {
				t.Fatalf("remove: %+v %v", res, err)
			}
			crashed := mem.CrashClone(vfs.CrashCloneCfg{})
			r.shut()
			r.fs = crashed
			r.start()
			if got := r.lookupIn("n", "a", "b"); !cmp.Equal(got, []Status{Missing, OK}) {
				t.Errorf("after a crash: %v: a removed entry of a slab in sync mode is back, or another is gone", got)
			}
		})
	}
}

// history of settings: step i makes, changes or deletes namespaces, so that what
// is in the metadata tells how many steps were taken.
func settingsStep(r *rig, i int) error {
	ctx := context.Background()
	switch {
	case i%5 == 4:
		name := fmt.Sprint("n", i-4)
		return r.s.DeleteNamespace(ctx, name)
	case i%5 == 3: // two at once: the file has changed
		return r.s.Reload(ctx, seeds(Namespace{Name: "x", Quota: int64(i+1) << 20}, Namespace{Name: "y", Quota: int64(i+1) << 20}))
	}
	_, _, err := r.s.PutNamespace(ctx, Namespace{Name: fmt.Sprint("n", i-i%5), Quota: int64(i+1) << 20})
	return err
}

// settingsAfter is the quotas by name after so many steps, in units of MiB.
func settingsAfter(steps int) map[string]int64 {
	m := map[string]int64{ns: 0, "x": 1, "y": 1}
	for i := range steps {
		switch name := fmt.Sprint("n", i-i%5); {
		case i%5 == 4:
			delete(m, name)
		case i%5 == 3:
			m["x"], m["y"] = int64(i+1), int64(i+1)
		default:
			m[name] = int64(i + 1)
		}
	}
	return m
}

// settingsIn reads the quotas of a crash image.
func settingsIn(t *testing.T, fs vfs.FS) map[string]int64 {
	t.Helper()
	db, err := meta.Open(meta.Options{Path: "meta", FS: fs, CacheSize: 1 << 20, MemTableSize: 256 << 10, Log: quiet()})
	if err != nil {
		t.Fatal(err)
	}
	got := map[string]int64{}
	if err := db.Namespaces(func(name string, rec meta.NamespaceRecord, err error) {
		if err != nil {
			t.Errorf("record of %q: %v", name, err)
		}
		got[name] = rec.Quota >> 20
	}); err != nil {
		t.Fatal(err)
	}
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
	return got
}

// TestSettingsSurviveCrashes: before every change of the metadata's disk, with
// none, half or all of the unsynced kept, the settings are those after whole
// steps, at least the acknowledged ones, and at least those in force.
func TestSettingsSurviveCrashes(t *testing.T) {
	const steps = 20
	type image struct {
		fs            *vfs.MemFS
		acked, issued int
		inForce       map[string]int64
	}
	var acked, issued atomic.Int64
	var s atomic.Pointer[Store]
	var mu sync.Mutex // over images and n: Pebble has several goroutines
	var images []image
	mem := vfs.NewCrashableMem()
	n := 0
	fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		st := s.Load()
		if st == nil || op.Kind.ReadOrWrite() != errorfs.OpIsWrite {
			return nil
		}
		mu.Lock()
		defer mu.Unlock()
		n++
		img := image{acked: int(acked.Load()), inForce: map[string]int64{}}
		for name, sp := range *st.names.Load() {
			img.inForce[name] = sp.settings().quota >> 20
		}
		img.fs = mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: 50 * (n % 3), RNG: rand.New(rand.NewPCG(uint64(n), 0))})
		img.issued = int(issued.Load())
		images = append(images, img)
		return nil
	}))
	r := newRig(t, func(o *rigOptions) {
		o.fs = fs
		o.spaces = seeds(Namespace{Name: "x", Quota: 1 << 20}, Namespace{Name: "y", Quota: 1 << 20})
	})
	s.Store(r.s)
	for i := range steps {
		issued.Store(int64(i + 1))
		if err := settingsStep(r, i); err != nil {
			t.Fatal(err)
		}
		acked.Store(int64(i + 1))
	}
	s.Store(nil)
	if len(images) < 2*steps {
		t.Fatalf("only %d images", len(images))
	}
	for _, img := range images {
		got := settingsIn(t, img.fs)
		m := img.acked
		for m < img.issued && !cmp.Equal(got, settingsAfter(m)) {
			m++
		}
		if d := cmp.Diff(settingsAfter(m), got); d != "" {
			t.Fatalf("%d steps acknowledged, %d issued: no state of whole steps (-want +got):\n%s", img.acked, img.issued, d)
		}
		force := 0
		for force < img.issued && !cmp.Equal(img.inForce, settingsAfter(force)) {
			force++
		}
		// A delete is out of service before its record is gone: nothing rests on it.
		if deleting := force%5 == 0; force > m && !deleting {
			t.Errorf("settings of step %d were in force, those of step %d are on the disk", force, m)
		}
	}
	last := settingsAfter(steps)
	r.o.spaces = seeds(Namespace{Name: "x", Quota: last["x"] << 20}, Namespace{Name: "y", Quota: last["y"] << 20})
	r.restart()
	for name, quota := range last {
		if got := r.info(name).Quota; name != ns && got>>20 != quota {
			t.Errorf("%q after a restart: %d MiB, want %d", name, got>>20, quota)
		}
	}
}

// Once the metadata store has failed, settings stay as they are.
func TestSettingsWhenMetadataFails(t *testing.T) {
	fs, on, mem := faultyFS(errorfs.OpFileSyncData)
	r := newRig(t, func(o *rigOptions) { o.fs = fs })
	r.put(Namespace{Name: "n", Quota: 1 << 20})
	on.Store(true)
	ctx := context.Background()
	for what, err := range map[string]error{
		"put":    third(r.s.PutNamespace(ctx, Namespace{Name: "n", Quota: 2 << 20})),
		"make":   third(r.s.PutNamespace(ctx, Namespace{Name: "m"})),
		"reload": r.s.Reload(ctx, seeds(Namespace{Name: "x"})),
		"clear":  second(r.s.Clear(ctx, ns)),
	} {
		if !errors.Is(err, ErrUnavailable) {
			t.Errorf("%s: got %v, want ErrUnavailable", what, err)
		}
	}
	r.wantSettings("after failures", Namespace{Name: "n", Quota: 1 << 20}, true, false)
	if got := r.s.Namespaces(); len(got) != 2 {
		t.Errorf("after failures: %+v", got)
	}
	if err := r.s.DeleteNamespace(ctx, "n"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("delete: %v", err)
	}
	r.shut()
	on.Store(false)
	r.fs = mem.CrashClone(vfs.CrashCloneCfg{})
	r.start()
	r.wantSettings("after a restart", Namespace{Name: "n", Quota: 1 << 20}, true, false)
}

func third[T, U any](_ T, _ U, err error) error { return err }

// A caller may leave while the disk hangs: the change acts once it is durable,
// never before, and one that got no turn has done nothing.
func TestCallerLeavesAChange(t *testing.T) {
	var hang atomic.Pointer[chan struct{}]
	reached := make(chan struct{}, 16)
	mem := vfs.NewCrashableMem()
	fs := errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if c := hang.Load(); c != nil && op.Kind == errorfs.OpFileSyncData {
			reached <- struct{}{}
			<-*c
		}
		return nil
	}))
	r := newRig(t, func(o *rigOptions) { o.fs = fs })
	release := make(chan struct{})
	hang.Store(&release)
	ctx, cancel := context.WithCancel(context.Background())
	left := make(chan error, 1)
	go func() {
		_, _, err := r.s.PutNamespace(ctx, Namespace{Name: "n"})
		left <- err
	}()
	<-reached // the sync hangs
	cancel()
	if err := <-left; !errors.Is(err, ErrOutcomeUnknown) {
		t.Errorf("left while it was on its way: %v", err)
	}
	if _, err := r.s.Namespace("n"); !errors.Is(err, ErrNamespace) {
		t.Errorf("it acts before it is durable: %v", err)
	}
	short, done := context.WithTimeout(context.Background(), time.Millisecond)
	defer done()
	for what, ctx := range map[string]context.Context{"cancelled": ctx, "in time": short} {
		if _, _, err := r.s.PutNamespace(ctx, Namespace{Name: "m"}); !errors.Is(err, ctx.Err()) || errors.Is(err, ErrOutcomeUnknown) {
			t.Errorf("no turn, %s: %v", what, err)
		}
	}
	hang.Store(nil)
	close(release)
	r.put(Namespace{Name: "o"}) // waits for its turn, and so for the end of the first
	r.wantSettings("released", Namespace{Name: "n"}, true, false)
	if _, err := r.s.Namespace("m"); !errors.Is(err, ErrNamespace) {
		t.Errorf("done without a turn: %v", err)
	}
}
