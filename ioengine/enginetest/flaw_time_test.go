// SPDX-License-Identifier: Apache-2.0

package enginetest

import (
	"os"
	"sync"
	"testing"

	"github.com/rawblockd/rawblockd/ioengine"
)

// grouped is an engine that carries out groups of ops of one batch, one group after
// the other: what an engine does that waits for the last of each.
type grouped struct {
	ioengine.Engine
	size int
	turn chan struct{} // held by the batch that is being carried out; nil: batches overlap
	wg   sync.WaitGroup
}

func (g *grouped) Submit(ops []ioengine.Op, done ioengine.Done) {
	g.wg.Go(func() {
		if g.turn != nil {
			g.turn <- struct{}{}
			defer func() { <-g.turn }()
		}
		for from := 0; from < len(ops); from += g.size {
			group := ops[from:min(from+g.size, len(ops))]
			var all sync.WaitGroup
			all.Add(len(group))
			g.Engine.Submit(group, func(i, n int, err error) {
				done(from+i, n, err)
				all.Done()
			})
			all.Wait()
		}
	})
}

func (g *grouped) Close() error {
	g.wg.Wait()
	return g.Engine.Close()
}

// openFlawed starts an engine of some depth with a flaw.
func openFlawed(flaw string) OpenDeep {
	return func(dev ioengine.Device, depth int) ioengine.Engine {
		pread := func(workers int) ioengine.Engine {
			return ioengine.NewPread(dev, ioengine.PreadOptions{Workers: workers})
		}
		switch flaw {
		case "groups with a barrier":
			return &grouped{Engine: pread(depth), size: depth}
		case "one batch at a time":
			return &grouped{Engine: pread(depth), size: 1 << 30, turn: make(chan struct{}, 1)}
		case "not as deep":
			return pread(depth - 1)
		case "too deep":
			return pread(depth + 1)
		case "one at a time":
			return pread(1)
		}
		return pread(depth)
	}
}

func TestSuiteOfTimesAcceptsAnEngine(t *testing.T) { RunInFakeTime(t, openFlawed("")) }

func TestFlawedInTime(t *testing.T) {
	flaw := os.Getenv(flawEnv)
	if flaw == "" {
		t.Skip("run by TestSuiteFindsFlawsInTime")
	}
	RunInFakeTime(t, openFlawed(flaw))
}

func TestSuiteFindsFlawsInTime(t *testing.T) {
	for flaw, cases := range map[string][]string{
		"groups with a barrier": {"slow_op"},
		"one batch at a time":   {"layouts", "one_key", "32_hangs"},
		"not as deep":           {"layouts", "gain", "32_hangs"},
		"too deep":              {"layouts", "32_hangs"},
		"one at a time":         {"slow_op", "gain"},
	} {
		for _, found := range cases {
			t.Run(flaw+" by "+found, func(t *testing.T) { wantFound(t, flaw, "^TestFlawedInTime$/reads/"+found) })
		}
	}
}
