// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

// A lease in force is found by its id alone; what is no lease is not.
func TestLeaseByID(t *testing.T) {
	r := newRig(t)
	r.mustStore(1000, "a", "b")
	l := r.pin("a", "b")
	got, err := r.s.LeaseByID(l.ID)
	if err != nil || got != *l {
		t.Errorf("%+v %v, want %+v", got, err, *l)
	}
	if _, err := r.s.LeaseByID("feed"); !errors.Is(err, ErrNoLease) {
		t.Errorf("unknown id: %v", err)
	}
	r.clock.Add(int64(l.TTL)) // ended; the sweeper has not come yet
	if _, err := r.s.LeaseByID(l.ID); !errors.Is(err, ErrNoLease) {
		t.Errorf("at its end: %v", err)
	}
}

// A renewed lease ends later, or sooner if that was asked for, never later than
// the longest time, and its pins hold until then and no longer.
func TestRenew(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *rigOptions) { o.realTime, o.interval = true, 1000*time.Hour })
		defer r.end()
		r.mustStore(1000, "a")
		l := r.pin("a") // 30 s
		for range 3 {
			time.Sleep(20 * time.Second)
			if _, err := r.s.Renew(context.Background(), l.ID, 0); err != nil {
				t.Fatal(err)
			}
		}
		time.Sleep(29 * time.Second)
		synctest.Wait()
		if got := r.remove(false, "a"); got.Results[0].Status != Pinned {
			t.Errorf("29 s after the last renewal of a lease of 30 s: %v", got.Results[0].Status)
		}
		long, err := r.s.Renew(context.Background(), l.ID, time.Hour)
		if want := time.Now().Add(10 * time.Minute); err != nil || !long.ExpiresAt.Equal(want) || long.TTL != 10*time.Minute {
			t.Errorf("for an hour: %+v %v, want the longest time, to %v", long, err, want)
		}
		time.Sleep(9 * time.Minute)
		synctest.Wait()
		if got := r.s.Status(); got.Pins != 1 || got.Leases != 1 {
			t.Errorf("before its end: %+v", got)
		}
		short, err := r.s.Renew(context.Background(), l.ID, time.Second)
		if want := time.Now().Add(time.Second); err != nil || !short.ExpiresAt.Equal(want) {
			t.Errorf("for a second: %+v %v, want it to end at %v", short, err, want)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := r.s.Status(); got.Pins != 0 || got.Leases != 0 {
			t.Errorf("after its end: %+v", got)
		}
		if got := r.remove(false, "a"); got.Removed != 1 {
			t.Errorf("its entry: %+v", got.Results)
		}
	})
}

// The order of ends is kept however leases are renewed.
func TestRenewKeepsTheOrderOfEnds(t *testing.T) {
	r := newRig(t)
	keys := names(8)
	r.mustStore(10, keys...)
	ids := make([]string, len(keys))
	for i, k := range keys {
		ids[i] = r.pin(k).ID
	}
	for i, n := range []int{50, 10, 40, 80, 20, 70, 30, 60} { // seconds, one lease after the other
		if _, err := r.s.Renew(context.Background(), ids[i], time.Duration(n)*time.Second); err != nil {
			t.Fatal(err)
		}
	}
	for left := 7; left >= 0; left-- {
		r.clock.Add(int64(10 * time.Second))
		r.s.sweepLeases()
		if got := r.s.Status(); got.Leases != left || got.Pins != int64(left) {
			t.Fatalf("%d leases and %d pins, want %d", got.Leases, got.Pins, left)
		}
	}
}

// What has ended is not renewed, and nothing comes back to life by it.
func TestRenewOfAnEndedLease(t *testing.T) {
	r := newRig(t)
	r.mustStore(1000, "a", "b")
	given, ended := r.pin("a"), r.pin("b")
	if _, _, err := r.s.Release(given.ID); err != nil {
		t.Fatal(err)
	}
	r.clock.Add(int64(ended.TTL))
	for what, lease := range map[string]string{"given back": given.ID, "ended, not swept": ended.ID, "unknown": "feed", "empty": ""} {
		if l, err := r.s.Renew(context.Background(), lease, time.Minute); !errors.Is(err, ErrNoLease) {
			t.Errorf("%s: %+v %v", what, l, err)
		}
	}
	r.sweep()
	if got := r.s.Status(); got.Pins != 0 || got.Leases != 0 {
		t.Errorf("%+v", got)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	l := r.pin("a")
	if _, err := r.s.Renew(ctx, l.ID, time.Minute); !errors.Is(err, context.Canceled) {
		t.Errorf("by a caller that has left: %v", err)
	}
	if got, err := r.s.LeaseByID(l.ID); err != nil || got != *l {
		t.Errorf("after that: %+v %v, want %+v", got, err, *l)
	}
}

// Release gives back a whole lease in whatever namespace, once.
func TestReleaseTwice(t *testing.T) {
	r := newRig(t, func(o *rigOptions) { o.spaces = []Namespace{{Name: ns}, {Name: "other"}} })
	r.mustStore(1000, "a", "b", "c")
	l := r.pin("a", "b", "c")
	if got := r.remove(true, "b"); got.Removed != 1 {
		t.Fatal(got)
	}
	if released, stale, err := r.s.Release(l.ID); released != 2 || stale != 1 || err != nil {
		t.Errorf("first: %d released, %d stale, %v", released, stale, err)
	}
	if got := r.metric(r.s.metrics.stalePins).GetCounter().GetValue(); got != 1 {
		t.Errorf("%v stale pins counted", got)
	}
	if released, stale, err := r.s.Release(l.ID); released != 0 || stale != 0 || !errors.Is(err, ErrNoLease) {
		t.Errorf("second: %d released, %d stale, %v", released, stale, err)
	}
	if got := r.remove(false, "a", "c"); got.Removed != 2 {
		t.Errorf("what it protected: %+v", got.Results)
	}
	if got := r.s.Status(); got.Pins != 0 || got.Leases != 0 {
		t.Errorf("%+v", got)
	}
}

// C10: a client takes leases with its lookups, renews one, and is killed. When
// their time is over nothing is pinned and every key can go.
func TestLeasesOfAClientThatIsGone(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *rigOptions) { o.realTime, o.interval = true, 1000*time.Hour })
		defer r.end()
		keys := names(30)
		r.mustStore(1000, keys...)
		var last string
		for i := range 10 {
			res, err := r.s.Lookup(context.Background(), ns, keys[:3*(i+1)], LookupOptions{Lease: &LeaseRequest{TTL: 5 * time.Second, Owner: fmt.Sprint("engine ", i)}})
			if err != nil || res.Lease == nil {
				t.Fatalf("%+v %v", res, err)
			}
			last = res.Lease.ID
			time.Sleep(100 * time.Millisecond)
		}
		if _, err := r.s.Renew(context.Background(), last, 8*time.Second); err != nil {
			t.Fatal(err)
		}
		time.Sleep(7 * time.Second)
		synctest.Wait()
		if got := r.s.Status(); got.Leases != 1 || got.Pins != 30 {
			t.Errorf("while the renewed one lasts: %d leases, %d pins", got.Leases, got.Pins)
		}
		time.Sleep(time.Second)
		synctest.Wait()
		if got := r.s.Status(); got.Leases != 0 || got.Pins != 0 || got.Namespaces[0].Pinned != 0 {
			t.Errorf("after their time: %+v", got)
		}
		if got := r.remove(false, keys...); got.Removed != len(keys) {
			t.Errorf("%d of %d keys could go", got.Removed, len(keys))
		}
	})
}

// A lease lasts as long as was asked for, the default if nothing was, and never longer
// than the longest time, whichever way it was taken.
func TestLeaseTimes(t *testing.T) {
	r := newRig(t)
	r.mustStore(1000, "a")
	for asked, want := range map[time.Duration]time.Duration{
		0: 30 * time.Second, -time.Second: 30 * time.Second, time.Millisecond: time.Millisecond, 10 * time.Minute: 10 * time.Minute,
		10*time.Minute + 1: 10 * time.Minute, 1000 * time.Hour: 10 * time.Minute,
	} {
		pinned, err := r.s.Pin(context.Background(), ns, []string{"a"}, LeaseRequest{TTL: asked})
		if err != nil {
			t.Fatal(err)
		}
		found, err := r.s.Lookup(context.Background(), ns, []string{"a"}, LookupOptions{Lease: &LeaseRequest{TTL: asked}})
		if err != nil {
			t.Fatal(err)
		}
		for how, l := range map[string]*Lease{"pin": pinned.Lease, "lookup": found.Lease} {
			if l.TTL != want || !l.ExpiresAt.Equal(r.now().Add(want)) {
				t.Errorf("%s for %v: %v, until %v; want %v from %v", how, asked, l.TTL, l.ExpiresAt, want, r.now())
			}
			if _, _, err := r.s.Release(l.ID); err != nil {
				t.Error(err)
			}
		}
	}
}
