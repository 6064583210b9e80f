// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"sync"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// image is the disk just before a change, and what had been promised by then.
type image struct {
	fs            *vfs.MemFS
	acked, issued int64
	op            errorfs.Op
}

// camera takes an image before every change that want selects.
type camera struct {
	// Set once, before the first change.
	mem  *vfs.MemFS
	h    *history
	want func(n int, op errorfs.Op) (percents []int)

	n atomic.Int64

	mu     sync.Mutex
	images []image // +checklocks:mu
}

func (c *camera) String() string { return "camera" }

func (c *camera) MaybeError(op errorfs.Op) error {
	if !isChange(op) {
		return nil
	}
	n := int(c.n.Add(1))
	for _, p := range c.want(n, op) {
		acked := c.h.acked.Load()
		fs := clone(c.mem, p, uint64(n))
		c.keep(image{fs, acked, c.h.issued.Load(), op})
	}
	return nil
}

func (c *camera) keep(img image) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.images = append(c.images, img)
}

// shots is what the camera took; its store is closed by now.
func (c *camera) shots() []image {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.images
}

// TestCrashDuringFirstOpen: a crash before any change of the first open, with
// nothing, half or all of the unsynced kept, leaves a directory that opens, is
// empty and works.
func TestCrashDuringFirstOpen(t *testing.T) {
	mem := vfs.NewCrashableMem()
	h := &history{steps: 30}
	c := &camera{mem: mem, h: h, want: func(int, errorfs.Op) []int { return []int{0, 50, 50, 50, 100} }}
	mustClose(t, mustOpen(t, errorfs.Wrap(mem, c)))
	if n := len(c.shots()); n < 100 {
		t.Fatalf("only %d images of a first open", n)
	}
	for i, img := range c.shots() {
		db, err := Open(smallOptions(img.fs))
		if err != nil {
			t.Fatalf("image %d, before %v of %s: %v", i, img.op.Kind, img.op.Path, err)
		}
		again := &history{steps: h.steps}
		if err := again.run(db); err != nil {
			t.Fatalf("image %d: %v", i, err)
		}
		mustClose(t, db)
		again.reopen(t, img.fs, int64(h.steps), int64(h.steps))
	}
}

// TestCrashDuringFirstOpenTwice crashes the second try too: what the first left
// behind must not spoil it.
func TestCrashDuringFirstOpenTwice(t *testing.T) {
	mem := vfs.NewCrashableMem()
	c := &camera{mem: mem, h: &history{}, want: func(n int, _ errorfs.Op) []int {
		if n%5 == 0 {
			return []int{100}
		}
		return nil
	}}
	mustClose(t, mustOpen(t, errorfs.Wrap(mem, c)))
	for _, first := range c.shots() {
		c2 := &camera{mem: first.fs, h: &history{}, want: func(n int, _ errorfs.Op) []int {
			if n%5 == 0 {
				return []int{0, 50, 100}
			}
			return nil
		}}
		mustClose(t, mustOpen(t, errorfs.Wrap(first.fs, c2)))
		for _, second := range c2.shots() {
			mustClose(t, mustOpen(t, second.fs))
		}
	}
}

// TestCrashAnywhere: every acknowledged step survives a crash before any
// change, through flushes, compactions and log rotations, and the state is
// always that of whole steps.
func TestCrashAnywhere(t *testing.T) {
	mem := vfs.NewCrashableMem()
	h := &history{steps: 260}
	c := &camera{mem: mem, h: h, want: func(n int, op errorfs.Op) []int {
		plain := isFile(op, ".log") && !isKind(errorfs.OpCreate, errorfs.OpRename)(op)
		switch {
		case !plain || n%10 == 0:
			return []int{0, 50, 100}
		case n%3 == 0:
			return []int{0}
		}
		return nil
	}}
	db := mustOpen(t, errorfs.Wrap(mem, c))
	if err := h.run(db); err != nil {
		t.Fatal(err)
	}
	lo, hi := slotBounds(prefixRow, inc(1), 0, 0)
	if err := db.pb.Compact(t.Context(), lo, hi, false); err != nil {
		t.Fatal(err)
	}
	if m := db.pb.Metrics(); m.Flush.Count < 4 || m.Compact.Count == 0 {
		t.Fatalf("%d flushes, %d compactions: the history is too short", m.Flush.Count, m.Compact.Count)
	}
	mustClose(t, db)
	for _, img := range c.shots() {
		h.reopen(t, img.fs, img.acked, img.issued)
	}
	h.reopen(t, clone(mem, 0, 0), int64(h.steps), int64(h.steps)) // a clean Close syncs
}
