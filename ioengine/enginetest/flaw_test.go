// SPDX-License-Identifier: Apache-2.0

package enginetest

import (
	"context"
	"errors"
	"fmt"
	"math"
	"os"
	"os/exec"
	"sync"
	"syscall"
	"testing"
	"time"
	"unsafe"

	"github.com/rawblockd/rawblockd/internal/testdev"
	"github.com/rawblockd/rawblockd/ioengine"
)

func TestMain(m *testing.M) { testdev.Main(m) }

// naive is an engine of one goroutine per op: a second implementation, so that
// the suite does not ask for what only the first one does, and one that can be
// given a flaw, to prove that the suite finds it.
type naive struct {
	dev  ioengine.Device
	flaw string

	wg sync.WaitGroup
	mu sync.Mutex
	// +checklocks:mu
	closed bool
	// +checklocks:mu
	stats ioengine.Stats
	// +checklocks:mu
	onDevice map[*stay]bool
}

// stay is the time of an op or of a flush on the device.
type stay struct {
	flush bool
	since time.Time
}

// enter says that an op or a flush is on the device, leave that it no longer is.
func (e *naive) enter(flush bool) (leave func()) {
	at := &stay{flush: flush, since: time.Now()}
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.onDevice == nil {
		e.onDevice = make(map[*stay]bool)
	}
	e.onDevice[at] = true
	return func() {
		e.mu.Lock()
		defer e.mu.Unlock()
		delete(e.onDevice, at)
	}
}

func (e *naive) begin() bool {
	e.mu.Lock()
	defer e.mu.Unlock()
	if e.closed {
		return false
	}
	e.wg.Add(1)
	return true
}

func (e *naive) Submit(ops []ioengine.Op, done ioengine.Done) {
	if !e.begin() {
		for i := range ops {
			if e.flaw == "works after close" {
				e.carry(ops, i, done)
			} else {
				done(i, 0, ioengine.ErrClosed)
			}
		}
		return
	}
	defer e.wg.Done()
	for i := range ops {
		e.wg.Go(func() { e.carry(ops, i, done) })
	}
}

func (e *naive) carry(ops []ioengine.Op, i int, done ioengine.Done) {
	op := ops[i]
	n, err := 0, e.check(op)
	if err == nil {
		e.count(func(s *ioengine.Stats) {
			s.InFlightOps, s.InFlightBytes = s.InFlightOps+1, s.InFlightBytes+op.Len()
			s.MaxInFlight = max(s.MaxInFlight, s.InFlightOps)
		})
		leave := e.enter(false)
		n, err = e.move(op)
		leave()
		e.count(func(s *ioengine.Stats) { s.InFlightOps, s.InFlightBytes = s.InFlightOps-1, s.InFlightBytes-op.Len() })
	}
	if e.flaw == "hides errors" && errors.Is(err, syscall.EIO) {
		n, err = int(op.Len()), nil
	}
	e.count(func(s *ioengine.Stats) {
		s.Ops[op.Dir]++
		s.Bytes[op.Dir] += uint64(n)
		if err != nil && e.flaw != "does not count errors" {
			s.Errors[op.Dir]++
		}
	})
	done(i, n, err)
	switch e.flaw {
	case "answers twice":
		done(i, n, err)
	case "reads again after done", "writes again after done":
		_, _ = e.move(op)
	}
}

func (e *naive) move(op ioengine.Op) (int, error) {
	if op.Len() == 0 {
		return 0, nil
	}
	if e.flaw == "continues at the next block" {
		return e.skip(op)
	}
	if op.Dir == ioengine.Write {
		return ioengine.WriteFull(e.dev, op.Vec, op.Off)
	}
	if e.flaw == "takes short for whole" {
		n, err := e.dev.Preadv(op.Vec, op.Off)
		return n, err
	}
	return ioengine.ReadFull(e.dev, op.Vec, op.Off)
}

// skip takes a block for moved of which a part was.
func (e *naive) skip(op ioengine.Op) (int, error) {
	move, block := e.dev.Preadv, e.dev.Geometry().Block
	if op.Dir == ioengine.Write {
		move = e.dev.Pwritev
	}
	n := 0
	for vec := op.Vec; len(vec) > 0; {
		k, err := move(vec, op.Off+int64(n))
		if err != nil || k == 0 {
			return n, err
		}
		k = (k + block - 1) / block * block
		n += k
		for ; len(vec) > 0 && k >= len(vec[0]); vec = vec[1:] {
			k -= len(vec[0])
		}
		if k > 0 {
			vec = append([][]byte{vec[0][k:]}, vec[1:]...)
		}
	}
	return n, nil
}

func (e *naive) check(op ioengine.Op) error {
	g := e.dev.Geometry()
	missed := 0 // the alignment
	if op.Off%int64(g.Block) != 0 {
		missed = g.Block
	}
	for _, part := range op.Vec {
		if len(part)%g.Block != 0 {
			missed = g.Block
		}
		if len(part) > 0 && uintptr(unsafe.Pointer(&part[0]))%uintptr(g.MemAlign) != 0 {
			missed = g.MemAlign
		}
	}
	switch {
	case missed > 0 && e.flaw == "names no alignment":
		return ioengine.ErrUnaligned
	case missed > 0 && e.flaw != "lets unaligned ops through":
		return fmt.Errorf("%w: want %d", ioengine.ErrUnaligned, missed)
	case (op.Off < 0 || op.Off+op.Len() > g.Size) && e.flaw != "does not know the end":
		return ioengine.ErrEndOfDevice
	}
	return nil
}

func (e *naive) Flush() error {
	if !e.begin() {
		return ioengine.ErrClosed
	}
	defer e.wg.Done()
	e.count(func(s *ioengine.Stats) { s.Flushes++ })
	leave := e.enter(true)
	var err error
	if e.flaw != "does not flush" {
		err = e.dev.Flush()
	}
	leave()
	if err != nil && e.flaw == "flushes again" {
		return e.dev.Flush()
	}
	return err
}

func (e *naive) Close() error {
	e.mu.Lock()
	e.closed = true
	e.mu.Unlock()
	if e.flaw != "close does not wait" {
		e.wg.Wait()
	}
	return nil
}

func (e *naive) count(add func(*ioengine.Stats)) {
	e.mu.Lock()
	defer e.mu.Unlock()
	add(&e.stats)
}

func (e *naive) Stats() ioengine.Stats {
	e.mu.Lock()
	defer e.mu.Unlock()
	s := e.stats
	s.Name, s.Depth = "naive", math.MaxInt32 // a goroutine for each op
	for at := range e.onDevice {
		switch {
		case e.flaw == "knows no age":
		case at.flush:
			s.OldestFlush = max(s.OldestFlush, time.Since(at.since))
		default:
			s.OldestOp = max(s.OldestOp, time.Since(at.since))
		}
	}
	if e.flaw == "forgets what it did" {
		s.Ops[ioengine.Write] = 0
	}
	return s
}

func openNaive(flaw string) Open {
	return func(_ *testing.T, dev ioengine.Device) ioengine.Engine { return &naive{dev: dev, flaw: flaw} }
}

func TestSuiteAcceptsAnotherEngine(t *testing.T) { Run(t, openNaive("")) }

// flawEnv carries a flaw to a child process: only there may the suite fail.
const flawEnv = "ENGINETEST_FLAW"

func TestFlawed(t *testing.T) {
	flaw := os.Getenv(flawEnv)
	if flaw == "" {
		t.Skip("run by TestSuiteFindsFlaws")
	}
	Run(t, openNaive(flaw))
}

func TestSuiteFindsFlaws(t *testing.T) {
	flaws := map[string]string{ // and the cases that find them; "": any
		"answers twice": "", "takes short for whole": "", "hides errors": "", "lets unaligned ops through": "",
		"does not know the end": "", "works after close": "", "close does not wait": "", "flushes again": "",
		"does not count errors": "", "forgets what it did": "", "knows no age": "",
		"does not flush":              "/flush_covers",
		"names no alignment":          "/block_4096/skewed",
		"continues at the next block": "/block_512/ends_at_any_byte",
		"reads again after done":      "/block_512/memory_of_a_detached_read",
		"writes again after done":     "/block_512/memory_of_a_detached_write",
	}
	for flaw, found := range flaws {
		t.Run(flaw, func(t *testing.T) { wantFound(t, flaw, "^TestFlawed$"+found) })
	}
}

// wantFound runs tests in a child process with a flawed engine: they have to fail.
func wantFound(t *testing.T, flaw, tests string) {
	t.Helper()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	child := exec.CommandContext(ctx, os.Args[0], "-test.run="+tests, "-test.failfast", "-test.timeout=60s")
	child.Env = append(os.Environ(), flawEnv+"="+flaw)
	out, err := child.CombinedOutput()
	var exit *exec.ExitError
	if !errors.As(err, &exit) {
		t.Errorf("the suite (%s) passes an engine that has the flaw %q: %v\n%s", tests, flaw, err, out)
	}
}
