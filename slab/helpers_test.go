// SPDX-License-Identifier: Apache-2.0

package slab

import (
	"bytes"
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"sync"
	"testing"

	"github.com/rawblockd/rawblockd/internal/simdev"
	"github.com/rawblockd/rawblockd/internal/testdev"
	"github.com/rawblockd/rawblockd/ioengine"
)

func TestMain(m *testing.M) { testdev.Main(m) }

const (
	kib = 1 << 10
	mib = 1 << 20
)

// rig is a slab with its engine and device.
type rig struct {
	*Slab
	dev ioengine.Device
	eng *ioengine.Pread
}

// open opens an initialised device and closes everything with the test.
func open(t testing.TB, dev ioengine.Device, o Options) rig {
	t.Helper()
	return openWith(t, dev, ioengine.NewPread(dev, ioengine.PreadOptions{Workers: 8}), o)
}

func openWith(t testing.TB, dev ioengine.Device, eng *ioengine.Pread, o Options) rig {
	t.Helper()
	s, err := Open(dev, eng, o)
	if err != nil {
		_ = eng.Close()
		t.Fatalf("open: %v", err)
	}
	t.Cleanup(func() {
		if err := s.Close(); err != nil && !errors.Is(err, ErrClosed) {
			t.Errorf("close slab: %v", err)
		}
		if err := eng.Close(); err != nil {
			t.Errorf("close engine: %v", err)
		}
	})
	return rig{Slab: s, dev: dev, eng: eng}
}

// sim makes a simulated device with a slab on it, all of whose slots are free.
func sim(t testing.TB, d simdev.Options, i InitOptions, o Options) (rig, *simdev.Device) {
	t.Helper()
	dev := simdev.New(d)
	mustInit(t, dev, i)
	r := open(t, dev, o)
	r.Ready()
	return r, dev
}

func mustInit(t testing.TB, dev ioengine.Device, o InitOptions) Label {
	t.Helper()
	l, err := InitDevice(dev, o)
	if err != nil {
		t.Fatalf("init: %v", err)
	}
	return l
}

// fill writes the bytes that generation gen of a payload has: a wrong byte shows by
// itself, and so does a block in the wrong place.
func fill(parts [][]byte, gen uint64) {
	for n, part := range parts {
		fillPart(part, n, gen)
	}
}

func fillPart(part []byte, n int, gen uint64) {
	var seed [32]byte
	binary.LittleEndian.PutUint64(seed[:], gen)
	rng := rand.NewChaCha8(seed)
	page := make([]byte, 4*kib)
	_, _ = rng.Read(page)
	for off := 0; off < len(part); off += len(page) {
		binary.LittleEndian.PutUint64(page, uint64(n*mib+off)^gen<<40)
		copy(part[off:], page)
	}
}

// alignedParts allocates memory for a payload: parts of PieceSize that the device can
// reach directly, the last one tail bytes long.
func alignedParts(t testing.TB, length, tail int64) [][]byte {
	t.Helper()
	n := pieces(length)
	buf, free, err := ioengine.AlignedAlloc(n * ioengine.PieceSize)
	if err != nil {
		t.Fatalf("memory: %v", err)
	}
	t.Cleanup(free)
	return cut(buf, n, tail)
}

// cut makes parts out of one buffer.
func cut(buf []byte, n int, tail int64) [][]byte {
	parts := make([][]byte, n)
	for i := range parts {
		parts[i] = buf[i*ioengine.PieceSize : (i+1)*ioengine.PieceSize]
	}
	parts[n-1] = parts[n-1][:tail]
	return parts
}

// tailOf is the length of the last part if it ends with the payload.
func tailOf(length int64) int64 { return length - int64(pieces(length)-1)*ioengine.PieceSize }

// exact allocates memory that ends where the payload ends.
func exact(t testing.TB, length int64) [][]byte {
	t.Helper()
	return alignedParts(t, length, tailOf(length))
}

// request makes a write of pattern gen into fresh slots.
func (r rig) request(t testing.TB, length int64, gen uint64, src [][]byte) WriteReq {
	t.Helper()
	slots, ok := r.Reserve(r.SlotsFor(length))
	if !ok {
		t.Fatalf("no room for %d bytes: %+v", length, r.Counts())
	}
	fill(src, gen)
	return WriteReq{
		Slots: slots, Len: length, Gen: gen, Namespace: "ns", Key: "key", Seed: KeySeed("ns", "key"),
		StoredAt: 1700000000000, Src: src,
	}
}

// result is what became of one write.
type result struct {
	sum uint64
	err error
}

// write writes and waits; it checks that done runs once per request.
func (r rig) write(t testing.TB, reqs ...WriteReq) []result {
	t.Helper()
	results := make([]result, len(reqs))
	var mu sync.Mutex
	seen := make([]int, len(reqs))
	var wg sync.WaitGroup
	wg.Add(len(reqs))
	r.Write(reqs, func(i int, sum uint64, err error) {
		mu.Lock()
		defer mu.Unlock()
		results[i] = result{sum, err}
		seen[i]++
		wg.Done()
	})
	wg.Wait()
	mu.Lock()
	defer mu.Unlock()
	for i, n := range seen {
		if n != 1 {
			t.Fatalf("done ran %d times for write %d", n, i)
		}
	}
	return results
}

// read reads and waits.
func (r rig) read(reqs ...ReadReq) []error {
	errs := make([]error, len(reqs))
	var wg sync.WaitGroup
	wg.Add(len(reqs))
	r.Read(reqs, func(i int, err error) {
		errs[i] = err
		wg.Done()
	})
	wg.Wait()
	return errs
}

// store writes one payload that must succeed and returns where it is.
func (r rig) store(t testing.TB, length int64, gen uint64) Payload {
	t.Helper()
	req := r.request(t, length, gen, exact(t, length))
	res := r.write(t, req)[0]
	if res.err != nil {
		t.Fatalf("write: %v", res.err)
	}
	return Payload{Slots: req.Slots, Len: length, Gen: gen, Sum: res.sum, Seed: req.Seed}
}

// load reads a payload into fresh exact memory.
func (r rig) load(t testing.TB, p Payload) ([][]byte, error) {
	t.Helper()
	dst := exact(t, p.Len)
	return dst, r.read(ReadReq{Payload: p, Dst: dst})[0]
}

// mustHold reads a payload and compares it with pattern gen.
func (r rig) mustHold(t testing.TB, p Payload) {
	t.Helper()
	got, err := r.load(t, p)
	if err != nil {
		t.Fatalf("read %d bytes: %v", p.Len, err)
	}
	sameParts(t, got, p.Gen)
}

func sameParts(t testing.TB, got [][]byte, gen uint64) {
	t.Helper()
	want := make([]byte, mib)
	for i, part := range got {
		fillPart(want[:len(part)], i, gen)
		if !bytes.Equal(part, want[:len(part)]) {
			t.Fatalf("part %d of %d differs from what was written", i, len(got))
		}
	}
}

// hooked is a device whose calls a test sees, blocks or answers itself.
type hooked struct {
	ioengine.Device
	onRead, onWrite func(vec [][]byte, off int64) (n int, err error, mine bool)
	onFlush         func() error
}

func (h *hooked) Preadv(vec [][]byte, off int64) (int, error) {
	if h.onRead != nil {
		if n, err, mine := h.onRead(vec, off); mine {
			return n, err
		}
	}
	return h.Device.Preadv(vec, off)
}

func (h *hooked) Pwritev(vec [][]byte, off int64) (int, error) {
	if h.onWrite != nil {
		if n, err, mine := h.onWrite(vec, off); mine {
			return n, err
		}
	}
	return h.Device.Pwritev(vec, off)
}

func (h *hooked) Flush() error {
	if h.onFlush != nil {
		if err := h.onFlush(); err != nil {
			return err
		}
	}
	return h.Device.Flush()
}
