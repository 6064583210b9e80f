// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// A reader that loses its connection again and again has been told, in the end, each
// event of its view once and in order, whatever others did meanwhile.
func TestResumeIsExact(t *testing.T) {
	r := newRig(t, func(o *rigOptions) {
		o.slotSize, o.slots, o.payload, o.spaces = 4096, 64, 64<<10, []Namespace{{Name: ns}, {Name: "other"}, {Name: "third"}}
	})
	r.s.events.steps = 3
	truth := r.feed("", 0)
	drain(t, truth)
	stop := make(chan struct{})
	readers := []*returning{{space: ns}, {space: "other"}, {space: "default,other"}, {space: "other,third"}, {space: ""}}
	var reading, writing sync.WaitGroup
	for i, b := range readers {
		f := r.feed(b.space, 0)
		drain(t, f)
		b.since = f.Seen()
		f.Close()
		reading.Go(func() {
			if err := b.read(r, rand.New(rand.NewPCG(21, uint64(i))), stop); err != nil {
				t.Errorf("of %q: %v", b.space, err)
			}
		})
	}
	for i := range 3 {
		writing.Go(func() { r.change(rand.New(rand.NewPCG(22, uint64(i))), 300) })
	}
	writing.Wait()
	r.await()
	close(stop)
	reading.Wait()
	var all []Event
	for {
		ev, err := truth.Next(ended())
		if err != nil {
			break
		}
		all = append(all, ev)
	}
	for _, b := range readers {
		var want []string
		for _, ev := range all {
			if viewOf(b.space).has(ev.Namespace) {
				ev.Seq = uint64(len(want) + 1)
				want = append(want, tellEvent(ev))
			}
		}
		if d := cmp.Diff(want, b.told); d != "" {
			t.Errorf("%q came %d times and was told something else:\n%s", b.space, b.times, d)
		}
		if b.times < 10 {
			t.Errorf("%q came %d times: the test shows nothing", b.space, b.times)
		}
		t.Logf("%q: %d events in %d feeds", b.space, len(b.told), b.times)
	}
}

// returning is a reader that leaves and comes back.
type returning struct {
	space string
	since uint64
	times int
	told  []string // with numbers from 1
}

// read comes and goes until stop, and then until there is nothing left.
func (b *returning) read(r *rig, rng *rand.Rand, stop <-chan struct{}) error {
	start := b.since
	for left := -1; left != 0; b.times++ {
		last := false
		select {
		case <-stop:
			last = true
		default:
			runtime.Gosched()
		}
		f, err := r.s.Events(context.Background(), viewOf(b.space), b.since)
		if err != nil {
			return err
		}
		if f.reading {
			return fmt.Errorf("since %d: a snapshot", b.since)
		}
		left = -1
		for n := rng.IntN(20); n > 0 && left != 0; n-- {
			ev, err := f.Next(ended())
			switch {
			case errors.Is(err, context.Canceled):
				n = 1
				if last {
					left = 0
				}
				continue
			case err != nil:
				return err
			case ev.Kind == EventStored || ev.Kind == EventRemoved:
				b.since = ev.Seq
				ev.Seq -= start
				b.told = append(b.told, tellEvent(ev))
			case ev.Kind != EventSynced || ev.Seq != b.since:
				return fmt.Errorf("%s after %d", tellEvent(ev), b.since)
			}
			if f.Seen() != b.since {
				return fmt.Errorf("seen %d after %d", f.Seen(), b.since)
			}
		}
		f.Close()
	}
	return nil
}
