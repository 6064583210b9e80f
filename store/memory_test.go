// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"testing"
	"testing/synctest"
	"time"

	"github.com/google/go-cmp/cmp"

	"github.com/rawblockd/rawblockd/ioengine"
)

// fill takes all memory, for d.
func (r *rig) fill(d time.Duration) {
	r.t.Helper()
	for r.arena.InUse() < r.arena.Cap() {
		buf, err := r.arena.Get(r.t.Context(), 1<<20)
		if err != nil {
			r.t.Fatal(err)
		}
		time.AfterFunc(d, buf.Release)
	}
}

// A batch for which there is no memory is busy key by key once memory has stood
// still, and not while others move: their memory will come back.
func TestBatchWithoutMemoryIsBusy(t *testing.T) {
	const still = 5 * time.Second
	for name, c := range map[string]struct {
		back  time.Duration // when the others give back
		stirs bool          // their bytes move meanwhile
		want  time.Duration
		busy  bool
	}{
		"stands still":         {back: time.Hour, want: still, busy: true},
		"moves":                {back: 40 * time.Second, stirs: true, want: 40 * time.Second},
		"comes back in time":   {back: 4 * time.Second, want: 4 * time.Second},
		"stops moving":         {back: time.Hour, stirs: true, want: 2*time.Minute + still, busy: true},
		"beyond the deadline":  {back: time.Hour, stirs: true, want: 30 * time.Second},
		"deadline comes first": {back: time.Hour, want: 3 * time.Second},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, func(o *rigOptions) { o.payload, o.buffers, o.interval = 1<<20, 4<<20, 1000*time.Hour })
				r.mustStore(1<<20, "a", "b")
				r.fill(c.back)
				began := time.Now()
				ctx, cancel, want := context.Background(), func() {}, all(3, OK)
				switch {
				case c.busy:
					want = all(3, Busy)
				case c.want < c.back:
					ctx, cancel = context.WithTimeout(ctx, c.want)
					want = all(3, Deadline)
				}
				defer cancel()
				want[1] = Missing
				if c.stirs {
					s, stop := r.s, time.Now().Add(2*time.Minute)
					go func() {
						for ; !time.Now().After(stop); time.Sleep(time.Second) {
							s.Stir()
						}
					}()
				}
				l, err := r.s.LoadWithin(ctx, ns, []string{"a", "not there", "b"}, still)
				if err != nil {
					t.Fatal(err)
				}
				got := []Status{}
				for it, more := l.Next(); more; it, more = l.Next() {
					got = append(got, it.Status)
					if it.Buf != nil {
						it.Buf.Release()
					}
					if it.Status == Busy && !errors.Is(it.Err, ErrNoMemory) {
						t.Errorf("%q: %v", it.Key, it.Err)
					}
				}
				if took := time.Since(began); !cmp.Equal(got, want) || took != c.want {
					t.Errorf("got %v after %v, want %v after %v", got, took, want, c.want)
				}
				l.Close()
				time.Sleep(2 * time.Hour) // until the others have given back
				r.end()
			})
		})
	}
}

// The later keys of a batch that has begun wait as long as it takes.
func TestLaterKeysWait(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *rigOptions) { o.payload, o.buffers, o.interval = 1<<20, 4<<20, 1000*time.Hour })
		r.mustStore(1<<20, "a", "b")
		free := r.item("x", make([]byte, 1<<20)).Buf
		r.fill(40 * time.Second)
		free.Release()
		l, err := r.s.LoadWithin(t.Context(), ns, []string{"a", "b"}, time.Second)
		if err != nil {
			t.Fatal(err)
		}
		defer l.Close()
		began := time.Now()
		a, _ := l.Next()
		synctest.Wait()
		time.AfterFunc(time.Minute, a.Buf.Release)
		b, _ := l.Next()
		if took := time.Since(began); b.Status != OK || took != 40*time.Second {
			t.Errorf("got %v after %v, want ok after 40s", b.Status, took)
		}
		b.Buf.Release()
		time.Sleep(time.Hour)
		l.Close()
		r.end()
	})
}

// A store that waits for memory is seen to.
func TestWaitingForMemoryIsTraced(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *rigOptions) { o.payload, o.buffers, o.interval = 1<<20, 4<<20, 1000*time.Hour })
		r.fill(time.Second)
		trace := NewTrace()
		ctx := WithTrace(t.Context(), trace)
		st, err := r.s.BeginStore(ctx, ns, StoreOptions{})
		if err != nil {
			t.Fatal(err)
		}
		got := make(chan *ioengine.Buf)
		go func() {
			buf, _ := st.Buffer(ctx, 1000, time.Minute)
			got <- buf
		}()
		synctest.Wait()
		if at := trace.Report(); at.Stage != StageQueue {
			t.Errorf("waits at stage %v", at.Stage)
		}
		(<-got).Release()
		if at := trace.Report(); at.Stage != StageStart || at.Spent[StageQueue] != time.Second {
			t.Errorf("then at %v, with %v in the queue", at.Stage, at.Spent[StageQueue])
		}
		st.Abort()
		r.end()
	})
}
