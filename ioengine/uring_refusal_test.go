// SPDX-License-Identifier: Apache-2.0

package ioengine_test

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"syscall"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rawblockd/rawblockd/internal/simdev"
	"github.com/rawblockd/rawblockd/ioengine"
	"github.com/rawblockd/rawblockd/ioengine/enginetest"
)

// refusing is an engine on a ring that can refuse, in fake time.
type refusing struct {
	*testing.T
	dev  *simdev.Device
	ring *enginetest.Ring
	eng  *ioengine.Uring
}

func withRefusing(t *testing.T, depth int, test func(r *refusing)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		dev := slowDevice(simdev.Options{})
		r := &refusing{T: t, dev: dev, ring: enginetest.NewRing(dev)}
		r.eng = ioengine.NewUringOn(dev, r.ring, ioengine.UringOptions{Depth: depth})
		defer closeEngine(t, r.eng)
		test(r)
	})
}

// run carries a batch of n reads and returns the error of each, and the time it took.
func (r *refusing) run(n int) (errs []error, took time.Duration) {
	r.Helper()
	ops := opsOf(r.T, ioengine.Read, n, block)
	errs = make([]error, n)
	begin := time.Now()
	var wg sync.WaitGroup
	wg.Add(n)
	r.eng.Submit(ops, func(i, _ int, err error) {
		errs[i] = err
		wg.Done()
	})
	wg.Wait()
	return errs, time.Since(begin)
}

func (r *refusing) wantOK(errs []error) {
	r.Helper()
	for i, err := range errs {
		if err != nil {
			r.Errorf("op %d: %v", i, err)
		}
	}
}

// A ring that lacks something for the moment costs a batch that moment.
func TestRefusalsThatPass(t *testing.T) {
	for _, why := range []error{syscall.EAGAIN, syscall.EBUSY, syscall.ENOMEM, nil} {
		t.Run(fmt.Sprint(why), func(t *testing.T) {
			withRefusing(t, 32, func(r *refusing) {
				r.ring.Refuse(10, why)
				errs, took := r.run(32)
				r.wantOK(errs)
				// 100 µs, doubled nine times, and the transfer itself.
				if want := 102300*time.Microsecond + service; took != want {
					r.Errorf("took %v, want %v", took, want)
				}
				errs, took = r.run(32)
				r.wantOK(errs)
				if took != service {
					r.Errorf("a batch after it took %v, want %v", took, service)
				}
			})
		})
	}
}

// C25: submission fails in the middle of a batch, and goes on failing. What the
// device has is answered when it is done, the rest within a second, and the next
// batch works.
func TestRefusalInTheMiddleOfABatch(t *testing.T) {
	for _, why := range []error{syscall.EAGAIN, syscall.EBUSY, syscall.EBADF, nil} {
		t.Run(fmt.Sprint(why), func(t *testing.T) {
			withRefusing(t, 64, func(r *refusing) {
				const taken, n = 7, 32
				r.ring.TakeAtMost(taken)
				r.ring.RefuseAfter(1, 1<<30, why)
				errs, took := r.run(n)
				r.wantOK(errs[:taken])
				for i, err := range errs[taken:] {
					if err == nil || why != nil && !errors.Is(err, why) || why != syscall.EBADF && !errors.Is(err, io.ErrNoProgress) {
						r.Errorf("op %d: got %v, want %v", taken+i, err, why)
					}
				}
				if took >= time.Second || why == syscall.EBADF && took != service {
					r.Errorf("took %v, want less than a second, or one service where there is no hope", took)
				}
				if got := r.eng.Stats(); got.InFlightOps != 0 || got.QueuedOps != 0 || got.Errors[ioengine.Read] != n-taken {
					r.Errorf("counters after it: %+v", got)
				}
				r.ring.Refuse(0, nil)
				errs, _ = r.run(n)
				r.wantOK(errs)
			})
		})
	}
}

// A batch that is refused does not wait for another one that hangs, and closing the
// engine waits for both.
func TestRefusalBesideAHang(t *testing.T) {
	withRefusing(t, 32, func(r *refusing) {
		release := r.dev.Hang(0, block)
		stuck := timed(r.T, r.eng, opsOf(r.T, ioengine.Read, 1, block))
		synctest.Wait()
		r.ring.Refuse(1<<30, syscall.EAGAIN)
		errs, took := r.run(3)
		for i, err := range errs {
			if !errors.Is(err, syscall.EAGAIN) {
				r.Errorf("op %d: got %v, want %v", i, err, syscall.EAGAIN)
			}
		}
		if took >= time.Second {
			r.Errorf("took %v", took)
		}
		release()
		stuck()
	})
}

// More than the ring holds, refused for good: all is answered, each for itself.
func TestRefusalOfMoreThanTheRingHolds(t *testing.T) {
	withRefusing(t, 8, func(r *refusing) {
		r.ring.Refuse(1<<30, syscall.ENXIO)
		errs, took := r.run(1000)
		for i, err := range errs {
			if !errors.Is(err, syscall.ENXIO) {
				r.Fatalf("op %d: got %v, want %v", i, err, syscall.ENXIO)
			}
		}
		if took != 0 {
			r.Errorf("took %v, want no time", took)
		}
	})
}

// The same where it might have passed: what waited behind the first has waited as long.
func TestRefusalOfMoreThanTheRingHoldsThatMayPass(t *testing.T) {
	withRefusing(t, 8, func(r *refusing) {
		r.ring.Refuse(1<<30, syscall.EAGAIN)
		errs, took := r.run(1000)
		for i, err := range errs {
			if !errors.Is(err, syscall.EAGAIN) {
				r.Fatalf("op %d: got %v, want %v", i, err, syscall.EAGAIN)
			}
		}
		if took >= time.Second {
			r.Errorf("took %v, want less than a second", took)
		}
		r.ring.Refuse(10, syscall.EAGAIN)
		errs, _ = r.run(100)
		r.wantOK(errs) // the next batch is waited for anew
	})
}

// What is taken in parts is asked for until it is whole.
func TestRingThatTakesAFewAtATime(t *testing.T) {
	withRefusing(t, 32, func(r *refusing) {
		r.ring.TakeAtMost(3)
		errs, took := r.run(100)
		r.wantOK(errs)
		if want := 4 * service; took != want {
			r.Errorf("took %v, want %v: 32 at a time", took, want)
		}
		if got := r.ring.Counts(); got.Most != 3 || got.Taken != 100 || got.Underway != 32 {
			r.Errorf("the ring took %+v", got)
		}
	})
}

func TestInterruptedEntriesAreSubmittedAgain(t *testing.T) {
	withRefusing(t, 32, func(r *refusing) {
		r.ring.Interrupt(20)
		errs, took := r.run(10)
		r.wantOK(errs)
		if took != service {
			r.Errorf("took %v, want %v", took, service)
		}
	})
}
