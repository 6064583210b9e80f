// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rawblockd/rawblockd/ioengine"
)

// TestTrace: time goes to the stage that was entered last, and the report
// includes the present one.
func TestTrace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := NewTrace()
		pass := func(d time.Duration) { time.Sleep(d) } // fake time
		pass(time.Second)
		tr.At(StageLock)
		pass(2 * time.Second)
		tr.On("fast0")
		pass(3 * time.Second)
		tr.At(StageCommit)
		pass(4 * time.Second)
		tr.On("fast1")
		pass(5 * time.Second)
		want := TraceReport{Stage: StageDevice, Slab: "fast1"}
		want.Spent[StageStart], want.Spent[StageLock] = time.Second, 2*time.Second
		want.Spent[StageDevice], want.Spent[StageCommit] = 8*time.Second, 4*time.Second
		if got := tr.Report(); got != want {
			t.Errorf("got %+v, want %+v", got, want)
		}
	})
	var none *Trace
	none.At(StageLock)
	if got := none.Report(); got != (TraceReport{}) {
		t.Errorf("nil trace: %+v", got)
	}
}

// TestTraceOfBatches: a store of 33 keys on a pool of 32 spends two services on
// the device, a load likewise, and both name the slab.
func TestTraceOfBatches(t *testing.T) {
	const service, n = time.Second, 33
	synctest.Test(t, func(t *testing.T) {
		slow := false
		r := newRig(t, func(o *rigOptions) {
			o.slots, o.workers, o.interval = 64, 32, 1000*time.Hour
			o.service = func(ioengine.Dir, int) time.Duration {
				if slow {
					return service
				}
				return 0
			}
		})
		slow = true
		keys := names(n)
		stored := NewTrace()
		st, err := r.s.BeginStore(WithTrace(context.Background(), stored), ns, StoreOptions{})
		if err != nil {
			t.Fatal(err)
		}
		for _, k := range keys {
			st.Add(r.item(k, payload(k, 1, 1000)))
		}
		if _, err := st.Commit(); err != nil {
			t.Fatal(err)
		}
		wantDevice(t, "store", stored, 2*service)

		loaded := NewTrace()
		l, err := r.s.Load(WithTrace(context.Background(), loaded), ns, keys)
		if err != nil {
			t.Fatal(err)
		}
		for item, more := l.Next(); more; item, more = l.Next() {
			if item.Status != OK {
				t.Errorf("%q: %v", item.Key, item.Status)
				continue
			}
			item.Buf.Release()
		}
		l.Close()
		wantDevice(t, "load", loaded, 2*service)
		r.end()
	})
}

func wantDevice(t *testing.T, op string, tr *Trace, want time.Duration) {
	t.Helper()
	rep := tr.Report()
	if rep.Spent[StageDevice] != want || rep.Slab == "" {
		t.Errorf("%s: %v on the device of slab %q, want %v and a name; stages %v", op, rep.Spent[StageDevice], rep.Slab, want, rep.Spent)
	}
}

// A request that waits for the pin lock says so, whichever operation it is, and no
// longer when it has it back.
func TestWaitingForTheLockIsTraced(t *testing.T) {
	r := newRig(t)
	r.mustStore(1000, "a")
	for name, op := range map[string]func(ctx context.Context) error{
		"lookup":  func(ctx context.Context) error { return second(r.s.Lookup(ctx, ns, []string{"a"}, LookupOptions{})) },
		"pin":     func(ctx context.Context) error { return second(r.s.Pin(ctx, ns, []string{"x"}, LeaseRequest{})) },
		"touch":   func(ctx context.Context) error { return second(r.s.Touch(ctx, ns, []string{"a"}, time.Hour)) },
		"remove":  func(ctx context.Context) error { return second(r.s.Remove(ctx, ns, []string{"x"}, false)) },
		"explain": func(ctx context.Context) error { return second(r.s.Explain(ctx, ns, "a")) },
		"load": func(ctx context.Context) error {
			l, err := r.s.Load(ctx, ns, []string{"a"})
			if err != nil {
				return err
			}
			defer l.Close()
			it, _ := l.Next()
			it.Buf.Release()
			return it.Err
		},
		"store": func(ctx context.Context) error {
			st, err := r.s.BeginStore(ctx, ns, StoreOptions{})
			if err != nil {
				return err
			}
			st.Add(r.item("a", payload("a", 1, 1000)))
			return second(st.Commit())
		},
	} {
		trace := NewTrace()
		done := make(chan error, 1)
		func() {
			h := r.s.lock(lockReport)
			defer r.s.unlock(h)
			go func() { done <- op(WithTrace(context.Background(), trace)) }()
			r.until(name+" waits for the lock", func() bool { return trace.Report().Stage == StageLock })
		}()
		if err := <-done; err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if at := trace.Report(); at.Stage == StageLock || at.Spent[StageLock] == 0 {
			t.Errorf("%s: at %v in the end, %v for the lock", name, at.Stage, at.Spent[StageLock])
		}
	}
}
