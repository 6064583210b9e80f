// SPDX-License-Identifier: Apache-2.0

package simdev

import (
	"slices"
	"sync"
	"syscall"

	"github.com/rawblockd/rawblockd/ioengine"
)

// span is a range of the device in bytes.
type span struct{ off, len int64 }

// faults is everything that is wrong with a device; it is guarded by Device.mu.
type faults struct {
	fail      []failing
	hangs     []*hanging
	flushHang *hanging
	drop      []span
	misdirect []misdirected
	flush     error
	nth       []nth
	short     int
	cuts      []int64
	again     int
	againEach int
	refused   map[place]int // by againEach
	vanished  bool
	readOnly  bool
}

type failing struct {
	span
	dir ioengine.Dir
	err error
}

type hanging struct {
	span
	released chan struct{}
}

// nth is a failure of one transfer, of so many to come.
type nth struct {
	left int
	err  error
}

// place is where a transfer begins.
type place struct {
	dir ioengine.Dir
	off int64
}

type misdirected struct{ from, to int64 }

// FailRange makes every transfer of one direction that touches the range fail
// with err and move nothing. err nil takes back what was set for any range
// that this one touches.
func (d *Device) FailRange(dir ioengine.Dir, off, length int64, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	r := span{off, length}
	if err != nil {
		d.faults.fail = append(d.faults.fail, failing{r, dir, err})
		return
	}
	d.faults.fail = slices.DeleteFunc(d.faults.fail, func(f failing) bool {
		return f.dir == dir && f.off < r.off+r.len && r.off < f.off+f.len
	})
}

// FailNth makes the k-th transfer from now, in whichever direction, fail with err and
// move nothing; 1 is the next one. Several may be set.
func (d *Device) FailNth(k int, err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults.nth = append(d.faults.nth, nth{k, err})
}

// FailFlush makes the next Flush fail with err; the ones after it succeed, and
// still do not make durable what that one was to cover: as in the kernel, which
// reports a lost write once.
func (d *Device) FailFlush(err error) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults.flush = err
}

// Short makes every transfer move at most n bytes; 0: as many as asked.
func (d *Device) Short(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults.short = n
}

// ShortAt makes the next transfer that begins before off and reaches beyond it end
// there, once. Several may be set.
func (d *Device) ShortAt(off ...int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults.cuts = append(d.faults.cuts, off...)
}

// AgainEach makes the first n transfers of each direction that begin at the same place
// fail with EAGAIN, at every place; 0: none.
func (d *Device) AgainEach(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults.againEach, d.faults.refused = n, map[place]int{}
}

// Again makes the next n transfers fail with EAGAIN.
func (d *Device) Again(n int) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults.again = n
}

// Hang makes every transfer that touches the range wait inside the device until
// release is called. release may be called more than once.
func (d *Device) Hang(off, length int64) (release func()) {
	h := &hanging{span: span{off, length}, released: make(chan struct{})}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.holdLocked(h)
	d.faults.hangs = append(d.faults.hangs, h)
	return sync.OnceFunc(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		d.faults.hangs = slices.DeleteFunc(d.faults.hangs, func(other *hanging) bool { return other == h })
		d.letLocked(h)
	})
}

// HangFlush makes every Flush wait until release is called.
func (d *Device) HangFlush() (release func()) {
	h := &hanging{released: make(chan struct{})}
	d.mu.Lock()
	defer d.mu.Unlock()
	d.holdLocked(h)
	d.faults.flushHang = h
	return sync.OnceFunc(func() {
		d.mu.Lock()
		defer d.mu.Unlock()
		if d.faults.flushHang == h {
			d.faults.flushHang = nil
		}
		d.letLocked(h)
	})
}

// ReleaseAll releases everything that hangs. A test that failed before it came to
// its release ends with that, and not when the whole run is killed.
func (d *Device) ReleaseAll() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults.hangs, d.faults.flushHang = nil, nil
	for h := range d.hung {
		d.letLocked(h)
	}
}

// holdLocked notes that h hangs.
// +checklocks:d.mu
func (d *Device) holdLocked(h *hanging) {
	if d.hung == nil {
		d.hung = map[*hanging]bool{}
	}
	d.hung[h] = true
}

// letLocked releases h, if it is not yet.
// +checklocks:d.mu
func (d *Device) letLocked(h *hanging) {
	if d.hung[h] {
		delete(d.hung, h)
		close(h.released)
	}
}

// FlipBit flips one bit of the byte at off, durably.
func (d *Device) FlipBit(off int64) {
	d.Poke(off, []byte{d.Peek(off, 1)[0] ^ 1})
}

// DropWrites makes writes to the range succeed without changing it.
func (d *Device) DropWrites(off, length int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults.drop = append(d.faults.drop, span{off, length})
}

// Misdirect makes the next write that touches the byte at from land to - from
// bytes further on, or nowhere if that is outside the device.
func (d *Device) Misdirect(from, to int64) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults.misdirect = append(d.faults.misdirect, misdirected{from, to})
}

// Vanish makes everything fail with ENODEV, as when a drive is pulled.
func (d *Device) Vanish() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults.vanished = true
}

// SetReadOnly makes writes fail with EROFS, as a drive does that has used up
// its spare blocks.
func (d *Device) SetReadOnly(readOnly bool) {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults.readOnly = readOnly
}

// Heal takes back every fault but those under way: what hangs still waits for
// its release.
func (d *Device) Heal() {
	d.mu.Lock()
	defer d.mu.Unlock()
	d.faults = faults{}
}

// refusing is what a transfer fails with before it is served.
func (f *faults) refusing(t *op) error {
	var err error
	for i := range f.nth {
		if f.nth[i].left--; f.nth[i].left == 0 {
			err = f.nth[i].err
		}
	}
	f.nth = slices.DeleteFunc(f.nth, func(n nth) bool { return n.left <= 0 })
	if err != nil {
		return err
	}
	at := place{t.dir, t.off}
	switch {
	case f.again > 0:
		f.again--
		return syscall.EAGAIN
	case f.refused[at] < f.againEach:
		f.refused[at]++
		return syscall.EAGAIN
	}
	return nil
}

// cut shortens a transfer.
func (f *faults) cut(t *op) {
	if f.short > 0 {
		t.n = min(t.n, f.short)
	}
	for i, off := range f.cuts {
		if t.off < off && off < t.off+int64(t.n) {
			t.n = int(off - t.off)
			f.cuts = slices.Delete(f.cuts, i, i+1)
			break
		}
	}
}

func (f *faults) failing(t *op) error {
	for _, rule := range f.fail {
		if rule.dir == t.dir && t.overlaps(rule.span) {
			return rule.err
		}
	}
	return nil
}

// redirect returns what a write really does.
func (f *faults) redirect(w extent, size int64) []extent {
	for i, m := range f.misdirect {
		if w.off <= m.from && m.from < w.end() {
			f.misdirect = slices.Delete(f.misdirect, i, i+1)
			w.off += m.to - m.from
			if w.off < 0 || w.end() > size {
				return nil
			}
			break
		}
	}
	rest := []extent{w}
	for _, lost := range f.drop {
		var kept []extent
		for _, e := range rest {
			kept = append(kept, e.without(lost)...)
		}
		rest = kept
	}
	return rest
}

// hang returns what a transfer has to wait for, or nil.
func (d *Device) hang(t *op) <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	for _, h := range d.faults.hangs {
		if t.overlaps(h.span) {
			return h.released
		}
	}
	return nil
}

func (d *Device) hangFlush() <-chan struct{} {
	d.mu.Lock()
	defer d.mu.Unlock()
	if d.faults.flushHang == nil {
		return nil
	}
	return d.faults.flushHang.released
}
