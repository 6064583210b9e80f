// SPDX-License-Identifier: Apache-2.0

package ioengine_test

import (
	"errors"
	"os"
	"runtime"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rawblockd/rawblockd/internal/simdev"
	"github.com/rawblockd/rawblockd/internal/testdev"
	"github.com/rawblockd/rawblockd/ioengine"
	"github.com/rawblockd/rawblockd/ioengine/enginetest"
)

// The kernel ends an op on the thread that submitted it. That thread is the engine's
// own, whoever submits: one that other goroutines share would sit in their fsyncs.
func TestOneThreadSubmits(t *testing.T) {
	dev := simdev.New(simdev.Options{Size: 64 << 20})
	ring := enginetest.NewRing(dev)
	e := ioengine.NewUringOn(dev, ring, ioengine.UringOptions{Depth: 4})
	defer closeEngine(t, e)
	var wg sync.WaitGroup
	callers := make(chan int, 8)
	for range cap(callers) {
		wg.Go(func() {
			runtime.LockOSThread() // and ends with its thread
			callers <- unix.Gettid()
			for range 20 {
				carry(t, e, opsOf(t, ioengine.Read, 9, block)) // more than the ring holds
			}
		})
	}
	wg.Wait()
	close(callers)
	threads := ring.Threads()
	if len(threads) != 1 {
		t.Errorf("submissions came from threads %v, want one", threads)
	}
	for caller := range callers {
		if threads[caller] {
			t.Errorf("thread %d is a caller's, and submits", caller)
		}
	}
}

func TestUringAllocatesPerBatchOnAFile(t *testing.T) {
	needUring(t)
	e, end := uringOn(t, testdev.File(t, 4<<20), ioengine.UringOptions{Depth: 32})
	defer end()
	wantOneAllocation(t, e, 1, 32, 512)
}

func TestUringOnAClosedFile(t *testing.T) {
	needUring(t)
	f, err := ioengine.Open(testdev.File(t, 1<<20), ioengine.OpenOptions{})
	if err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	if _, err := ioengine.NewUring(f, ioengine.UringOptions{Depth: 1}); !errors.Is(err, os.ErrClosed) {
		t.Errorf("got %v, want %v", err, os.ErrClosed)
	}
}
