// SPDX-License-Identifier: Apache-2.0

package ioengine

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// TestPreadObserves: with one worker and ops of one second each, the k-th op has
// waited k seconds and took one; what never reached the device is not reported.
func TestPreadObserves(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const service, n = time.Second, 4
		dev := &slowDevice{service: service}
		var mu sync.Mutex
		var got []Timing
		var flushes []time.Duration
		p := NewPread(dev, PreadOptions{
			Workers: 1, Observe: func(x Timing) {
				mu.Lock()
				defer mu.Unlock()
				got = append(got, x)
			},
			ObserveFlush: func(d time.Duration) { flushes = append(flushes, d) },
		})
		ops := make([]Op, 0, n+1)
		for i := range n {
			ops = append(ops, Op{Dir: Write, Off: int64(i) * 4096, Vec: [][]byte{make([]byte, 4096)}})
		}
		ops = append(ops, Op{Dir: Write, Off: 1, Vec: [][]byte{make([]byte, 4096)}}) // unaligned
		var wg sync.WaitGroup
		wg.Add(len(ops))
		p.Submit(ops, func(int, int, error) { wg.Done() })
		wg.Wait()
		if err := p.Flush(); err != nil {
			t.Fatal(err)
		}
		if err := p.Close(); err != nil {
			t.Fatal(err)
		}
		if len(got) != n {
			t.Fatalf("%d ops observed, want %d", len(got), n)
		}
		for i, x := range got {
			want := Timing{Dir: Write, Bytes: 4096, Queued: time.Duration(i) * service, Took: service}
			if x != want {
				t.Errorf("op %d: got %+v, want %+v", i, x, want)
			}
		}
		if len(flushes) != 1 || flushes[0] != service {
			t.Errorf("flushes %v, want one of %v", flushes, service)
		}
	})
}

// slowDevice takes its time for everything and keeps nothing.
type slowDevice struct{ service time.Duration }

func (d *slowDevice) move(vec [][]byte) (int, error) {
	time.Sleep(d.service) // fake time
	return int(vecLen(vec)), nil
}

func (d *slowDevice) Preadv(vec [][]byte, _ int64) (int, error)  { return d.move(vec) }
func (d *slowDevice) Pwritev(vec [][]byte, _ int64) (int, error) { return d.move(vec) }

func (d *slowDevice) Flush() error {
	time.Sleep(d.service) // fake time
	return nil
}

func (d *slowDevice) Geometry() Geometry { return Geometry{Size: 1 << 20, Block: 512, MemAlign: 1} }
func (d *slowDevice) Path() string       { return "slow" }
func (d *slowDevice) Close() error       { return nil }
