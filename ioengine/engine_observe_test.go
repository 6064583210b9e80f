// SPDX-License-Identifier: Apache-2.0

package ioengine_test

import (
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rawblockd/rawblockd/internal/simdev"
	"github.com/rawblockd/rawblockd/ioengine"
)

// TestObserves: with a depth of one, the k-th op has waited k services and took one;
// what never reached the device is not reported.
func TestObserves(t *testing.T) {
	for name, open := range engines() {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) { testObserves(t, open) })
		})
	}
}

func testObserves(t *testing.T, open opener) {
	const n = 4
	var mu sync.Mutex
	var got []ioengine.Timing
	var flushes []time.Duration
	e := open(slowDevice(simdev.Options{FlushTime: 5 * service}), ioengine.UringOptions{
		Depth: 1, Observe: func(x ioengine.Timing) {
			mu.Lock()
			defer mu.Unlock()
			got = append(got, x)
		},
		ObserveFlush: func(d time.Duration) { flushes = append(flushes, d) },
	})
	ops := opsOf(t, ioengine.Write, n+1, block)
	ops[n].Off++ // unaligned
	var wg sync.WaitGroup
	wg.Add(len(ops))
	e.Submit(ops, func(int, int, error) { wg.Done() })
	wg.Wait()
	if err := e.Flush(); err != nil {
		t.Fatal(err)
	}
	closeEngine(t, e)
	if len(got) != n {
		t.Fatalf("%d ops observed, want %d", len(got), n)
	}
	for i, x := range got {
		want := ioengine.Timing{Dir: ioengine.Write, Bytes: block, Queued: time.Duration(i) * service, Took: service}
		if x != want {
			t.Errorf("op %d: got %+v, want %+v", i, x, want)
		}
	}
	if len(flushes) != 1 || flushes[0] != 5*service {
		t.Errorf("flushes %v, want one of %v", flushes, 5*service)
	}
}
