// SPDX-License-Identifier: Apache-2.0

package ioengine_test

import (
	"fmt"
	"math/rand/v2"
	"runtime"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rawblockd/rawblockd/internal/simdev"
	"github.com/rawblockd/rawblockd/ioengine"
)

// The tests in this file run in fake time: a transfer takes exactly one
// service, so durations are exact numbers of services.
const service = time.Millisecond

const block = 4096

func slowDevice(o simdev.Options) *simdev.Device {
	o.Size, o.Block = 64<<20, block
	if o.Service == nil {
		o.Service = func(ioengine.Dir, int) time.Duration { return service }
	}
	return simdev.New(o)
}

// opsOf returns count ops of n bytes each, one after the other, in memory that
// they share: these tests are about time.
func opsOf(t *testing.T, dir ioengine.Dir, count int, n int64) []ioengine.Op {
	t.Helper()
	mem, free, err := ioengine.AlignedAlloc(int(n))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(free)
	ops := make([]ioengine.Op, count)
	for i := range ops {
		ops[i] = ioengine.Op{Dir: dir, Off: int64(i) * n % (32 << 20), Vec: [][]byte{mem}}
	}
	return ops
}

// timed submits a batch; the returned function waits for it and returns how
// long it took from then on.
func timed(t *testing.T, e ioengine.Engine, ops []ioengine.Op) func() time.Duration {
	t.Helper()
	begin := time.Now()
	var wg sync.WaitGroup
	wg.Add(len(ops))
	e.Submit(ops, func(i, _ int, err error) {
		if err != nil {
			t.Errorf("op %d: %v", i, err)
		}
		wg.Done()
	})
	return func() time.Duration {
		wg.Wait()
		return time.Since(begin)
	}
}

func closeEngine(t *testing.T, e ioengine.Engine) {
	t.Helper()
	if err := e.Close(); err != nil {
		t.Error(err)
	}
}

func TestBatchUsesTheWholeDepth(t *testing.T) {
	cases := []struct {
		ops, depth, parallel int
		services             time.Duration
		inFlight             int
	}{
		{ops: 1, depth: 32, services: 1, inFlight: 1},
		{ops: 32, depth: 32, services: 1, inFlight: 32},
		{ops: 33, depth: 32, services: 2, inFlight: 32},
		{ops: 128, depth: 32, services: 4, inFlight: 32},
		{ops: 128, depth: 10, services: 13, inFlight: 10},
		{ops: 128, depth: 1, services: 128, inFlight: 1},
		{ops: 128, depth: 32, parallel: 16, services: 8, inFlight: 32}, // the device is the limit
	}
	for _, c := range cases {
		for _, dir := range []ioengine.Dir{ioengine.Read, ioengine.Write} {
			name := fmt.Sprintf("%d %ss, depth %d, device %d", c.ops, dir, c.depth, c.parallel)
			t.Run(name, func(t *testing.T) {
				o := ioengine.UringOptions{Depth: c.depth}
				inFakeTime(t, simdev.Options{Parallel: c.parallel}, o, func(t *testing.T, dev *simdev.Device, e ioengine.Engine) {
					ops := opsOf(t, dir, c.ops, 1<<18)
					if got, want := timed(t, e, ops)(), c.services*service; got != want {
						t.Errorf("took %v, want %v", got, want)
					}
					if got := dev.MaxInFlight(); got != c.inFlight {
						t.Errorf("most ops on the device: got %d, want %d", got, c.inFlight)
					}
					if got := e.Stats().MaxInFlight; got != c.inFlight {
						t.Errorf("most ops in flight by the counters: got %d, want %d", got, c.inFlight)
					}
				})
			})
		}
	}
}

func TestSeparateBatchesOverlap(t *testing.T) {
	o := ioengine.UringOptions{Depth: 32}
	inFakeTime(t, simdev.Options{}, o, func(t *testing.T, _ *simdev.Device, e ioengine.Engine) {
		var waits []func() time.Duration
		for range 32 {
			waits = append(waits, timed(t, e, opsOf(t, ioengine.Read, 1, block)))
		}
		for _, wait := range waits {
			if got := wait(); got != service {
				t.Errorf("one of 32 batches of one op took %v, want %v", got, service)
			}
		}
	})
}

func TestSmallBatchBesideLargeOnes(t *testing.T) {
	cases := []struct {
		name     string
		large    int // batches of 512 before it
		dir, own ioengine.Dir
		services time.Duration
	}{
		// All four places are taken when the small batch comes; one service later
		// they are free, and at most one op of each large batch goes first.
		{"behind one", 1, ioengine.Read, ioengine.Read, 2},
		{"behind three", 3, ioengine.Read, ioengine.Read, 2},
		{"behind four", 4, ioengine.Read, ioengine.Read, 3},
		{"a store behind stores", 1, ioengine.Write, ioengine.Write, 2},
		{"a load passes stores", 9, ioengine.Write, ioengine.Read, 2},
		// Seven loads go first: three more of the next four, then four, then it.
		{"a store behind loads", 1, ioengine.Read, ioengine.Write, 3},
	}
	for _, c := range cases {
		t.Run(c.name, func(t *testing.T) {
			inFakeTime(t, simdev.Options{}, ioengine.UringOptions{Depth: 4}, func(t *testing.T, _ *simdev.Device, e ioengine.Engine) {
				for range c.large {
					timed(t, e, opsOf(t, c.dir, 512, block))
				}
				synctest.Wait()
				small := timed(t, e, opsOf(t, c.own, 1, block))
				if got, want := small(), c.services*service; got != want {
					t.Errorf("took %v, want %v", got, want)
				}
			})
		})
	}
}

func TestLargeOpIsNotPassedForever(t *testing.T) {
	o := ioengine.UringOptions{Depth: 8, InflightBytes: 8 * block}
	inFakeTime(t, simdev.Options{}, o, func(t *testing.T, _ *simdev.Device, e ioengine.Engine) {
		timed(t, e, opsOf(t, ioengine.Read, 1000, block))
		synctest.Wait()
		large := timed(t, e, opsOf(t, ioengine.Read, 1, 8*block))
		// One small op has its turn first; the large one runs when it is alone.
		if got, want := large(), 3*service; got != want {
			t.Errorf("took %v, want %v", got, want)
		}
	})
}

// starts counts what reaches the device at each instant.
type starts struct {
	mu sync.Mutex
	// +checklocks:mu
	at map[time.Time]*[2]int64
}

func (s *starts) reset() {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.at = map[time.Time]*[2]int64{}
}

func (s *starts) trace(dir ioengine.Dir, _ int64, bytes int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	now := s.at[time.Now()]
	if now == nil {
		now = new([2]int64)
		s.at[time.Now()] = now
	}
	now[dir] += int64(bytes)
}

func TestLoadsGetSevenBytesForOne(t *testing.T) {
	const depth, rounds, size = 8, 50, 1 << 17
	seen := &starts{}
	o := ioengine.UringOptions{Depth: depth}
	inFakeTime(t, simdev.Options{Trace: seen.trace}, o, func(t *testing.T, _ *simdev.Device, e ioengine.Engine) {
		begin := time.Now()
		seen.reset()
		loads, stores := opsOf(t, ioengine.Read, 7*rounds, size), opsOf(t, ioengine.Write, 3*rounds, size)
		timed(t, e, append(stores, loads...))() // in one batch: both wait from the first moment
		seen.mu.Lock()
		defer seen.mu.Unlock()
		for round := range rounds {
			got := seen.at[begin.Add(time.Duration(round)*service)]
			if want := [2]int64{7 * size, size}; got == nil || *got != want {
				t.Errorf("service %d: started %v bytes of loads and stores, want %v", round, got, want)
			}
		}
		// No load waits any more: the stores have the device to themselves.
		if got, want := *seen.at[begin.Add(rounds*service)], [2]int64{0, depth * size}; got != want {
			t.Errorf("after the last load: started %v bytes, want %v", got, want)
		}
	})
}

func TestNeverMoreInFlightThanAllowed(t *testing.T) {
	byLength := func(_ ioengine.Dir, bytes int) time.Duration { return time.Duration(bytes) }
	for seed := range uint64(10) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		o := ioengine.UringOptions{Depth: 1 + rnd.IntN(16), InflightBytes: int64(1+rnd.IntN(64)) * block}
		t.Run(fmt.Sprintf("seed %d", seed), func(t *testing.T) {
			inFakeTime(t, simdev.Options{Service: byLength}, o, func(t *testing.T, dev *simdev.Device, e ioengine.Engine) {
				rnd := rand.New(rand.NewPCG(seed, 2))
				var waits []func() time.Duration
				for range 20 {
					size := int64(1+rnd.IntN(100)) * block // often more than the whole budget
					waits = append(waits, timed(t, e, opsOf(t, ioengine.Dir(rnd.IntN(2)), 1+rnd.IntN(20), size)))
					time.Sleep(time.Duration(rnd.IntN(1 << 20))) // fake time
				}
				for _, wait := range waits {
					wait()
				}
				if got := dev.MaxInFlight(); got > o.Depth {
					t.Errorf("%d ops on the device, depth %d", got, o.Depth)
				}
				if got := dev.MaxInFlightBytes(); got > o.InflightBytes {
					t.Errorf("%d bytes on the device, budget %d", got, o.InflightBytes)
				}
				if got := e.Stats(); got.InFlightOps != 0 || got.InFlightBytes != 0 || got.QueuedOps != 0 {
					t.Errorf("idle engine counts %+v", got)
				}
			})
		})
	}
}

func TestDepthReturnsAfterALargeOp(t *testing.T) {
	o := ioengine.UringOptions{Depth: 8, InflightBytes: 8 * block}
	inFakeTime(t, simdev.Options{}, o, func(t *testing.T, _ *simdev.Device, e ioengine.Engine) {
		ops := append(opsOf(t, ioengine.Read, 1, 8*block), opsOf(t, ioengine.Read, 64, block)...)
		if got, want := timed(t, e, ops)(), 9*service; got != want {
			t.Errorf("one op of the whole budget and 64 of an eighth took %v, want %v", got, want)
		}
	})
}

func TestBudgetIsUsed(t *testing.T) {
	o := ioengine.UringOptions{Depth: 32, InflightBytes: 10 * block}
	inFakeTime(t, simdev.Options{}, o, func(t *testing.T, dev *simdev.Device, e ioengine.Engine) {
		if got, want := timed(t, e, opsOf(t, ioengine.Read, 100, block))(), 10*service; got != want {
			t.Errorf("100 blocks, 10 at a time, took %v, want %v", got, want)
		}
		if got := dev.MaxInFlightBytes(); got != 10*block {
			t.Errorf("most bytes on the device: got %d, want %d", got, 10*block)
		}
	})
}

func TestSlowDoneDoesNotHoldTheDeviceBack(t *testing.T) {
	// The budget has room for one op: it must be free while done runs.
	o := ioengine.UringOptions{Depth: 2, InflightBytes: block}
	inFakeTime(t, simdev.Options{}, o, func(t *testing.T, _ *simdev.Device, e ioengine.Engine) {
		begin := time.Now()
		var wg sync.WaitGroup
		wg.Add(2)
		e.Submit(opsOf(t, ioengine.Read, 2, block), func(int, int, error) {
			time.Sleep(service) // fake time: hashing
			wg.Done()
		})
		wg.Wait()
		if got, want := time.Since(begin), 3*service; got != want {
			t.Errorf("took %v, want %v: one transfer beside the first done", got, want)
		}
	})
}

// A done of a large op that takes very long keeps nobody else waiting.
func TestSlowDoneBesideOthers(t *testing.T) {
	const n = 1 << 20
	o := ioengine.UringOptions{Depth: 3} // a pread worker is its op's until done has returned
	inFakeTime(t, simdev.Options{}, o, func(t *testing.T, _ *simdev.Device, e ioengine.Engine) {
		slow := make(chan struct{})
		e.Submit(opsOf(t, ioengine.Read, 1, n), func(int, int, error) {
			defer close(slow)
			time.Sleep(100 * service) // fake time
		})
		time.Sleep(service + 1) // fake time
		if got := e.Stats(); got.InFlightOps != 0 || got.Ops[ioengine.Read] != 1 {
			t.Errorf("the transfer has ended, its done has not: %+v", got)
		}
		for range 3 {
			if got, want := timed(t, e, opsOf(t, ioengine.Read, 2, n))(), service; got != want {
				t.Errorf("two ops beside a slow done took %v, want %v", got, want)
			}
		}
		select {
		case <-slow:
			t.Error("they waited for the slow done")
		default:
		}
		<-slow
	})
}

// Slow dones keep nobody waiting but the workers that are at them: completions are
// booked and the ring is refilled.
func TestSlowDones(t *testing.T) {
	const mib = 1 << 20
	many := max(2, runtime.GOMAXPROCS(0))
	for name, c := range map[string]struct {
		o           ioengine.UringOptions
		first, ops  int // quick ops before; slow ops
		size, short int64
		takes       time.Duration
		answered    bool // another op's done gets a worker
	}{
		"of a small op":                   {o: ioengine.UringOptions{Depth: 3}, ops: 1, size: block, takes: service, answered: true},
		"of a large op after quick ones":  {o: ioengine.UringOptions{Depth: 4}, first: 3, ops: 1, size: mib, takes: service, answered: true},
		"of one that ends with little":    {o: ioengine.UringOptions{Depth: 3}, ops: 1, size: mib, short: mib - 64<<10, takes: 2 * service, answered: true},
		"of one larger than the budget":   {o: ioengine.UringOptions{Depth: 3, InflightBytes: 64 << 10}, ops: 1, size: mib, takes: 16 * service, answered: true},
		"of as many as there are workers": {o: ioengine.UringOptions{Depth: 2*many + 1}, ops: many, size: mib, takes: service},
	} {
		t.Run(name, func(t *testing.T) {
			inFakeTime(t, simdev.Options{}, c.o, func(t *testing.T, dev *simdev.Device, e ioengine.Engine) {
				for range c.first {
					timed(t, e, opsOf(t, ioengine.Write, 1, mib))()
				}
				if c.short > 0 {
					dev.ShortAt(c.short)
				}
				var slow sync.WaitGroup
				slow.Add(c.ops)
				e.Submit(opsOf(t, ioengine.Read, c.ops, c.size), func(int, int, error) {
					defer slow.Done()
					time.Sleep(1000 * service) // fake time
				})
				time.Sleep(c.takes + 1) // fake time
				begin := time.Now()
				wait := timed(t, e, opsOf(t, ioengine.Read, 1, block))
				time.Sleep(service + 1) // fake time
				if got := e.Stats(); got.InFlightOps != 0 || got.Ops[ioengine.Read] != uint64(c.ops+1) {
					t.Errorf("an op beside slow dones is not done: %+v", got)
				}
				wait()
				if got := time.Since(begin); c.answered && got > service+1 {
					t.Errorf("its answer took %v, want %v", got, service)
				}
				slow.Wait()
			})
		})
	}
}
