// SPDX-License-Identifier: Apache-2.0

package ioengine_test

import (
	"bytes"
	"context"
	"errors"
	"testing"

	"github.com/rawblockd/rawblockd/internal/simdev"
	"github.com/rawblockd/rawblockd/ioengine"
)

// What the caller does to its slice after Do has returned must not reach an op
// that still waits for its turn.
func TestDoGivesTheOpsBack(t *testing.T) {
	dev := simdev.New(simdev.Options{Size: 16 * block, Block: block})
	dev.Poke(block, bytes.Repeat([]byte{1}, block))
	e := ioengine.NewPread(dev, ioengine.PreadOptions{Workers: 1})
	defer closeEngine(t, e)
	release := dev.Hang(0, block)
	defer release()

	mem, free, err := ioengine.AlignedAlloc(2 * block)
	if err != nil {
		t.Fatal(err)
	}
	defer free()
	ctx, cancel := context.WithCancel(t.Context())
	go func() {
		dev.AwaitInFlight(1)
		cancel()
	}()
	ops := []ioengine.Op{{Vec: [][]byte{mem[:block]}}, {Off: block, Vec: [][]byte{mem[block:]}}}
	late := make(chan ioengine.Result, 2)
	results := ioengine.DoLate(ctx, e, ops, func(_ int, r ioengine.Result) { late <- r })
	for i, res := range results {
		if !res.Detached || !errors.Is(res.Err, context.Canceled) {
			t.Errorf("op %d: got %+v, want detached", i, res)
		}
	}
	ops[1] = ioengine.Op{Dir: ioengine.Write, Off: 8 * block, Vec: [][]byte{mem[:block]}}
	release()
	for range ops {
		if res := <-late; res.Err != nil || res.N != block {
			t.Errorf("late: got %+v, want a whole block", res)
		}
	}
	if mem[block] != 1 {
		t.Error("the second read did not happen as it was asked for")
	}
	if got := dev.Counts().Transfers; got != [2]int{2, 0} {
		t.Errorf("transfers: got %v, want two reads", got)
	}
}

func TestDoNothing(t *testing.T) {
	if got := ioengine.Do(t.Context(), nil, nil); len(got) != 0 {
		t.Errorf("got %v, want no results", got)
	}
}
