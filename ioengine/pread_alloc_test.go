// SPDX-License-Identifier: Apache-2.0

package ioengine

import (
	"fmt"
	"sync"
	"testing"
)

// nullDevice moves nothing and allocates nothing.
type nullDevice struct{}

func (nullDevice) Preadv(vec [][]byte, _ int64) (int, error)  { return int(vecLen(vec)), nil }
func (nullDevice) Pwritev(vec [][]byte, _ int64) (int, error) { return int(vecLen(vec)), nil }
func (nullDevice) Flush() error                               { return nil }
func (nullDevice) Path() string                               { return "null" }
func (nullDevice) Close() error                               { return nil }
func (nullDevice) Geometry() Geometry {
	return Geometry{Size: 1 << 40, Block: 512, MemAlign: 512, Direct: true}
}

// roundTrip returns a function that takes a batch of count ops through an
// engine and waits for it, allocating nothing itself.
func roundTrip(t testing.TB, e *Pread, count int) func() {
	mem, free, err := AlignedAlloc(4096)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(free)
	ops := make([]Op, count)
	for i := range ops {
		ops[i] = Op{Dir: Dir(i % 2), Off: int64(i) * 4096, Vec: [][]byte{mem}}
	}
	var wg sync.WaitGroup
	done := func(int, int, error) { wg.Done() }
	return func() {
		wg.Add(count)
		e.Submit(ops, done)
		wg.Wait()
	}
}

func TestSubmitAllocatesPerBatchNotPerOp(t *testing.T) {
	e := NewPread(nullDevice{}, PreadOptions{Workers: 4, InflightBytes: 1 << 20})
	defer func() { _ = e.Close() }()
	for _, count := range []int{1, 16, 512} {
		if got := testing.AllocsPerRun(50, roundTrip(t, e, count)); got > 1 {
			t.Errorf("a batch of %d ops allocates %v times, want once", count, got)
		}
	}
}

func BenchmarkPreadBatch(b *testing.B) {
	for _, workers := range []int{1, 8, 32} {
		for _, count := range []int{1, 32, 512} {
			b.Run(fmt.Sprintf("workers=%d/ops=%d", workers, count), func(b *testing.B) {
				e := NewPread(nullDevice{}, PreadOptions{Workers: workers, InflightBytes: 64 << 20})
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
