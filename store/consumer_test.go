// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"sync"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
)

// consumer keeps the set of stored keys by what a feed tells it.
type consumer struct {
	r      *rig
	space  string           // as of rig.feed
	keys   map[string]int64 // bytes by namespace and key
	synced bool
	seq    uint64
	lost   int
}

// apply takes one event; from EventSynced on nothing may contradict the set.
func (c *consumer) apply(ev Event) error {
	name := ev.Namespace + "/" + ev.Key
	_, there := c.keys[name]
	if ev.Kind == EventStored || ev.Kind == EventRemoved {
		if ev.Seq != c.seq+1 {
			return fmt.Errorf("%s after %d", tellEvent(ev), c.seq)
		}
		c.seq = ev.Seq
	}
	switch ev.Kind {
	case EventSnapshot:
		c.keys[name] = ev.Bytes
	case EventStored:
		if c.synced && there {
			return fmt.Errorf("%s, but it is there", tellEvent(ev))
		}
		c.keys[name] = ev.Bytes
	case EventRemoved:
		if c.synced && (!there || c.keys[name] != ev.Bytes) {
			return fmt.Errorf("%s, but %d bytes are there: %v", tellEvent(ev), c.keys[name], there)
		}
		delete(c.keys, name)
	case EventSynced:
		c.synced = true
		if ev.Seq != c.seq {
			return fmt.Errorf("synced at %d after %d", ev.Seq, c.seq)
		}
	case EventLost:
		c.lost++
	}
	return nil
}

// follow reads until stop, with a new feed now and then, as a reader does that
// loses its connection; then it reads what there is.
func (c *consumer) follow(rng *rand.Rand, stop <-chan struct{}) error {
	for {
		last := false
		select {
		case <-stop:
			last = true
		default:
		}
		since := c.seq
		if !c.synced {
			since = 0
		}
		f, err := c.r.s.Events(context.Background(), viewOf(c.space), since)
		if err != nil {
			return err
		}
		if f.reading {
			c.keys, c.synced, c.seq = map[string]int64{}, false, f.seq
		}
		err = c.take(f, rng.IntN(100), last)
		f.Close()
		if err != nil || last && c.synced {
			return err
		}
	}
}

// take reads up to n events, or for all there is with last.
func (c *consumer) take(f *Feed, n int, last bool) error {
	for i := 0; last || i < n; i++ {
		ev, err := f.Next(ended())
		switch {
		case errors.Is(err, context.Canceled):
			return nil
		case errors.Is(err, io.EOF): // lost: anew
			c.synced = false
			return nil
		case err != nil:
			return err
		}
		if err := c.apply(ev); err != nil {
			return err
		}
	}
	return nil
}

// The property that readers rely on: whatever is stored and removed meanwhile, a
// reader that applies a snapshot and the events after it, with lost connections
// and in a ring that is too small, ends with exactly the keys that are stored,
// and is never told of a key twice. Run it under -race.
func TestConsumersHaveTheLiveSet(t *testing.T) {
	for _, c := range []struct {
		relaxed bool
		ring    uint64
	}{{false, eventRing}, {true, eventRing}, {false, 32}, {true, 32}} {
		t.Run(fmt.Sprintf("relaxed=%v, ring of %d", c.relaxed, c.ring), func(t *testing.T) {
			r := newRig(t, func(o *rigOptions) {
				o.slotSize, o.slots, o.payload, o.relaxed, o.interval = 4096, 40, 64<<10, c.relaxed, time.Millisecond
				o.slabs, o.spaces = 2, []Namespace{{Name: ns}, {Name: "other"}}
			})
			r.s.events.size, r.s.events.steps = c.ring, 3
			stop := make(chan struct{})
			consumers := []*consumer{{r: r}, {r: r}, {r: r, space: ns}, {r: r, space: "other"}, {r: r, space: "default,other"}}
			var readers, writers sync.WaitGroup
			for i, cs := range consumers {
				readers.Go(func() {
					if err := cs.follow(rand.New(rand.NewPCG(11, uint64(i))), stop); err != nil {
						t.Errorf("reader %d: %v", i, err)
					}
				})
			}
			for i := range 4 {
				writers.Go(func() { r.change(rand.New(rand.NewPCG(12, uint64(i))), 250) })
			}
			writers.Wait()
			r.await()
			close(stop)
			readers.Wait()
			lost := 0
			for i, cs := range consumers {
				if d := cmp.Diff(r.liveSet(cs.space), cs.keys); d != "" {
					t.Errorf("reader %d: %s", i, d)
				}
				lost += cs.lost
			}
			t.Logf("%d events, lost %d times", r.s.events.last(), lost)
		})
	}
}

// change does n random changes of a few keys.
func (r *rig) change(rng *rand.Rand, n int) {
	ctx := context.Background()
	for range n {
		keys := []string{fmt.Sprint("k", rng.IntN(10)), fmt.Sprint("k", rng.IntN(10))}
		var err error
		switch rng.IntN(12) {
		case 0, 1, 2, 3, 4, 5:
			err = r.changeStore(rng, keys)
		case 6, 7, 8:
			_, err = r.s.Remove(ctx, ns, keys, rng.IntN(2) == 0)
		case 9:
			r.clock.Add(int64(rng.IntN(200)) * int64(time.Millisecond))
			r.sweep()
		case 10:
			if rng.IntN(8) == 0 {
				_, err = r.s.Clear(ctx, []string{ns, "other"}[rng.IntN(2)])
			}
		case 11:
			_, err = r.s.Touch(ctx, ns, keys, time.Duration(rng.IntN(1000))*time.Millisecond)
		}
		if err != nil {
			r.t.Error(err)
			return
		}
	}
}

func (r *rig) changeStore(rng *rand.Rand, keys []string) error {
	space := ns
	if rng.IntN(4) == 0 {
		space = "other"
	}
	o := StoreOptions{Overwrite: rng.IntN(2) == 0}
	if rng.IntN(3) == 0 {
		o.TTL = time.Duration(1+rng.IntN(1000)) * time.Millisecond
	}
	st, err := r.s.BeginStore(context.Background(), space, o)
	if err != nil {
		return err
	}
	for _, k := range keys {
		st.Add(r.item(k, payload(k, 1, 1+rng.IntN(9000))))
	}
	_, err = st.Commit()
	return err
}

// liveSet is what is stored: bytes by namespace and key.
func (r *rig) liveSet(space string) map[string]int64 {
	r.t.Helper()
	out := map[string]int64{}
	for _, name := range []string{ns, "other"} {
		if !viewOf(space).has(name) {
			continue
		}
		for i := range 10 {
			key := fmt.Sprint("k", i)
			e, err := r.s.Explain(context.Background(), name, key)
			if err != nil {
				r.t.Fatal(err)
			}
			if e.Slab != "" { // also one that has expired and was not swept
				out[name+"/"+key] = e.Bytes
			}
		}
	}
	return out
}
