// SPDX-License-Identifier: Apache-2.0

package ioengine_test

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rawblockd/rawblockd/internal/simdev"
	"github.com/rawblockd/rawblockd/internal/testdev"
	"github.com/rawblockd/rawblockd/ioengine"
	"github.com/rawblockd/rawblockd/ioengine/enginetest"
)

// The kernel ends an op on the thread that submitted it. That thread is the engine's
// own, whoever submits: one that other goroutines share would sit in their fsyncs.
func TestOneThreadSubmits(t *testing.T) {
	dev := simdev.New(simdev.Options{Size: 64 << 20})
	ring := enginetest.NewRing(dev)
	e := ioengine.NewUringOn(dev, ring, ioengine.UringOptions{Depth: 4})
	defer closeEngine(t, e)
	var wg sync.WaitGroup
	callers := make(chan int, 8)
	for range cap(callers) {
		wg.Go(func() {
			runtime.LockOSThread() // and ends with its thread
			callers <- unix.Gettid()
			for range 20 {
				carry(t, e, opsOf(t, ioengine.Read, 9, block)) // more than the ring holds
			}
		})
	}
	wg.Wait()
	close(callers)
	threads := ring.Threads()
	if len(threads) != 1 {
		t.Errorf("submissions came from threads %v, want one", threads)
	}
	for caller := range callers {
		if threads[caller] {
			t.Errorf("thread %d is a caller's, and submits", caller)
		}
	}
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

func TestUringAllocatesPerBatchOnAFile(t *testing.T) {
	needUring(t)
	e, end := uringOn(t, testdev.File(t, 4<<20), ioengine.UringOptions{Depth: 32})
	defer end()
	wantOneAllocation(t, e, 1, 32, 512)
}

func TestUringOnAClosedFile(t *testing.T) {
	needUring(t)
	f, err := ioengine.Open(testdev.File(t, 1<<20), ioengine.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := ioengine.NewUring(f, ioengine.UringOptions{Depth: 1}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("got %v, want %v", err, os.ErrClosed)
	}
}
