// SPDX-License-Identifier: Apache-2.0

package killtest

import (
	"context"
	"flag"
	"fmt"
	"math/rand/v2"
	"sync"
	"sync/atomic"
	"testing"

	"go.uber.org/goleak"

	"github.com/rawblockd/rawblockd/ioengine"
)

var (
	killsFlag  = flag.Int("kills", 50, "how often the daemon is killed")
	binaryFlag = flag.String("binary", "", "rawblockd to kill; empty: build it")
	engineFlag = flag.String("engine", "both", "pread, uring, or both in turn")
	seedFlag   = flag.Uint64("seed", 1, "of the order of operations and the moments of the kills")
)

// TestKill kills the daemon in the middle of stores and removes. After each
// start acknowledged stores must load byte-exact, acknowledged removes must
// stay, and the slots' states must add up.
func TestKill(t *testing.T) {
	defer goleak.VerifyNone(t)
	kills := *killsFlag
	if testing.Short() {
		kills = min(kills, 5)
	}
	engines := enginesFor(t)
	r := newRig(t, *binaryFlag)
	rng := rand.New(rand.NewPCG(*seedFlag, 0))
	c := r.client(t)
	defer c.Close()
	var acked atomic.Int64
	var ws []*writer
	for i := range writers {
		w := &writer{client: c, rng: rand.New(rand.NewPCG(*seedFlag, uint64(i)+1)), acked: &acked}
		for k := range keysPerWriter {
			w.entries = append(w.entries, &entry{key: fmt.Sprintf("writer-%d/key-%d", i, k)})
		}
		ws = append(ws, w)
	}
	var total counts
	for i := range kills {
		engine := engines[i%len(engines)]
		d := r.start(t, engine)
		verify(t, r, engine, ws, &total)
		workUntil(ws, &acked, 5+rng.Int64N(60), func() { d.kill(t) })
	}
	engine := engines[kills%len(engines)]
	d := r.start(t, engine)
	verify(t, r, engine, ws, &total)
	d.kill(t)
	total.acknowledged = acked.Load()
	fmt.Printf("kill: kills=%d engines=%v %v\n", kills, engines, &total)
	if total.faults() > 0 {
		t.Errorf("%d faults", total.faults())
	}
}

// enginesFor returns the engines that the lives of the daemon have in turn: what one
// wrote the other must find.
func enginesFor(t *testing.T) []string {
	t.Helper()
	switch *engineFlag {
	case "pread", "uring":
		return []string{*engineFlag}
	case "both":
		if err := ioengine.ProbeUring(1); err != nil {
			t.Logf("on pread alone: %v", err)
			return []string{"pread"}
		}
		return []string{"uring", "pread"}
	}
	t.Fatalf("-engine %s: want pread, uring or both", *engineFlag)
	return nil
}

// workUntil lets the writers work until more operations were acknowledged, then
// kills the daemon under them and waits for the writers.
func workUntil(ws []*writer, acked *atomic.Int64, more int64, kill func()) {
	target := acked.Load() + more
	reached := make(chan struct{})
	var once sync.Once
	var wg sync.WaitGroup
	for _, w := range ws {
		wg.Go(func() {
			w.run(context.Background(), func() {
				if acked.Load() >= target {
					once.Do(func() { close(reached) })
				}
			})
			once.Do(func() { close(reached) }) // a writer that gave up must not hang the test
		})
	}
	<-reached
	kill()
	wg.Wait()
}

// verify compares what the daemon serves with the journal, and its slots with
// what it serves.
func verify(t *testing.T, r *rig, engine string, ws []*writer, total *counts) {
	t.Helper()
	ctx := t.Context()
	status, err := ws[0].client.Status(ctx)
	if err != nil {
		t.Fatalf("status after a kill: %v\n%s", err, r.tail())
	}
	if e := status.Slabs[0].Engine; e == nil || e.Name != engine {
		t.Fatalf("the engine is %+v, want %s", e, engine)
	}
	s := status.Slabs[0].Slots
	sum := s.Free + s.Reserved + s.Used + s.Deleting + s.Retired + s.Quarantined
	if sum != s.Total || s.Total == 0 || s.Reserved+s.Deleting+s.Retired+s.Quarantined != 0 {
		total.states++
		t.Errorf("slots after a kill: %+v", s)
	}
	for _, w := range ws {
		if err := w.check(ctx, total, t.Errorf); err != nil {
			t.Fatalf("%v\n%s", err, r.tail())
		}
	}
	if used := usedSlots(ws); used != int64(s.Used) {
		total.states++
		t.Errorf("%d slots are used after a kill, the entries need %d", s.Used, used)
	}
}

// usedSlots is what the journal's entries occupy.
func usedSlots(ws []*writer) int64 {
	const slot = 256 << 10
	n := int64(0)
	for _, w := range ws {
		for _, e := range w.entries {
			if e.version > 0 {
				n += (int64(len(payload(e.key, e.version))) + slot - 1) / slot
			}
		}
	}
	return n
}
