// SPDX-License-Identifier: Apache-2.0

package ioengine

import (
	"context"
	"fmt"
	"slices"
	"sync"
)

// Result is what became of one op.
type Result struct {
	N   int   // bytes moved
	Err error // that op's own error, or the context's if it is Detached

	// Detached says that the op was not finished when the context ended. It may
	// still run: its memory is the engine's, and for a read its contents are
	// undefined, until the engine's done.
	Detached bool
}

// Do submits ops and waits for all of them. When ctx ends first it returns at
// once, with the unfinished ops Detached. If ctx has ended already nothing is
// submitted, and no op is Detached.
//
// ops may be reused when Do returns; the Vec of a detached op may not. Callers
// who want the memory back use DoLate.
func Do(ctx context.Context, e Engine, ops []Op) []Result {
	return DoLate(ctx, e, ops, nil)
}

// DoLate is Do that calls late once for every detached op when the engine has
// let go of its memory: the place to release it. late runs on an engine
// goroutine, possibly before DoLate returns.
func DoLate(ctx context.Context, e Engine, ops []Op, late func(i int, r Result)) []Result {
	results := make([]Result, len(ops))
	if len(ops) == 0 {
		return results
	}
	if err := ctx.Err(); err != nil {
		for i := range results {
			results[i].Err = fmt.Errorf("%s at %d: not started: %w", ops[i].Dir, ops[i].Off, err)
		}
		return results
	}
	all := make(chan struct{})
	w := &waiting{results: results, finished: make([]bool, len(ops)), left: len(ops), all: all, late: late}
	ops = slices.Clone(ops) // a detached op outlives this call
	e.Submit(ops, w.done)
	select {
	case <-all:
	case <-ctx.Done():
		w.detach(ctx.Err(), ops)
	}
	return results
}

// waiting is one Do under way. After detach the results belong to the caller
// and are not written again.
type waiting struct {
	late func(i int, r Result)

	mu sync.Mutex
	// +checklocks:mu
	all chan struct{} // closed when every op is finished
	// +checklocks:mu
	results []Result
	// +checklocks:mu
	finished []bool
	// +checklocks:mu
	left int
	// +checklocks:mu
	detached bool
}

func (w *waiting) done(i, n int, err error) {
	if w.finish(i, n, err) && w.late != nil {
		w.late(i, Result{N: n, Err: err})
	}
}

func (w *waiting) finish(i, n int, err error) (late bool) {
	w.mu.Lock()
	defer w.mu.Unlock()
	if w.detached {
		return true
	}
	w.results[i] = Result{N: n, Err: err}
	w.finished[i] = true
	if w.left--; w.left == 0 {
		close(w.all)
	}
	return false
}

func (w *waiting) detach(cause error, ops []Op) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.detached = true
	for i, finished := range w.finished {
		if !finished {
			w.results[i] = Result{Err: fmt.Errorf("%s at %d: still on the device: %w", ops[i].Dir, ops[i].Off, cause), Detached: true}
		}
	}
}
