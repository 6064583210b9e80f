// SPDX-License-Identifier: Apache-2.0

package enginetest

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/rawblockd/rawblockd/internal/simdev"
	"github.com/rawblockd/rawblockd/ioengine"
)

func blockName(block int) string { return fmt.Sprintf("block %d", block) }

// rig is one engine on one device.
type rig struct {
	*testing.T
	dev    ioengine.Device
	engine ioengine.Engine
	geo    ioengine.Geometry
	block  int64
}

func newRig(t *testing.T, dev ioengine.Device, open Open) *rig {
	r := &rig{T: t, dev: dev, geo: dev.Geometry(), block: int64(dev.Geometry().Block)}
	r.engine = open(t, dev)
	t.Cleanup(func() {
		if err := r.engine.Close(); err != nil {
			t.Errorf("close engine: %v", err)
		}
	})
	return r
}

// sim returns the simulated device of a fault case.
func (r *rig) sim() *simdev.Device { return r.dev.(*simdev.Device) }

// mem returns n aligned bytes of 0xee, which no pattern consists of.
func (r *rig) mem(n int64) []byte {
	r.Helper()
	buf, free, err := ioengine.AlignedAlloc(int(n))
	if err != nil {
		r.Fatal(err)
	}
	r.Cleanup(free)
	for i := range buf {
		buf[i] = 0xee
	}
	return buf
}

// pattern returns bytes that name their place on the device and a version.
func (r *rig) pattern(off, n int64, version byte) []byte {
	r.Helper()
	buf := r.mem(n)
	for i := int64(0); i < n; i += 8 {
		binary.LittleEndian.PutUint64(buf[i:], word(off+i, version))
	}
	return buf
}

func (r *rig) write(off, n int64, version byte) ioengine.Op {
	r.Helper()
	return ioengine.Op{Dir: ioengine.Write, Off: off, Vec: [][]byte{r.pattern(off, n, version)}}
}

func (r *rig) read(off, n int64) ioengine.Op {
	r.Helper()
	return ioengine.Op{Dir: ioengine.Read, Off: off, Vec: [][]byte{r.mem(n)}}
}

// fill puts a pattern on the first n bytes of the device, past the engine.
func (r *rig) fill(n int64, version byte) {
	r.Helper()
	if _, err := ioengine.WriteFull(r.dev, [][]byte{r.pattern(0, n, version)}, 0); err != nil {
		r.Fatal(err)
	}
}

// holds checks what is on the device, past the engine.
func (r *rig) holds(off, n int64, version byte) {
	r.Helper()
	got, free, err := ioengine.AlignedAlloc(int(n))
	if err != nil {
		r.Fatal(err)
	}
	defer free()
	if _, err := ioengine.ReadFull(r.dev, [][]byte{got}, off); err != nil {
		r.Error(err)
		return
	}
	if at := firstDifference(got, off, version); at >= 0 {
		r.Errorf("device at %d: byte %d differs from version %d", off, at, version)
	}
}

// got checks what a read brought.
func (r *rig) got(op ioengine.Op, version byte) {
	r.Helper()
	if at := firstDifference(bytes.Join(op.Vec, nil), op.Off, version); at >= 0 {
		r.Errorf("read at %d: byte %d differs from version %d", op.Off, at, version)
	}
}

// firstDifference compares bytes with the pattern of a place; -1: they are equal.
func firstDifference(got []byte, off int64, version byte) int {
	var want [8]byte
	for i := 0; i < len(got); i += len(want) {
		binary.LittleEndian.PutUint64(want[:], word(off+int64(i), version))
		if [8]byte(got[i:]) == want {
			continue
		}
		for k := range want {
			if got[i+k] != want[k] {
				return i + k
			}
		}
	}
	return -1
}

// word is eight bytes of a pattern.
func word(off int64, version byte) uint64 { return uint64(off)<<8 | uint64(version) }

// until waits for what must come soon and has no event; it gives up after 10 s.
func (r *rig) until(what string, is func() bool) {
	r.Helper()
	for end := time.Now().Add(10 * time.Second); !is(); runtime.Gosched() {
		if time.Now().After(end) {
			r.Fatalf("%s: not in 10 s", what)
		}
	}
}

// answers collects what done is told about one batch.
type answers struct {
	ops []ioengine.Op

	mu sync.Mutex
	// +checklocks:mu
	r *rig
	// +checklocks:mu
	changed sync.Cond
	// +checklocks:mu
	results []ioengine.Result
	// +checklocks:mu
	times []int
	// +checklocks:mu
	count int
}

func (r *rig) submit(ops []ioengine.Op) *answers {
	a := &answers{r: r, ops: ops, results: make([]ioengine.Result, len(ops)), times: make([]int, len(ops))}
	a.changed.L = &a.mu
	r.engine.Submit(ops, a.done)
	return a
}

func (a *answers) done(i, n int, err error) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if a.times[i]++; a.times[i] > 1 {
		a.r.Errorf("op %d was answered %d times", i, a.times[i])
	}
	a.results[i] = ioengine.Result{N: n, Err: err}
	a.count++
	a.changed.Broadcast()
}

// await returns when n ops are answered.
func (a *answers) await(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	for a.count < n {
		a.changed.Wait()
	}
}

func (a *answers) answered() int {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.count
}

// wait returns all results.
func (a *answers) wait() []ioengine.Result {
	a.await(len(a.ops))
	a.mu.Lock()
	defer a.mu.Unlock()
	return append([]ioengine.Result(nil), a.results...)
}

// do submits and waits.
func (r *rig) do(ops ...ioengine.Op) []ioengine.Result {
	return r.submit(ops).wait()
}

// whole checks that ops succeeded in full.
func (r *rig) whole(ops []ioengine.Op, results []ioengine.Result) {
	r.Helper()
	for i, res := range results {
		if res.Err != nil || int64(res.N) != ops[i].Len() {
			r.Errorf("op %d (%s at %d): got %d bytes, %v, want %d bytes", i, ops[i].Dir, ops[i].Off, res.N, res.Err, ops[i].Len())
		}
	}
}
