// SPDX-License-Identifier: Apache-2.0

package slab

import (
	"errors"
	"fmt"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/rawblockd/rawblockd/internal/simdev"
	"github.com/rawblockd/rawblockd/ioengine"
)

// failNth makes the n-th transfer (from 0) of one direction fail.
func failNth(dev *hooked, dir ioengine.Dir, n int) {
	var mu sync.Mutex
	hook := func([][]byte, int64) (int, error, bool) {
		mu.Lock()
		defer mu.Unlock()
		n--
		return 0, syscall.EIO, n == -1
	}
	dev.onRead, dev.onWrite = nil, nil
	if dir == ioengine.Write {
		dev.onWrite = hook
	} else {
		dev.onRead = hook
	}
}

// TestWriteErrorAtAnyOp: EIO on one op fails its request, no other, and the head
// header of a failed payload never reaches the device.
func TestWriteErrorAtAnyOp(t *testing.T) {
	const length = 7*mib + 100
	dev := &hooked{Device: simdev.New(simdev.Options{Size: 64 * mib})}
	mustInit(t, dev, InitOptions{})
	r := open(t, dev, Options{})
	r.Ready()
	many := r.countSpans(length, mib, mib)
	for n := range many + 1 { // and one op of the other request
		reqs := []WriteReq{r.request(t, length, 1, exact(t, length)), r.request(t, 1000, 2, exact(t, 1000))}
		failNth(dev, ioengine.Write, n)
		res := r.write(t, reqs...)
		dev.onWrite = nil
		failed := 0
		for i, one := range res {
			head, err := r.ReadHeader(reqs[i].Slots[0])
			switch {
			case one.err == nil && (err != nil || head.Gen != reqs[i].Gen || head.Sum != one.sum):
				t.Errorf("op %d: a good write left the header %+v, %v", n, head, err)
			case one.err != nil && err == nil && head.Gen == reqs[i].Gen && head.Parts == uint32(len(reqs[i].Slots)):
				t.Errorf("op %d: a failed write left a valid head header", n)
			}
			var ioErr *IOError
			if one.err != nil {
				failed++
				if !errors.As(one.err, &ioErr) || !errors.Is(one.err, syscall.EIO) || ioErr.Dir != ioengine.Write || one.sum != 0 {
					t.Errorf("op %d: got %v with sum %x", n, one.err, one.sum)
				} else if off := ioErr.Off + ioErr.Len - r.geo.payloadOffset(ioErr.Slot); off < 0 || off > r.SlotSize() {
					t.Errorf("op %d: %v names the wrong slot", n, ioErr)
				}
			}
		}
		if failed != 1 {
			t.Errorf("op %d: %d requests failed, want 1", n, failed)
		}
		clearHeaders(t, r, reqs)
	}
}

// clearHeaders frees the slots and wipes their headers.
func clearHeaders(t *testing.T, r rig, reqs []WriteReq) {
	t.Helper()
	zeros := alignedParts(t, HeaderSize, HeaderSize)
	for _, q := range reqs {
		for _, slot := range q.Slots {
			if err := writeFull(r.dev, zeros[0], r.geo.payloadOffset(slot)-HeaderSize); err != nil {
				t.Fatal(err)
			}
		}
		r.Move(q.Slots, Reserved, Free)
	}
}

func TestReadErrorAtAnyOp(t *testing.T) {
	dev := &hooked{Device: simdev.New(simdev.Options{Size: 64 * mib, Block: 512})}
	mustInit(t, dev, InitOptions{})
	for _, verifyOff := range []bool{false, true} {
		r := open(t, dev, Options{VerifyOff: verifyOff})
		r.Ready()
		a, b := r.store(t, 5*mib+5, 1), r.store(t, mla, 2)
		ops := r.countSpans(a.Len, mib, 0) + r.countSpans(b.Len, mib, 0)
		for n := range ops {
			failNth(dev, ioengine.Read, n)
			errs := r.read(ReadReq{a, exact(t, a.Len)}, ReadReq{b, exact(t, b.Len)})
			dev.onRead = nil
			if (errs[0] == nil) == (errs[1] == nil) || !errors.Is(errors.Join(errs...), syscall.EIO) {
				t.Errorf("op %d: got %v, want one EIO", n, errs)
			}
		}
		r.mustHold(t, a)
		r.mustHold(t, b)
	}
}

// TestFailedRequestWaitsForItsOps: after done no op of the request is on the device,
// so that its memory and slots can be used again.
func TestFailedRequestWaitsForItsOps(t *testing.T) {
	for _, dir := range []ioengine.Dir{ioengine.Write, ioengine.Read} {
		synctest.Test(t, func(t *testing.T) {
			dev := simdev.New(simdev.Options{Size: 64 * mib})
			mustInit(t, dev, InitOptions{})
			r := open(t, dev, Options{})
			r.Ready()
			req := r.request(t, 6*mib, 1, exact(t, 6*mib))
			sum := Sum(req.Src, req.Len, req.Seed^1)
			dev.FailRange(dir, r.geo.payloadOffset(req.Slots[1]), 4096, syscall.EIO)
			release := dev.Hang(r.geo.payloadOffset(req.Slots[2]), 4096)
			answer := make(chan error, 1)
			if dir == ioengine.Write {
				r.Write([]WriteReq{req}, func(_ int, _ uint64, err error) { answer <- err })
			} else {
				p := Payload{Slots: req.Slots, Len: req.Len, Gen: 1, Seed: req.Seed, Sum: sum}
				r.Read([]ReadReq{{p, exact(t, req.Len)}}, func(_ int, err error) { answer <- err })
			}
			if !pending(answer) {
				t.Errorf("%v: answered while an op is on the device", dir)
			}
			release()
			if err := <-answer; !errors.Is(err, syscall.EIO) {
				t.Errorf("%v: got %v, want EIO", dir, err)
			}
			synctest.Wait()
			if n := dev.InFlight(); n != 0 {
				t.Errorf("%v: %d ops after the answer", dir, n)
			}
		})
	}
}

func TestShortTransfers(t *testing.T) {
	for _, blk := range []int{512, 4096} {
		for _, n := range []int{blk, 3 * blk, 64*kib + blk, mib - blk, mib + 4*kib - blk} {
			r, dev := sim(t, simdev.Options{Size: 32 * mib, Block: blk}, InitOptions{}, Options{})
			dev.Short(n)
			p := r.store(t, 2*mib+mla, 1)
			r.mustHold(t, p)
			dev.Heal()
			r.mustHold(t, p)
		}
	}
}

// TestTornWriteIsDetected cuts a write off at many places: whatever was on the device
// before stays from there on. Only the whole payload passes.
func TestTornWriteIsDetected(t *testing.T) {
	r, dev := sim(t, simdev.Options{Size: 5 * mib, Block: 512}, InitOptions{}, Options{}) // one slot
	old := r.store(t, 2*mib, 1)
	at := r.geo.payloadOffset(old.Slots[0]) - HeaderSize
	before := dev.Peek(at, HeaderSize+2*mib)
	r.Move(old.Slots, Reserved, Free)
	for _, seedOf := range []string{"key", "other"} {
		req := r.request(t, 2*mib, 2, exact(t, 2*mib))
		req.Key, req.Seed = seedOf, KeySeed("ns", seedOf)
		res := r.write(t, req)[0]
		if res.err != nil {
			t.Fatal(res.err)
		}
		p := Payload{Slots: req.Slots, Len: req.Len, Gen: 2, Sum: res.sum, Seed: req.Seed}
		after := dev.Peek(at, HeaderSize+2*mib)
		for _, cut := range []int{0, 512, HeaderSize, HeaderSize + 512, mib, HeaderSize + mib, 2 * mib, HeaderSize + 2*mib - 512} {
			dev.Poke(at, after[:cut])
			dev.Poke(at+int64(cut), before[cut:])
			if _, err := r.load(t, p); !errors.Is(err, ErrCorrupt) {
				t.Errorf("cut at %d: got %v, want ErrCorrupt", cut, err)
			}
			dev.Poke(at, after)
			r.mustHold(t, p)
		}
		if _, err := r.load(t, old); !errors.Is(err, ErrCorrupt) {
			t.Errorf("the bytes of generation 2 pass as generation 1: %v", err)
		}
		r.Move(req.Slots, Reserved, Free)
		dev.Poke(at, before)
	}
}

// TestFlippedByteIsDetected flips one bit anywhere in a payload of many pieces.
func TestFlippedByteIsDetected(t *testing.T) {
	for _, slot := range []int64{64 * kib, 2 * mib, 8 * mib} {
		r, dev := sim(t, simdev.Options{Size: 32 * mib, Block: 512}, InitOptions{SlotSize: slot}, Options{})
		p := r.store(t, 4*mib+1001, 1)
		for _, off := range []int64{0, 1, mib - 1, mib, 3*mib + 12345, 4 * mib, 4*mib + 1000} {
			at := r.geo.payloadOffset(p.Slots[off/slot]) + off%slot
			dev.FlipBit(at)
			_, err := r.load(t, p)
			if !errors.Is(err, ErrCorrupt) || !strings.Contains(err.Error(), fmt.Sprintf("slot %d", p.Slots[0])) {
				t.Errorf("slot size %d, byte %d: got %v, want ErrCorrupt naming the slot", slot, off, err)
			}
			dev.FlipBit(at)
		}
		r.mustHold(t, p)
		dev.FlipBit(r.geo.payloadOffset(p.Slots[len(p.Slots)-1]) + (4*mib+1001)%slot) // padding
		r.mustHold(t, p)
	}
}

// TestVerifyOff reads what is there, but writes sums as ever.
func TestVerifyOff(t *testing.T) {
	r, dev := sim(t, simdev.Options{Size: 32 * mib}, InitOptions{}, Options{VerifyOff: true})
	p := r.store(t, 3*mib, 1)
	if p.Sum == 0 {
		t.Error("no sum")
	}
	dev.FlipBit(r.geo.payloadOffset(p.Slots[0]))
	if _, err := r.load(t, p); err != nil {
		t.Errorf("got %v", err)
	}
	strict := open(t, dev, Options{})
	if _, err := strict.load(t, p); !errors.Is(err, ErrCorrupt) {
		t.Errorf("got %v, want ErrCorrupt", err)
	}
}

// TestLostAndMisdirectedWrites: acknowledged, and yet not there (H11).
func TestLostAndMisdirectedWrites(t *testing.T) {
	for _, tc := range []struct {
		name string
		hurt func(dev *simdev.Device, at, other int64)
	}{
		{"lost", func(dev *simdev.Device, at, _ int64) { dev.DropWrites(at+mib, 4096) }},
		{"all lost", func(dev *simdev.Device, at, _ int64) { dev.DropWrites(at-HeaderSize, 2*mib+HeaderSize) }},
		{"misdirected", func(dev *simdev.Device, at, other int64) { dev.Misdirect(at-HeaderSize, other-HeaderSize) }},
	} {
		r, dev := sim(t, simdev.Options{Size: 32 * mib}, InitOptions{}, Options{})
		victim := r.store(t, 2*mib, 1)
		req := r.request(t, 2*mib, 2, exact(t, 2*mib))
		tc.hurt(dev, r.geo.payloadOffset(req.Slots[0]), r.geo.payloadOffset(victim.Slots[0]))
		res := r.write(t, req)[0]
		if res.err != nil {
			t.Fatalf("%s: %v", tc.name, res.err)
		}
		dev.Heal()
		p := Payload{Slots: req.Slots, Len: req.Len, Gen: 2, Sum: res.sum, Seed: req.Seed}
		if _, err := r.load(t, p); !errors.Is(err, ErrCorrupt) {
			t.Errorf("%s: got %v, want ErrCorrupt", tc.name, err)
		}
		if tc.name == "misdirected" {
			if _, err := r.load(t, victim); !errors.Is(err, ErrCorrupt) {
				t.Errorf("the overwritten payload: got %v, want ErrCorrupt", err)
			}
			if _, err := r.ReadHeader(victim.Slots[0]); !errors.Is(err, ErrForeign) {
				t.Errorf("the overwritten header: got %v, want ErrForeign", err)
			}
		}
	}
}

func TestReadHeaderErrors(t *testing.T) {
	r, dev := sim(t, simdev.Options{Size: 32 * mib}, InitOptions{}, Options{})
	if _, err := r.ReadHeader(0); !errors.Is(err, ErrNoHeader) {
		t.Errorf("never written: got %v, want ErrNoHeader", err)
	}
	if _, err := r.ReadHeader(r.SlotCount()); !errors.Is(err, ErrOutOfRange) {
		t.Errorf("no such slot: got %v, want ErrOutOfRange", err)
	}
	p := r.store(t, 100, 1)
	at := r.geo.payloadOffset(p.Slots[0]) - HeaderSize
	dev.FlipBit(at + 60)
	if _, err := r.ReadHeader(p.Slots[0]); !errors.Is(err, ErrHeader) {
		t.Errorf("damaged: got %v, want ErrHeader", err)
	}
	dev.FlipBit(at + 60)
	dev.FailRange(ioengine.Read, at, HeaderSize, syscall.EIO)
	var ioErr *IOError
	if _, err := r.ReadHeader(p.Slots[0]); !errors.As(err, &ioErr) || ioErr.Slot != p.Slots[0] {
		t.Errorf("EIO: got %v, want *IOError", err)
	}
	dev.Heal()
	// Init again: what the slots hold belongs to nobody.
	mustInit(t, dev, InitOptions{})
	again := open(t, dev, Options{})
	if h, err := again.ReadHeader(p.Slots[0]); !errors.Is(err, ErrForeign) || h.Gen != 1 {
		t.Errorf("an earlier incarnation: got %+v, %v, want ErrForeign", h, err)
	}
}

// TestBounceMemoryNeverDeadlocks: far more misaligned bytes than bounce memory, in
// requests larger than all of it, by many callers.
func TestBounceMemoryNeverDeadlocks(t *testing.T) {
	sim := simdev.New(simdev.Options{Size: 400 * mib})
	mustInit(t, sim, InitOptions{SlotSize: mib})
	for _, workers := range []int{1, 4} {
		eng := ioengine.NewPread(sim, ioengine.PreadOptions{Workers: workers})
		r := openWith(t, sim, eng, Options{BounceBytes: minBounce})
		r.Ready()
		var wg sync.WaitGroup
		for g := range 6 {
			wg.Go(func() {
				var reqs []WriteReq
				for i, length := range []int64{12*mib + 1, mib, 2*mib - 1, 100, 3 * mib} {
					src, _ := guarded(t, length, 1, tailOf(length))
					reqs = append(reqs, r.request(t, length, uint64(10*g+i+1), src))
				}
				for i, res := range r.write(t, reqs...) {
					q := reqs[i]
					if res.err != nil {
						t.Error(res.err)
					}
					dst, guard := guarded(t, q.Len, 1, tailOf(q.Len))
					p := Payload{Slots: q.Slots, Len: q.Len, Gen: q.Gen, Sum: res.sum, Seed: q.Seed}
					if err := r.read(ReadReq{p, dst})[0]; err != nil || !untouched(guard) {
						t.Errorf("read: %v, guard %v", err, untouched(guard))
					}
					sameParts(t, dst, q.Gen)
					r.Move(q.Slots, Reserved, Free)
				}
			})
		}
		wg.Wait()
		if n := r.bounce.InUse() + r.heads.InUse(); n != 0 {
			t.Errorf("%d bytes of bounce memory are still in use", n)
		}
	}
}

func TestCloseWaitsForIO(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		dev := simdev.New(simdev.Options{Size: 32 * mib})
		mustInit(t, dev, InitOptions{})
		r := open(t, dev, Options{})
		r.Ready()
		p := r.store(t, 3*mib, 1)
		release := dev.Hang(r.geo.payloadOffset(p.Slots[1]), 4096)
		answer, closed := make(chan error, 1), make(chan error, 1)
		r.Read([]ReadReq{{p, exact(t, p.Len)}}, func(_ int, err error) { answer <- err })
		go func() { closed <- r.Close() }()
		if !pending(closed) {
			t.Error("closed while an op is on the device")
		}
		for name, err := range map[string]error{
			"read": r.read(ReadReq{p, exact(t, p.Len)})[0], "flush": r.Flush(), "mount": r.SetMount(1, Holder{}), "close": r.Close(),
		} {
			if !errors.Is(err, ErrClosed) {
				t.Errorf("%s after close: got %v, want ErrClosed", name, err)
			}
		}
		if _, err := r.ReadHeader(0); !errors.Is(err, ErrClosed) {
			t.Errorf("header: got %v, want ErrClosed", err)
		}
		slots, _ := r.Reserve(1)
		if err := r.write(t, WriteReq{Slots: slots, Len: 1, Src: exact(t, 1)})[0].err; !errors.Is(err, ErrClosed) {
			t.Errorf("write: got %v, want ErrClosed", err)
		}
		release()
		if err := errors.Join(<-answer, <-closed); err != nil {
			t.Error(err)
		}
	})
}

// TestClosedEngine: the engine is the caller's; if it goes first, requests fail.
func TestClosedEngine(t *testing.T) {
	dev := simdev.New(simdev.Options{Size: 32 * mib})
	mustInit(t, dev, InitOptions{})
	eng := ioengine.NewPread(dev, ioengine.PreadOptions{Workers: 1})
	s, err := Open(dev, eng, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.Ready()
	r := rig{Slab: s, dev: dev}
	if err := eng.Close(); err != nil {
		t.Fatal(err)
	}
	for _, length := range []int64{100, 5 * mib} {
		req := r.request(t, length, 1, exact(t, length))
		if err := r.write(t, req)[0].err; !errors.Is(err, ioengine.ErrClosed) {
			t.Errorf("write: got %v, want ErrClosed", err)
		}
		if err := r.read(ReadReq{Payload{Slots: req.Slots, Len: length}, req.Src})[0]; !errors.Is(err, ioengine.ErrClosed) {
			t.Errorf("read: got %v, want ErrClosed", err)
		}
	}
	if err := s.Flush(); !errors.Is(err, ioengine.ErrClosed) {
		t.Errorf("flush: got %v, want ErrClosed", err)
	}
	if _, ro := s.ReadOnly(); ro {
		t.Error("a closed engine says nothing about the device")
	}
	if err := s.Close(); err != nil {
		t.Error(err)
	}
}
