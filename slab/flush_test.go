// SPDX-License-Identifier: Apache-2.0

package slab

import (
	"errors"
	"strings"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"

	"github.com/rawblockd/rawblockd/internal/simdev"
	"github.com/rawblockd/rawblockd/ioengine"
)

// gate is a device whose flushes wait until the test lets them through.
type gate struct {
	ioengine.Device
	begun chan int // number of the flush that began
	let   chan error
	n     int
}

func newGate(dev ioengine.Device) *gate {
	return &gate{Device: dev, begun: make(chan int, 16), let: make(chan error)}
}

func (g *gate) Flush() error {
	g.n++ // the slab runs one flush at a time; the race detector watches
	g.begun <- g.n
	return <-g.let
}

// flushRig opens a slab on a gated device inside a synctest bubble.
func flushRig(t *testing.T) (*Slab, *gate, func()) {
	sim := simdev.New(simdev.Options{Size: 8 * mib})
	mustInit(t, sim, InitOptions{})
	g := newGate(sim)
	eng := ioengine.NewPread(g, ioengine.PreadOptions{Workers: 4})
	s, err := Open(g, eng, Options{})
	if err != nil {
		t.Fatal(err)
	}
	s.Ready()
	return s, g, func() {
		if err := errors.Join(s.Close(), eng.Close()); err != nil {
			t.Errorf("close: %v", err)
		}
	}
}

// call runs Flush on a goroutine and returns where its result will be.
func call(s *Slab) chan error {
	c := make(chan error, 1)
	go func() { c <- s.Flush() }()
	return c
}

// pending reports whether a call has not returned although nothing else can happen.
func pending(c chan error) bool {
	synctest.Wait()
	return len(c) == 0
}

// TestFlushIsNeverJoined is H36: who comes while a flush runs is served by the next
// one to start, all of them by the same one.
func TestFlushIsNeverJoined(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g, done := flushRig(t)
		defer done()
		first := call(s)
		<-g.begun
		var late []chan error
		for range 5 {
			late = append(late, call(s))
		}
		synctest.Wait()
		g.let <- nil // the flush that was running
		if err := <-first; err != nil {
			t.Fatal(err)
		}
		for i, c := range late {
			if !pending(c) {
				t.Fatalf("late caller %d joined the running flush", i)
			}
		}
		if n := <-g.begun; n != 2 {
			t.Fatalf("got flush %d, want 2", n)
		}
		// And those that come now are not served by the second.
		later := call(s)
		synctest.Wait()
		g.let <- nil
		for _, c := range late {
			if err := <-c; err != nil {
				t.Fatal(err)
			}
		}
		if !pending(later) {
			t.Fatal("a caller joined the second flush")
		}
		<-g.begun
		g.let <- nil
		if err := <-later; err != nil {
			t.Fatal(err)
		}
		if got := s.Flushes(); got != 3 {
			t.Errorf("got %d flushes for 7 calls, want 3", got)
		}
	})
}

func TestFlushErrorIsForGood(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s, g, done := flushRig(t)
		defer done()
		slots, _ := s.Reserve(1)
		first := call(s)
		<-g.begun
		second := call(s)
		synctest.Wait()
		g.let <- syscall.EIO
		for _, c := range []chan error{first, second, call(s)} {
			if err := <-c; !errors.Is(err, ErrReadOnly) || !errors.Is(err, syscall.EIO) {
				t.Errorf("got %v, want ErrReadOnly and EIO", err)
			}
		}
		if len(g.begun) != 0 {
			t.Error("a failed flush was tried again")
		}
		if reason, ro := s.ReadOnly(); !ro || !strings.Contains(reason, "flush failed") {
			t.Errorf("got %q, %v", reason, ro)
		}
		if _, ok := s.Reserve(1); ok {
			t.Error("reserve on a read-only slab")
		}
		src := exact(t, 100)
		s.Write([]WriteReq{{Slots: slots, Len: 100, Src: src}}, func(_ int, _ uint64, err error) {
			if !errors.Is(err, ErrReadOnly) {
				t.Errorf("write: got %v, want ErrReadOnly", err)
			}
		})
		s.Move(slots, Reserved, Free) // what was reserved can still be given back
	})
}

// TestSuccessBeforeAFailureStays: a later flush that fails takes nothing back.
func TestSuccessBeforeAFailureStays(t *testing.T) {
	f := &flusher{}
	f.init()
	if err := f.wait(func() error { return nil }); err != nil {
		t.Fatal(err)
	}
	f.mu.Lock()
	f.failed, f.failedAt = syscall.EIO, 3
	f.finished, f.started = 3, 3
	f.mu.Unlock()
	if err := f.wait(func() error { return nil }); !errors.Is(err, syscall.EIO) {
		t.Errorf("got %v, want EIO", err)
	}
}

func TestReadsGoOnWhenReadOnly(t *testing.T) {
	r, dev := sim(t, simdev.Options{Size: 16 * mib}, InitOptions{}, Options{})
	p := r.store(t, 3*mib, 1)
	dev.FailFlush(syscall.EIO)
	if err := r.Flush(); !errors.Is(err, ErrReadOnly) {
		t.Fatalf("got %v, want ErrReadOnly", err)
	}
	dev.Heal()
	if err := r.Flush(); !errors.Is(err, ErrReadOnly) {
		t.Errorf("a later flush succeeded: %v", err)
	}
	r.mustHold(t, p)
}

// TestFlushStress checks the promise itself: whatever finished before Flush was
// called is covered by a device flush that began afterwards.
func TestFlushStress(t *testing.T) {
	sim := simdev.New(simdev.Options{Size: 8 * mib})
	mustInit(t, sim, InitOptions{})
	var mu sync.Mutex
	written, durable := 0, 0
	dev := &hooked{Device: sim, onFlush: func() error {
		mu.Lock()
		seen := written
		mu.Unlock()
		mu.Lock()
		defer mu.Unlock()
		durable = max(durable, seen)
		return nil
	}}
	r := open(t, dev, Options{})
	var wg sync.WaitGroup
	for range 8 {
		wg.Go(func() {
			for range 200 {
				mu.Lock()
				written++
				mine := written
				mu.Unlock()
				if err := r.Flush(); err != nil {
					t.Error(err)
				}
				mu.Lock()
				if durable < mine {
					t.Errorf("write %d is not durable, %d are", mine, durable)
				}
				mu.Unlock()
			}
		})
	}
	wg.Wait()
	if n := r.Flushes(); n == 0 || n > 1600 {
		t.Errorf("%d flushes for 1600 calls", n)
	}
}
