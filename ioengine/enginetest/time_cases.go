// SPDX-License-Identifier: Apache-2.0

package enginetest

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rawblockd/rawblockd/internal/simdev"
	"github.com/rawblockd/rawblockd/ioengine"
)

// OpenDeep starts an engine that can have exactly depth ops on dev at once, however
// many bytes they have. The suite closes it.
type OpenDeep func(dev ioengine.Device, depth int) ioengine.Engine

// RunInFakeTime tests when an engine answers, on simulated devices that take a known
// time.
func RunInFakeTime(t *testing.T, open OpenDeep) {
	for _, dir := range []ioengine.Dir{ioengine.Read, ioengine.Write} {
		t.Run(dir.String()+"s", func(t *testing.T) {
			t.Run("a slow op keeps no other waiting", func(t *testing.T) { testRefill(t, open, dir) })
			t.Run("done submits the next op", func(t *testing.T) { testChains(t, open, dir) })
			t.Run("layouts of one load", func(t *testing.T) { testLayouts(t, open, dir) })
			t.Run("the gain of a batch", func(t *testing.T) { testGain(t, open, dir) })
			t.Run("one key beside large batches", func(t *testing.T) { testSmallBesideLarge(t, open, dir) })
			t.Run("one of 32 hangs", func(t *testing.T) { testDeadline(t, open, dir) })
		})
	}
	t.Run("deep batches with faults", func(t *testing.T) {
		inBubble(t, open, simdev.Options{Size: DeviceSize}, testDeepWithFaults)
	})
}

const (
	// fullDepth is how many ops the engines of these cases have on the device at once.
	fullDepth = 32
	// bandwidth moves 4 KiB in a microsecond.
	bandwidth = 4 * kib * 1e6
	// ofPeak is how much of what the device can do an engine has to reach.
	ofPeak = 0.98
)

// inBubble runs a test in fake time, on a device and an engine of its own.
func inBubble(t *testing.T, open OpenDeep, o simdev.Options, test func(r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		deep := func(_ *testing.T, dev ioengine.Device) ioengine.Engine { return open(dev, fullDepth) }
		test(newRig(t, simdev.New(o), deep))
	})
}

func takes(d time.Duration) func(ioengine.Dir, int) time.Duration {
	return func(ioengine.Dir, int) time.Duration { return d }
}

// balanced is a device that needs the full depth of ops of n bytes for its bandwidth,
// and gains nothing by more.
func balanced(n int64) simdev.Options {
	return simdev.Options{Size: DeviceSize, Bandwidth: bandwidth, Service: takes(fullDepth * time.Duration(n) * time.Second / bandwidth)}
}

// shared returns ops that share one buffer, and places on the device where they are
// many: these cases are about time.
func shared(dir ioengine.Dir, count int, mem []byte) []ioengine.Op {
	ops := make([]ioengine.Op, count)
	for i := range ops {
		ops[i] = ioengine.Op{Dir: dir, Off: int64(i * len(mem) % DeviceSize), Vec: [][]byte{mem}}
	}
	return ops
}

// timed returns how long an action took.
func timed(action func()) time.Duration {
	begin := time.Now()
	action()
	return time.Since(begin)
}

// reaches checks a time against the least that the device allows.
func (r *rig) reaches(what string, took, bound time.Duration) {
	r.Helper()
	if float64(bound) < ofPeak*float64(took) {
		r.Errorf("%s took %v, %.3f of what the device can do, want at least %v: it can in %v", what, took, float64(bound)/float64(took), ofPeak, bound)
	}
}

// An op that is slow takes one place of the depth, and the others go on: there is no
// waiting for the last of a group.
func testRefill(t *testing.T, open OpenDeep, dir ioengine.Dir) {
	const slow = 10
	o := simdev.Options{Size: DeviceSize, Service: func(_ ioengine.Dir, n int) time.Duration {
		if n > 4*kib {
			return slow * time.Millisecond
		}
		return time.Millisecond
	}}
	inBubble(t, open, o, func(r *rig) {
		ops := append(shared(dir, 1, r.mem(8*kib)), shared(dir, slow*(fullDepth-1), r.mem(4*kib))...)
		if got, want := timed(func() { r.whole(ops, r.do(ops...)) }), slow*time.Millisecond; got != want {
			r.Errorf("one slow op and %d others: took %v, want %v", len(ops)-1, got, want)
		}
	})
}

// Callers with one op after the other, each submitted by the done of the one before:
// none of them is left lying for a moment.
func testChains(t *testing.T, open OpenDeep, dir ioengine.Dir) {
	const links, service = 100, time.Millisecond
	for callers, services := range map[int]time.Duration{1: links, fullDepth: links, 2 * fullDepth: 2 * links} {
		inBubble(t, open, simdev.Options{Size: DeviceSize, Service: takes(service)}, func(r *rig) {
			op := shared(dir, 1, r.mem(4*kib))
			var all sync.WaitGroup
			all.Add(callers)
			took := timed(func() {
				for range callers {
					left := links
					var next ioengine.Done
					next = func(_, _ int, err error) {
						if err != nil {
							r.Error(err)
						}
						if left--; left == 0 {
							all.Done()
							return
						}
						r.engine.Submit(op, next)
					}
					r.engine.Submit(op, next)
				}
				all.Wait()
			})
			if want := services * service; took != want {
				r.Errorf("%d callers of %d ops each took %v, want %v", callers, links, took, want)
			}
		})
	}
}

// C1: how a load of many large keys is divided into batches does not matter.
func testLayouts(t *testing.T, open OpenDeep, dir ioengine.Dir) {
	const keys, pieces = 32, 24
	piece := 1 << 20
	if dir == ioengine.Write {
		piece = 128 * kib // a simulated device writes slowly, and the schedule is the same
	}
	o := balanced(int64(piece))
	took := map[int]time.Duration{}
	for _, batches := range []int{1, 8, 32} {
		inBubble(t, open, o, func(r *rig) {
			mem := r.mem(int64(piece))
			took[batches] = timed(func() {
				var all []*answers
				for range batches {
					all = append(all, r.submit(shared(dir, keys/batches*pieces, mem)))
				}
				for _, a := range all {
					r.whole(a.ops, a.wait())
				}
			})
			r.reaches(fmt.Sprintf("%d batches of %d keys", batches, keys/batches), took[batches], o.Bound(dir, keys*pieces, piece, fullDepth))
			if got := r.sim().MaxInFlight(); got != fullDepth {
				r.Errorf("%d batches of %d keys: %d ops on the device at once, want %d", batches, keys/batches, got, fullDepth)
			}
		})
	}
	best := min(took[1], took[8], took[32])
	for batches, d := range took {
		if float64(d) > 1.05*float64(best) {
			t.Errorf("%d batches took %v, the best layout %v, want within 5 %%", batches, d, best)
		}
	}
}

// P4: a caller with one batch of 32 after the other has all that the device gains by
// having as many at once.
func testGain(t *testing.T, open OpenDeep, dir ioengine.Dir) {
	const rounds = 10
	for _, n := range []int{4 * kib, 64 * kib, 1 << 20} {
		o := simdev.Options{Size: DeviceSize, Bandwidth: bandwidth, Service: takes(100 * time.Microsecond)}
		inBubble(t, open, o, func(r *rig) {
			ops := shared(dir, fullDepth, r.mem(int64(n)))
			took := timed(func() {
				for range rounds {
					r.whole(ops, r.do(ops...))
				}
			})
			r.reaches(fmt.Sprintf("batches of %d × %d bytes", fullDepth, n), took, rounds*o.Bound(dir, fullDepth, n, fullDepth))
			one := timed(func() {
				for i := range ops {
					r.whole(ops[i:i+1], r.do(ops[i]))
				}
			})
			r.reaches(fmt.Sprintf("%d bytes, one at a time", n), one, fullDepth*o.Bound(dir, 1, n, 1))
		})
	}
}

// P12: a load of one key beside batches of 512 waits for no more than its turn. dir is
// theirs.
func testSmallBesideLarge(t *testing.T, open OpenDeep, dir ioengine.Dir) {
	const key, large, loads = 64 * kib, 3, 100
	o := balanced(key)
	inBubble(t, open, o, func(r *rig) {
		mem := r.mem(key)
		one := shared(ioengine.Read, 1, mem)
		load := func() time.Duration { return timed(func() { r.whole(one, r.do(one...)) }) }
		idle := load()
		stop, ended := make(chan struct{}), sync.WaitGroup{}
		for range large {
			ops := shared(dir, 512, mem)
			ended.Go(func() {
				for {
					select {
					case <-stop:
						return
					default:
						r.whole(ops, r.do(ops...))
					}
				}
			})
		}
		rnd := rand.New(rand.NewPCG(1, 2))
		var took []time.Duration
		for range loads {
			time.Sleep(time.Duration(rnd.Int64N(int64(idle)))) // fake time
			took = append(took, load())
		}
		close(stop)
		ended.Wait()
		slices.Sort(took)
		if p99 := took[loads*99/100-1]; p99 > 5*idle {
			r.Errorf("p99 %v, idle %v, want at most 5 times that", p99, idle)
		}
	})
}

// C3, the engine's half: at the deadline the 31 others are known, and the op that hangs
// has cost a place of the depth and nothing else.
func testDeadline(t *testing.T, open OpenDeep, dir ioengine.Dir) {
	const deadline, service, hangs = 200 * time.Millisecond, time.Millisecond, 13
	inBubble(t, open, simdev.Options{Size: DeviceSize, Service: takes(service)}, func(r *rig) {
		ops := r.batch(dir, fullDepth, 4*kib, 1)
		release := r.sim().Hang(ops[hangs].Off, r.block)
		defer release()
		ctx, cancel := context.WithTimeout(context.Background(), deadline)
		defer cancel()
		late := make(chan int, fullDepth)
		var results []ioengine.Result
		took := timed(func() {
			results = ioengine.DoLate(ctx, r.engine, ops, func(i int, _ ioengine.Result) { late <- i })
		})
		if took != deadline {
			r.Errorf("took %v, want the deadline of %v", took, deadline)
		}
		if res := results[hangs]; !res.Detached || !errors.Is(res.Err, context.DeadlineExceeded) {
			r.Errorf("the op that hangs: got %+v, want detached, %v", res, context.DeadlineExceeded)
		}
		others := slices.Delete(slices.Clone(ops), hangs, hangs+1)
		r.whole(others, slices.Delete(results, hangs, hangs+1))
		if got := r.engine.Stats().OldestOp; got != deadline {
			r.Errorf("the op that hangs is %v old, want %v", got, deadline)
		}
		for _, c := range []struct {
			count int
			want  time.Duration
		}{{31, service}, {32, 2 * service}} { // elsewhere: the device serves on
			serves := shared(dir, c.count, r.mem(4*kib))
			for i := range serves {
				serves[i].Off += 1 << 20
			}
			if got := timed(func() { r.whole(serves, r.do(serves...)) }); got != c.want {
				r.Errorf("%d ops beside the one that hangs took %v, want %v", c.count, got, c.want)
			}
		}
		release()
		if i := <-late; i != hangs || len(late) != 0 {
			r.Errorf("late answers: op %d and %d more, want %d alone", i, len(late), hangs)
		}
		if got := timed(func() { r.whole(others, r.do(others...)) }); got != service {
			r.Errorf("after the hang: took %v, want %v", got, service)
		}
	})
}
