// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"context"
	"fmt"
	"math/rand/v2"
	"sync"
	"testing"
	"time"
)

// mostWait is what a batch may take in the model: it may meet a slab that hangs more
// than once, and wait for what others hold.
const mostWait = 45 * time.Second

// One slab of three hangs, flushes included, comes back and hangs again, over and over,
// while clients store, load, remove, touch, pin and scrub: nobody waits for long, nothing
// that was acknowledged is lost or has wrong bytes, and in the end all memory, slots, pins
// and quotas are back, also after a restart.
func TestHangsAgainstAModel(t *testing.T) {
	for seed := range uint64(6) {
		inBubble(t, func(o *rigOptions) {
			o.slabs, o.slots, o.payload, o.buffers, o.workers = 3, 600, 2<<20, 12<<20, 3
		}, func(t *testing.T, r *rig) {
			stop := make(chan struct{})
			var work, trouble sync.WaitGroup
			for w := range 10 {
				c := &hangClient{t: t, r: r, rnd: rand.New(rand.NewPCG(seed, uint64(w))), name: fmt.Sprint(w), has: map[string]*acked{}}
				work.Go(c.run)
			}
			trouble.Go(func() { r.hangNowAndThen(rand.New(rand.NewPCG(seed, 99)), int(seed%3), stop) })
			work.Wait()
			close(stop)
			trouble.Wait()
			time.Sleep(2 * time.Minute)
			r.wantAllBack()
			before := r.s.Namespaces()
			r.restart()
			for i, after := range r.s.Namespaces() {
				if b := before[i]; b.Used != after.Used || b.Entries != after.Entries {
					t.Errorf("seed %d: %+v, after a restart %+v", seed, b, after)
				}
			}
		})
	}
}

// hangNowAndThen lets a device hang until stop is closed, and all of its hangs end.
func (r *rig) hangNowAndThen(rnd *rand.Rand, dev int, stop <-chan struct{}) {
	for {
		select {
		case <-stop:
			return
		case <-time.After(time.Duration(rnd.IntN(15_000)) * time.Millisecond):
		}
		release := func() {}
		switch rnd.IntN(3) {
		case 0:
			release = r.devs[dev].Hang(0, r.devs[dev].Geometry().Size)
		case 1:
			release = r.devs[dev].Hang(rnd.Int64N(30<<20), 1<<20)
		case 2:
			release = r.devs[dev].HangFlush()
		}
		time.AfterFunc(time.Duration(rnd.IntN(50_000))*time.Millisecond, release)
	}
}

// wantAllBack checks that nothing is kept for anybody.
func (r *rig) wantAllBack() {
	for i, v := range r.s.volumes {
		loads, stores := v.share.inUse()
		c := r.slabs[i].Counts()
		if h := r.health(v.slab.Name()); h != HealthOnline || loads+stores != 0 || v.ops.Load() != 0 || c.Reserved+c.Retired+c.Deleting != 0 {
			r.t.Errorf("slab %d is %s; share %d and %d, ops %d, slots %+v", i, h, loads, stores, v.ops.Load(), c)
		}
	}
	if st := r.s.Status(); r.arena.InUse() != 0 || st.Pins != 0 || st.Leases != 0 {
		r.t.Errorf("%d bytes of memory, %d pins, %d leases", r.arena.InUse(), st.Pins, st.Leases)
	}
	r.s.work.Wait()
	r.checkStates()
}

// hangClient has keys of its own.
type hangClient struct {
	t    *testing.T
	r    *rig
	rnd  *rand.Rand
	name string
	has  map[string]*acked
}

// acked is what was acknowledged of one key.
type acked struct{ version, n int }

func (c *hangClient) run() {
	for range 40 {
		time.Sleep(time.Duration(c.rnd.IntN(3000)) * time.Millisecond)
		var keys []string
		for _, i := range c.rnd.Perm(12)[:1+c.rnd.IntN(5)] {
			keys = append(keys, fmt.Sprint(c.name, "-", i))
		}
		began := time.Now()
		what := []func(keys []string){c.store, c.store, c.load, c.load, c.remove, c.other}[c.rnd.IntN(6)]
		what(keys)
		if took := time.Since(began); took > mostWait {
			c.t.Errorf("%v took %v", keys, took)
		}
	}
}

func (c *hangClient) store(keys []string) {
	st, err := c.r.s.BeginStore(context.Background(), ns, StoreOptions{Overwrite: true})
	if err != nil {
		c.t.Error(err)
		return
	}
	fresh := map[string]*acked{}
	for _, k := range keys {
		h := &acked{c.rnd.Int(), 1 + c.rnd.IntN(60_000<<(5*c.rnd.IntN(2)))}
		buf, err := st.Buffer(context.Background(), int64(h.n), 0)
		if err != nil {
			c.t.Error(err)
			continue
		}
		rest := payload(k, h.version, h.n)
		for _, part := range buf.Chunks() {
			rest = rest[copy(part, rest):]
		}
		fresh[k] = h
		time.Sleep(time.Duration(c.rnd.IntN(300)) * time.Millisecond)
		st.Add(StoreItem{Key: k, Len: int64(h.n), Buf: buf})
	}
	res, err := st.Commit()
	if err != nil {
		c.t.Error(err)
	}
	for _, x := range res {
		switch x.Status {
		case OK:
			c.has[x.Key] = fresh[x.Key]
		case Unavailable, Busy, Pinned:
		default:
			c.t.Errorf("store: %+v", x)
		}
	}
}

func (c *hangClient) load(keys []string) {
	l, err := c.r.s.Load(context.Background(), ns, keys)
	if err != nil {
		c.t.Error(err)
		return
	}
	defer l.Close()
	for range keys {
		it, _ := l.Next()
		time.Sleep(time.Duration(c.rnd.IntN(300)) * time.Millisecond)
		h := c.has[it.Key]
		switch {
		case it.Status == OK:
			if h == nil || !bytes.Equal(bytesOf(it), payload(it.Key, h.version, h.n)) {
				c.t.Errorf("load of %q: not what was stored, %+v", it.Key, h)
			}
			it.Buf.Release()
		case it.Status == Missing && h == nil, it.Status == Unavailable:
		default:
			c.t.Errorf("load, %+v is stored: %+v", h, it)
		}
	}
}

func (c *hangClient) remove(keys []string) {
	for i, x := range c.r.remove(c.rnd.IntN(2) == 0, keys...).Results {
		h := c.has[keys[i]]
		switch {
		case x.Status == OK && h != nil:
			delete(c.has, keys[i])
		case x.Status == Missing && h == nil, x.Status == Pinned && h != nil:
		default:
			c.t.Errorf("remove of %q, %+v is stored: %+v", keys[i], h, x)
		}
	}
}

func (c *hangClient) other(keys []string) {
	ctx := context.Background()
	switch c.rnd.IntN(3) {
	case 0:
		if _, err := c.r.s.Touch(ctx, ns, keys, time.Hour); err != nil {
			c.t.Error(err)
		}
	case 1:
		o := LookupOptions{Lease: &LeaseRequest{TTL: time.Duration(1+c.rnd.IntN(20)) * time.Second}}
		if _, err := c.r.s.Lookup(ctx, ns, keys, o); err != nil {
			c.t.Error(err)
		}
	case 2: // it may be under way, or the slab out of service
		_ = c.r.s.Scrub(ctx, fmt.Sprint("s", c.rnd.IntN(3)))
	}
}
