// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rawblockd/rawblockd/ioengine"
)

// What is none of the device's doing says nothing about it.
func TestNotTheDevicesFault(t *testing.T) {
	var busy submitFails
	inBubble(t, func(o *rigOptions) { o.engine = busy.over }, func(t *testing.T, r *rig) {
		keys := names(40)
		r.mustStoreTogether(1000, keys...)
		busy.after(0, syscall.EAGAIN)
		if got := r.load(1, keys...); !cmp.Equal(got, all(40, IOError)) {
			t.Errorf("loads: %v", got)
		}
		if st := r.slabStatus("s0"); st.Health != HealthOnline || st.Counts.Used != 40 {
			t.Errorf("status: %+v", st)
		}
		busy.after(-1, nil)
		if got := r.load(1, keys...); !cmp.Equal(got, all(40, OK)) {
			t.Errorf("loads afterwards: %v", got)
		}
		for _, err := range []error{syscall.EAGAIN, syscall.ENOMEM, syscall.EINVAL} {
			busy.after(0, err)
			if got := r.store(1000, StoreOptions{}, "new")[0]; got.Status != IOError {
				t.Errorf("store: %+v", got)
			}
		}
		r.s.work.Wait()
		if st := r.slabStatus("s0"); st.Health != HealthOnline || st.Counts.Used != 40 || st.Counts.Quarantined != 0 || st.Counts.Free != st.Counts.Total-40 {
			t.Errorf("after stores: %+v", st)
		}
		busy.after(-1, nil)
	})
}

// submitFails is an engine whose submission fails in the middle: what comes after
// some number of ops is answered with an error, at once and by whoever submits.
type submitFails struct {
	ioengine.Engine
	mu   sync.Mutex
	left int // ops that go through; negative: all
	err  error
}

func (e *submitFails) over(inner ioengine.Engine) ioengine.Engine {
	e.Engine = inner
	e.after(-1, nil)
	return e
}

func (e *submitFails) after(n int, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	e.left, e.err = n, err
}

func (e *submitFails) take(n int) (through int, err error) {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.left < 0 {
		return n, nil
	}
	through = min(n, e.left)
	e.left -= through
	return through, e.err
}

func (e *submitFails) Submit(ops []ioengine.Op, done ioengine.Done) {
	n, err := e.take(len(ops))
	e.Engine.Submit(ops[:n], done)
	for i := n; i < len(ops); i++ {
		done(i, 0, err)
	}
}

// C25: submission fails in the middle of a batch: every key has its answer at once,
// nobody hangs, nothing is left behind, and the next batch works.
func TestSubmissionFailsInTheMiddle(t *testing.T) {
	for _, why := range []error{syscall.EAGAIN, syscall.EIO, ioengine.ErrClosed} {
		for _, through := range []int{0, 1, 5, 31} {
			t.Run(fmt.Sprint(why, " after ", through), func(t *testing.T) {
				var engine submitFails
				inBubble(t, func(o *rigOptions) { o.slots, o.engine = 256, engine.over }, func(t *testing.T, r *rig) {
					ctx, cancel := context.WithTimeout(context.Background(), time.Hour)
					defer cancel()
					keys := names(32)
					r.mustStoreTogether(100_000, keys...) // two ops each
					began := time.Now()
					engine.after(through, why)
					for i, got := range r.load(1, keys...) {
						if want := map[bool]Status{true: OK, false: IOError}[2*i+1 < through]; got != want && !(got == Unavailable && want == IOError) {
							t.Errorf("load of key %d: %v, want %v", i, got, want)
						}
					}
					engine.after(through, why)
					st, err := r.s.BeginStore(ctx, ns, StoreOptions{})
					if err != nil {
						t.Fatal(err)
					}
					var items []StoreItem
					for i := range 32 {
						k := fmt.Sprint("new", i)
						items = append(items, r.item(k, payload(k, 1, 100_000)))
					}
					st.Add(items...)
					res, err := st.Commit()
					if err != nil {
						t.Fatal(err)
					}
					for _, x := range res {
						if x.Status != OK && x.Err == nil {
							t.Errorf("%+v", x)
						}
					}
					if took := time.Since(began); took > time.Second {
						t.Errorf("the answers took %v", took)
					}
					engine.after(-1, nil)
					time.Sleep(time.Hour) // whatever its health
					r.mustStoreTogether(1000, "next")
					if got := r.load(1, "next"); got[0] != OK {
						t.Errorf("the next batch: %v", got)
					}
				})
			})
		}
	}
}
