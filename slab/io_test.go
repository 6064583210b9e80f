// SPDX-License-Identifier: Apache-2.0

package slab

import (
	"bytes"
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rawblockd/rawblockd/internal/simdev"
	"github.com/rawblockd/rawblockd/ioengine"
)

// mla is DeepSeek-V3's 16-token block: no multiple of 4 KiB.
const mla = 1124352

// shapes are the kinds of memory a caller may bring.
var shapes = []struct {
	name string
	make func(t testing.TB, length int64, blk int) (parts [][]byte, guard []byte)
}{
	{"exact", func(t testing.TB, length int64, _ int) ([][]byte, []byte) {
		return guarded(t, length, 0, tailOf(length))
	}},
	{"rounded to the block", func(t testing.TB, length int64, blk int) ([][]byte, []byte) {
		return guarded(t, length, 0, roundUp(tailOf(length), int64(blk)))
	}},
	{"rounded to 4 KiB", func(t testing.TB, length int64, _ int) ([][]byte, []byte) {
		return guarded(t, length, 0, roundUp(tailOf(length), 4*kib))
	}},
	{"one byte more", func(t testing.TB, length int64, _ int) ([][]byte, []byte) {
		return guarded(t, length, 0, min(tailOf(length)+1, mib))
	}},
	{"skewed by 512 (C8)", func(t testing.TB, length int64, _ int) ([][]byte, []byte) {
		return guarded(t, length, 512, tailOf(length))
	}},
	{"skewed by 1", func(t testing.TB, length int64, _ int) ([][]byte, []byte) {
		return guarded(t, length, 1, tailOf(length))
	}},
}

// guarded makes parts of one buffer and returns the bytes that follow them.
func guarded(t testing.TB, length, skew, tail int64) ([][]byte, []byte) {
	t.Helper()
	n := pieces(length)
	buf, free, err := ioengine.AlignedAlloc((n + 1) * ioengine.PieceSize)
	if err != nil {
		t.Fatalf("memory: %v", err)
	}
	t.Cleanup(free)
	guard := buf[skew+int64(n-1)*ioengine.PieceSize+tail:][:64*kib]
	copy(guard, guardBytes)
	return cut(buf[skew:], n, tail), guard
}

var guardBytes = bytes.Repeat([]byte{0xee}, 64*kib)

func untouched(guard []byte) bool { return bytes.Equal(guard, guardBytes) }

// TestRoundTrip writes and reads every kind of length through every kind of memory,
// on slots smaller than a piece, of odd sizes, and larger.
func TestRoundTrip(t *testing.T) {
	lengths := []int64{1, 511, 512, 4095, 4096, 4097, 512 * kib, mib - 1, mib, mib + 1, mla, 3*mib + 5000, 7*mib - 4096}
	for _, blk := range []int{512, 4096} {
		for _, slot := range []int64{4 * kib, 64 * kib, mib, mib + 512*kib, 2 * mib, 2*mib + 4*kib, 8 * mib} {
			for _, ioSize := range []int64{mib, 4 * mib} {
				t.Run(fmt.Sprintf("block %d, slot %s, io %s", blk, sizeFlag(slot), sizeFlag(ioSize)), func(t *testing.T) {
					r, dev := sim(t, simdev.Options{Size: 80 * mib, Block: blk, MemAlign: blk, OptimalIO: 8 * blk}, InitOptions{SlotSize: slot}, Options{IOSize: ioSize})
					for i, length := range lengths {
						// Each length meets two kinds on either side; each kind meets each other
						// somewhere in the table.
						for j := range 2 {
							in, out := shapes[(i+3*j)%len(shapes)], shapes[(i+j+int(slot/kib))%len(shapes)]
							roundTrip(t, r, dev, length, uint64(100*i+j+1), in.make, out.make, blk)
						}
					}
					if got := r.Counts(); got.Free != got.Total {
						t.Errorf("slots left over: %+v", got)
					}
				})
			}
		}
	}
}

func roundTrip(t *testing.T, r rig, dev *simdev.Device, length int64, gen uint64, in, out func(testing.TB, int64, int) ([][]byte, []byte), blk int) {
	t.Helper()
	src, _ := in(t, length, blk)
	req := r.request(t, length, gen, src)
	res := r.write(t, req)[0]
	if res.err != nil {
		t.Fatalf("write %d bytes: %v", length, res.err)
	}
	if want := Sum(src, length, req.Seed^gen); res.sum != want {
		t.Fatalf("write %d bytes: got sum %x, want %x", length, res.sum, want)
	}
	dst, guard := out(t, length, blk)
	p := Payload{Slots: req.Slots, Len: length, Gen: gen, Sum: res.sum, Seed: req.Seed}
	if err := r.read(ReadReq{Payload: p, Dst: dst})[0]; err != nil {
		t.Fatalf("read %d bytes: %v", length, err)
	}
	last := len(dst) - 1
	dst[last], src[last] = dst[last][:tailOf(length)], src[last][:tailOf(length)]
	for i := range dst {
		if !bytes.Equal(dst[i], src[i]) {
			t.Fatalf("%d bytes: part %d differs", length, i)
		}
	}
	if !untouched(guard) {
		t.Fatalf("%d bytes: something was written past the end of the caller's memory", length)
	}
	checkOnDevice(t, r, dev, req, res.sum)
	r.Move(req.Slots, Reserved, Free)
}

// checkOnDevice looks at headers, payload and padding where they must lie.
func checkOnDevice(t *testing.T, r rig, dev *simdev.Device, req WriteReq, sum uint64) {
	t.Helper()
	for i, slot := range req.Slots {
		want := Header{
			Incarnation: r.geo.Incarnation, Slot: slot, Gen: req.Gen, Part: uint32(i), Parts: uint32(len(req.Slots)),
			Namespace: req.Namespace, Key: req.Key, Len: req.Len, StoredAt: req.StoredAt,
		}
		if i == 0 {
			want.Sum = sum
		}
		if got, err := r.ReadHeader(slot); err != nil || got != want {
			t.Fatalf("header of slot %d: got %+v, %v, want %+v", slot, got, err, want)
		}
	}
	last := req.Slots[len(req.Slots)-1]
	n := req.Len - int64(len(req.Slots)-1)*r.SlotSize()
	pad := dev.Peek(r.geo.payloadOffset(last)+n, int(roundUp(n, 4*kib)-n))
	if !isZero(pad) {
		t.Fatalf("%d bytes: the padding is not zero", req.Len)
	}
}

// TestMixedModels is C37 and C24 in memory: payloads of several models on slots of
// 2 MiB, used slots exact.
func TestMixedModels(t *testing.T) {
	for _, blk := range []int{512, 4096} {
		t.Run(fmt.Sprintf("block %d", blk), func(t *testing.T) {
			r, _ := sim(t, simdev.Options{Size: 280 * mib, Block: blk}, InitOptions{}, Options{})
			mixedModels(t, r)
		})
	}
}

func mixedModels(t *testing.T, r rig) {
	t.Helper()
	var stored []Payload
	used := uint32(0)
	for i, length := range []int64{512 * kib, mla, 24 * mib, 24*mib - 1, 32 * mib, 47 * mib, 80 * mib} {
		p := r.store(t, length, uint64(i+1))
		if want := int((length + 2*mib - 1) / (2 * mib)); len(p.Slots) != want {
			t.Errorf("%d bytes: got %d slots, want %d", length, len(p.Slots), want)
		}
		used += uint32(len(p.Slots))
		r.Move(p.Slots, Reserved, Used)
		stored = append(stored, p)
	}
	if got := r.Counts(); got.Used != used || got.Free != got.Total-used {
		t.Errorf("got %+v, want %d used", got, used)
	}
	if err := r.Flush(); err != nil {
		t.Fatal(err)
	}
	for _, p := range stored {
		r.mustHold(t, p)
	}
}

// TestBatchesOverlap: many goroutines write and read batches; every request gets its
// own answer.
func TestBatchesOverlap(t *testing.T) {
	r, _ := sim(t, simdev.Options{Size: 256 * mib, Block: 512}, InitOptions{SlotSize: mib}, Options{})
	var wg sync.WaitGroup
	for g := range 4 {
		wg.Go(func() {
			var reqs []WriteReq
			for i, length := range []int64{1, mib, mla, 5*mib + 1, 4096, 3 * mib} {
				src, _ := guarded(t, length, int64(i%2), tailOf(length))
				reqs = append(reqs, r.request(t, length, uint64(100*g+i+1), src))
			}
			var loads []ReadReq
			for i, res := range r.write(t, reqs...) {
				if res.err != nil {
					t.Error(res.err)
				}
				q := reqs[i]
				loads = append(loads, ReadReq{
					Payload: Payload{Slots: q.Slots, Len: q.Len, Gen: q.Gen, Sum: res.sum, Seed: q.Seed},
					Dst:     exact(t, q.Len),
				})
			}
			for i, err := range r.read(loads...) {
				if err != nil {
					t.Error(err)
				}
				sameParts(t, loads[i].Dst, loads[i].Gen)
			}
		})
	}
	wg.Wait()
}

func TestShapesAreChecked(t *testing.T) {
	r, dev := sim(t, simdev.Options{Size: 16 * mib}, InitOptions{}, Options{})
	good := r.store(t, 3*mib, 1)
	mem := func(lens ...int) [][]byte {
		var parts [][]byte
		for _, n := range lens {
			parts = append(parts, make([]byte, n))
		}
		return parts
	}
	before := dev.Counts()
	for _, tc := range []struct {
		name  string
		slots []uint32
		len   int64
		mem   [][]byte
	}{
		{"length 0", nil, 0, mem(0)},
		{"negative length", good.Slots, -1, mem(1)},
		{"larger than the slab", good.Slots, 1 << 50, mem(1)},
		{"a slot too few", good.Slots[:1], 3 * mib, mem(mib, mib, mib)},
		{"a slot too many", good.Slots, mib, mem(mib)},
		{"no such slot", []uint32{1 << 20}, mib, mem(mib)},
		{"a part too few", good.Slots, 3 * mib, mem(mib, mib)},
		{"a part too many", good.Slots, 3 * mib, mem(mib, mib, mib, mib)},
		{"short part in the middle", good.Slots, 3 * mib, mem(mib, 1000, mib)},
		{"short last part", good.Slots, 3 * mib, mem(mib, mib, mib-1)},
	} {
		p := Payload{Slots: tc.slots, Len: tc.len, Gen: 1}
		if err := r.read(ReadReq{Payload: p, Dst: tc.mem})[0]; !errors.Is(err, ErrShape) {
			t.Errorf("%s: read: got %v, want ErrShape", tc.name, err)
		}
		w := WriteReq{Slots: tc.slots, Len: tc.len, Gen: 1, Src: tc.mem}
		if err := r.write(t, w)[0].err; !errors.Is(err, ErrShape) {
			t.Errorf("%s: write: got %v, want ErrShape", tc.name, err)
		}
	}
	long := WriteReq{Slots: good.Slots, Len: 3 * mib, Src: mem(mib, mib, mib), Key: string(make([]byte, 5000))}
	if err := r.write(t, long)[0].err; !errors.Is(err, ErrShape) {
		t.Errorf("long key: got %v, want ErrShape", err)
	}
	if got := dev.Counts(); got != before {
		t.Errorf("the device was asked: %+v, before %+v", got, before)
	}
	// A bad request does not spoil the others of its batch.
	errs := r.read(ReadReq{Payload: Payload{}}, ReadReq{Payload: good, Dst: exact(t, good.Len)})
	if !errors.Is(errs[0], ErrShape) || errs[1] != nil {
		t.Errorf("got %v", errs)
	}
	r.Read(nil, nil)
	r.Write(nil, nil)
}

func TestWriteToForeignSlotPanics(t *testing.T) {
	r, dev := sim(t, simdev.Options{Size: 16 * mib}, InitOptions{}, Options{})
	p := r.store(t, 100, 1)
	r.Move(p.Slots, Reserved, Used)
	before := dev.Counts()
	if !panics(func() {
		r.Write([]WriteReq{{Slots: p.Slots, Len: 100, Src: exact(t, 100)}}, func(int, uint64, error) {})
	}) {
		t.Error("a write to a used slot did not panic")
	}
	if got := dev.Counts(); got != before {
		t.Error("the device was asked")
	}
	r.Quarantine(p.Slots)
	if res := r.write(t, WriteReq{Slots: p.Slots, Len: 100, Gen: 2, Src: exact(t, 100)})[0]; res.err != nil {
		t.Errorf("the test of a quarantined slot: %v", res.err)
	}
}

// TestOneOpPerPayload: a payload of one piece travels with its header.
func TestOneOpPerPayload(t *testing.T) {
	var mu sync.Mutex
	var seen []string
	dev := simdev.New(simdev.Options{Size: 32 * mib, Block: 512, Trace: func(dir ioengine.Dir, off int64, n int) {
		mu.Lock()
		defer mu.Unlock()
		seen = append(seen, fmt.Sprintf("%s %d", dir, n))
	}})
	mustInit(t, dev, InitOptions{})
	r := open(t, dev, Options{})
	r.Ready()
	seen = nil
	p := r.store(t, 700*kib+100, 1)
	r.mustHold(t, p)
	if got, want := fmt.Sprint(seen), fmt.Sprint([]string{"write 724992", "read 717312"}); got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// TestHeadComesLast: of a larger payload the head op starts when all others ended.
func TestHeadComesLast(t *testing.T) {
	for _, slot := range []int64{64 * kib, 2 * mib, 16 * mib} {
		sim := simdev.New(simdev.Options{Size: 64 * mib})
		l := mustInit(t, sim, InitOptions{SlotSize: slot})
		var mu sync.Mutex
		running, headAt, ops := 0, -1, 0
		var head int64
		dev := &hooked{Device: sim}
		dev.onWrite = func(vec [][]byte, off int64) (int, error, bool) {
			mu.Lock()
			ops++
			if off == head {
				headAt = ops
				if running != 0 {
					t.Errorf("slot %d: the head op started while %d others ran", slot, running)
				}
			}
			running++
			mu.Unlock()
			n, err := sim.Pwritev(vec, off)
			mu.Lock()
			running--
			mu.Unlock()
			return n, err, true
		}
		r := open(t, dev, Options{})
		r.Ready()
		req := r.request(t, 9*mib+77, 1, exact(t, 9*mib+77))
		head = l.payloadOffset(req.Slots[0]) - HeaderSize
		if res := r.write(t, req)[0]; res.err != nil {
			t.Fatal(res.err)
		}
		if headAt != ops || headAt < 2 {
			t.Errorf("slot %d: the head op was number %d of %d", slot, headAt, ops)
		}
	}
}

// TestServiceTimes proves in fake time that a batch fills the pool: n one-piece
// payloads on 32 workers take ⌈n ÷ 32⌉ service times, and a larger payload two
// (everything, then its head).
func TestServiceTimes(t *testing.T) {
	const service = time.Millisecond
	for _, tc := range []struct {
		n      int
		length int64
		write  time.Duration
		read   time.Duration
	}{
		{1, mib, 1, 1},
		{32, mib, 1, 1},
		{33, mib, 2, 2},
		{128, mib, 4, 4},
		{1, 32 * mib, 2, 1},
		{1, 33 * mib, 2, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			dev := simdev.New(simdev.Options{Size: 300 * mib})
			mustInit(t, dev, InitOptions{})
			slow := &hooked{Device: dev}
			eng := ioengine.NewPread(slow, ioengine.PreadOptions{Workers: 32})
			r := openWith(t, slow, eng, Options{})
			r.Ready()
			src, dst := exact(t, tc.length), exact(t, tc.length)
			wait := func([][]byte, int64) (int, error, bool) { time.Sleep(service); return 0, nil, false }
			slow.onWrite, slow.onRead = wait, wait
			var reqs []WriteReq
			for i := range tc.n {
				reqs = append(reqs, r.request(t, tc.length, uint64(i+1), src))
			}
			start := time.Now()
			results := r.write(t, reqs...)
			if got := time.Since(start); got != tc.write*service {
				t.Errorf("%d × %s: wrote in %v, want %v", tc.n, human(tc.length), got, tc.write*service)
			}
			var loads []ReadReq
			for i, q := range reqs {
				if results[i].err != nil {
					t.Fatal(results[i].err)
				}
				// All read into the same memory, which is fine while nobody verifies it.
				loads = append(loads, ReadReq{Payload: Payload{Slots: q.Slots, Len: q.Len, Gen: q.Gen, Sum: results[i].sum, Seed: q.Seed}, Dst: dst})
			}
			r.verifyOff = true
			start = time.Now()
			for _, err := range r.read(loads...) {
				if err != nil {
					t.Fatal(err)
				}
			}
			if got := time.Since(start); got != tc.read*service {
				t.Errorf("%d × %s: read in %v, want %v", tc.n, human(tc.length), got, tc.read*service)
			}
		})
	}
}

// inline is an engine that does everything on the caller's goroutine.
type inline struct{ ioengine.Device }

func (e inline) Submit(ops []ioengine.Op, done ioengine.Done) {
	for i, op := range ops {
		move := e.Preadv
		if op.Dir == ioengine.Write {
			move = e.Pwritev
		}
		n, err := move(op.Vec, op.Off)
		done(i, n, err)
	}
}
func (e inline) Close() error          { return nil }
func (e inline) Stats() ioengine.Stats { return ioengine.Stats{} }

// TestAllocations: what a call allocates depends on requests and slots, not on pieces.
func TestAllocations(t *testing.T) {
	dev := &hooked{Device: simdev.New(simdev.Options{Size: 300 * mib})}
	mustInit(t, dev, InitOptions{SlotSize: 64 * mib})
	s, err := Open(dev, inline{dev}, Options{})
	if err != nil {
		t.Fatal(err)
	}
	defer func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}()
	s.Ready()
	r := rig{Slab: s, dev: dev}
	dev.onWrite = func(vec [][]byte, _ int64) (int, error, bool) { return vecLen(vec), nil, true }
	dev.onRead = dev.onWrite
	cost := func(length int64) (read, write float64) {
		mem := exact(t, length)
		w := []WriteReq{r.request(t, length, 1, mem)}
		p := Payload{Slots: w[0].Slots, Len: length, Gen: 1, Sum: Sum(mem, length, w[0].Seed^1), Seed: w[0].Seed}
		l := []ReadReq{{Payload: p, Dst: mem}}
		write = testing.AllocsPerRun(10, func() { s.Write(w, func(int, uint64, error) {}) })
		read = testing.AllocsPerRun(10, func() { s.Read(l, func(int, error) {}) })
		s.Move(w[0].Slots, Reserved, Free)
		return read, write
	}
	smallRead, smallWrite := cost(2 * mib)
	largeRead, largeWrite := cost(60 * mib)
	if largeRead > smallRead || largeWrite > smallWrite+1 { // the sums of 60 pieces leave the stack
		t.Errorf("allocations grew with the payload: reads %v to %v, writes %v to %v", smallRead, largeRead, smallWrite, largeWrite)
	}
	if smallRead > 12 || smallWrite > 20 {
		t.Errorf("%v allocations for a read, %v for a write", smallRead, smallWrite)
	}
}

func vecLen(vec [][]byte) int {
	n := 0
	for _, v := range vec {
		n += len(v)
	}
	return n
}
