// SPDX-License-Identifier: Apache-2.0

package ioengine_test

import (
	"fmt"
	"os"
	"sync"
	"testing"

	"github.com/rawblockd/rawblockd/ioengine"
	"github.com/rawblockd/rawblockd/ioengine/internal/ring"
)

// nullDevice moves nothing and allocates nothing.
type nullDevice struct{}

func moved(vec [][]byte) int {
	n := 0
	for _, part := range vec {
		n += len(part)
	}
	return n
}

func (nullDevice) Preadv(vec [][]byte, _ int64) (int, error)  { return moved(vec), nil }
func (nullDevice) Pwritev(vec [][]byte, _ int64) (int, error) { return moved(vec), nil }
func (nullDevice) Flush() error                               { return nil }
func (nullDevice) Path() string                               { return "null" }
func (nullDevice) Close() error                               { return nil }
func (nullDevice) Geometry() ioengine.Geometry {
	return ioengine.Geometry{Size: 1 << 40, Block: 512, MemAlign: 512, Direct: true}
}

// nullRing completes everything at once, and allocates nothing once it is warm.
type nullRing struct {
	mu sync.Mutex
	// +checklocks:mu
	changed sync.Cond
	// +checklocks:mu
	completions []ring.Completion
	// +checklocks:mu
	closed bool
}

func (r *nullRing) Submit(entries []ring.Entry) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for i := range entries {
		r.completions = append(r.completions, ring.Completion{User: entries[i].User, Res: int32(moved(entries[i].Vec))})
	}
	r.changed.Signal()
	return len(entries), nil
}

func (r *nullRing) Reap(into []ring.Completion) (int, error) {
	r.mu.Lock()
	defer r.mu.Unlock()
	for len(r.completions) == 0 {
		if r.closed {
			return 0, os.ErrClosed
		}
		r.changed.Wait()
	}
	n := copy(into, r.completions)
	r.completions = r.completions[:copy(r.completions, r.completions[n:])]
	return n, nil
}

func (r *nullRing) Close() error {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.closed = true
	r.changed.Broadcast()
	return nil
}

// nullEngines is every engine on nothing.
func nullEngines() map[string]opener {
	all := engines()
	all["uring"] = func(dev ioengine.Device, o ioengine.UringOptions) ioengine.Engine {
		r := &nullRing{}
		r.mu.Lock()
		defer r.mu.Unlock()
		r.changed.L = &r.mu
		return ioengine.NewUringOn(dev, r, o)
	}
	return all
}

// roundTrip returns a function that takes a batch of count ops through an
// engine and waits for it, allocating nothing itself.
func roundTrip(t testing.TB, e ioengine.Engine, count int) func() {
	mem, free, err := ioengine.AlignedAlloc(block)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(free)
	ops := make([]ioengine.Op, count)
	for i := range ops {
		ops[i] = ioengine.Op{Dir: ioengine.Dir(i % 2), Off: int64(i) * block, Vec: [][]byte{mem}}
	}
	var wg sync.WaitGroup
	done := func(int, int, error) { wg.Done() }
	return func() {
		wg.Add(count)
		e.Submit(ops, done)
		wg.Wait()
	}
}

func wantOneAllocation(t *testing.T, e ioengine.Engine, counts ...int) {
	t.Helper()
	for _, count := range counts {
		run := roundTrip(t, e, count)
		for range 10 {
			run() // queues reach their length
		}
		if got := testing.AllocsPerRun(50, run); got > 1 {
			t.Errorf("a batch of %d ops allocates %v times, want once", count, got)
		}
	}
}

func TestSubmitAllocatesPerBatchNotPerOp(t *testing.T) {
	for name, open := range nullEngines() {
		t.Run(name, func(t *testing.T) {
			e := open(nullDevice{}, ioengine.UringOptions{Depth: 32, InflightBytes: 1 << 20})
			defer closeEngine(t, e)
			wantOneAllocation(t, e, 1, 16, 32, 33, 512)
		})
	}
}

func BenchmarkBatch(b *testing.B) {
	for name, open := range nullEngines() {
		for _, depth := range []int{1, 8, 32} {
			for _, count := range []int{1, 32, 512} {
				b.Run(fmt.Sprintf("%s/depth=%d/ops=%d", name, depth, count), func(b *testing.B) {
					e := open(nullDevice{}, ioengine.UringOptions{Depth: depth, InflightBytes: 64 << 20})
					defer func() { _ = e.Close() }()
					run := roundTrip(b, e, count)
					b.ReportAllocs()
					for b.Loop() {
						run()
					}
					b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N)/float64(count), "ns/op-of-batch")
				})
			}
		}
	}
}
