// SPDX-License-Identifier: Apache-2.0

package crashtest

import (
	"fmt"
	"runtime"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// point is one crash: what the disk holds and what the model knew.
type point struct {
	setup   *setup
	number  uint64 // of the hook within its run
	where   string // the write operation and on which side of it
	percent int    // of unsynced data kept
	verify  bool   // checksums are needed to judge it: see cut
	disk    *vfs.MemFS
	model   snapshot
}

func (p *point) String() string {
	return fmt.Sprintf("seed %d point %d (%s, %d %% of unsynced data kept)", p.setup.seed, p.number, p.where, p.percent)
}

// timeline is one file system from its beginning, or from a crash, until it is
// closed or abandoned by the next crash. Every write operation of Pebble and
// of the device passes around.
type timeline struct {
	setup  *setup
	mem    *vfs.MemFS
	model  *model
	base   uint64 // hooks of earlier time lines of the same run
	verify bool   // checksums are on

	hooks   atomic.Uint64
	enabled atomic.Bool // points may be taken

	// chosen decides about each hook; take gets what it chose. A crash that
	// goes on with the run is an abandonment: the last point of a time line.
	chosen func(number uint64) bool
	take   func(p point)

	abandonAt atomic.Uint64 // hook number, 0: never
	faulty    atomic.Bool   // a fault was injected into Pebble's files
	abandoned atomic.Pointer[point]
}

// around runs one write operation between its two hooks.
func (t *timeline) around(what, path string, op func() error) error {
	t.hook("before", what, path)
	err := op()
	t.hook("after", what, path)
	return err
}

func (t *timeline) hook(side, what, path string) {
	if !t.enabled.Load() || t.abandoned.Load() != nil {
		return
	}
	n := t.base + t.hooks.Add(1)
	if at := t.abandonAt.Load(); at > 0 && n >= at {
		t.abandon(t.cut(n, side+" "+what+" "+path))
		return
	}
	if t.chosen(n) {
		t.take(t.cut(n, side+" "+what+" "+path))
	}
}

// abandon makes p the end of the time line; the first caller wins.
func (t *timeline) abandon(p point) {
	if t.abandoned.CompareAndSwap(nil, &p) {
		t.enabled.Store(false)
	}
}

// cut takes the clone and the model in one instant. What a hook decides depends
// on the seed and its number alone.
func (t *timeline) cut(n uint64, where string) point {
	rng := newRand(t.setup.seed, "cut", n)
	p := point{setup: t.setup, number: n, where: where, percent: []int{0, 50, 100}[rng.IntN(3)]}
	// A kill keeps what was written, in the order in which it was written: there
	// the first wall has to hold alone, in relaxed mode too, unless a power loss
	// came before.
	p.verify = t.setup.relaxed && (t.verify || p.percent < 100)
	p.model = t.model.freeze(func() {
		p.disk = t.mem.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: p.percent, RNG: rng})
	})
	return p
}

// linger lets other goroutines run until progress changes, for a bounded number
// of turns: it holds the window open in which somebody may do what the owner of
// the running operation does not cover.
func linger(turns int, progress func() uint64) {
	start := progress()
	for range turns {
		if progress() != start {
			break
		}
		runtime.Gosched()
	}
	for range turns / 4 {
		runtime.Gosched()
	}
}
