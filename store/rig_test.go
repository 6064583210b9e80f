// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"context"
	"encoding/binary"
	"fmt"
	"log/slog"
	"slices"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	dto "github.com/prometheus/client_model/go"

	"github.com/rawblockd/rawblockd/internal/simdev"
	"github.com/rawblockd/rawblockd/internal/testdev"
	"github.com/rawblockd/rawblockd/ioengine"
	"github.com/rawblockd/rawblockd/meta"
	"github.com/rawblockd/rawblockd/slab"
)

func TestMain(m *testing.M) { testdev.Main(m) }

const ns = "default"

// rig is a store over simulated devices and an in-memory metadata directory. It
// can be stopped and started again.
type rig struct {
	t     testing.TB
	o     rigOptions
	devs  []*simdev.Device
	engs  []ioengine.Engine
	slabs []*slab.Slab
	fs    vfs.FS
	db    *meta.DB
	arena *ioengine.Arena
	gone  map[int]error // devices that cannot be opened, and why
	clock atomic.Int64  // unix ns
	s     *Store
	draws uint64 // numberings of events that began: the nth starts at n thousand
}

type rigOptions struct {
	slotSize  int64
	slots     int64 // of each slab, roughly
	slabs     int
	workers   int
	relaxed   bool
	quota     int64
	maxPinned float64
	payload   int64
	buffers   int64
	service   func(ioengine.Dir, int) time.Duration
	fs        vfs.FS
	spaces    []Namespace
	interval  time.Duration
	realTime  bool                                  // the process's clock (fake inside synctest) instead of rig.clock
	bounce    int64                                 // bytes of a slab's bounce memory
	minFree   int64                                 // bytes
	slotSizes []int64                               // of each slab, instead of slotSize
	gone      map[int]error                         // rig.gone at first
	engine    func(ioengine.Engine) ioengine.Engine // what the store gets instead
	relaxedOn []int                                 // the slabs that are relaxed, instead of relaxed
	verifyOff bool
}

func newRig(t testing.TB, change ...func(*rigOptions)) *rig {
	t.Helper()
	o := rigOptions{
		slotSize: 64 << 10, slots: 64, slabs: 1, workers: 8, maxPinned: 0.5, payload: 8 << 20, buffers: 64 << 20,
		interval: time.Hour, spaces: []Namespace{{Name: ns}},
	}
	for _, c := range change {
		c(&o)
	}
	r := &rig{t: t, o: o, fs: o.fs, gone: o.gone}
	r.clock.Store(time.Unix(1_800_000_000, 0).UnixNano())
	if r.fs == nil {
		r.fs = vfs.NewMem()
	}
	for i := range o.slabs {
		if len(o.slotSizes) > 0 {
			o.slotSize = o.slotSizes[i]
		}
		dev := simdev.New(simdev.Options{Size: 2<<20 + (o.slots*(o.slotSize+4096)+1<<20-1)&^(1<<20-1), Block: 512, Service: o.service, Parallel: 64})
		if _, err := slab.InitDevice(dev, slab.InitOptions{SlotSize: o.slotSize, Name: fmt.Sprint("s", i)}); err != nil {
			t.Fatal(err)
		}
		r.devs = append(r.devs, dev)
	}
	r.start()
	t.Cleanup(r.end)
	return r
}

// exactly makes a slab of n slots, each with its header one MiB.
func exactly(n int64) func(*rigOptions) {
	return func(o *rigOptions) { o.slotSize, o.slots = 1<<20-4096, n }
}

func quiet() *slog.Logger { return slog.New(slog.DiscardHandler) }

// open starts the store and returns what Open says.
func (r *rig) open() error {
	var err error
	if r.db, err = meta.Open(meta.Options{Path: "meta", FS: r.fs, CacheSize: 1 << 20, MemTableSize: 256 << 10, Log: quiet()}); err != nil {
		return err
	}
	if r.arena, err = ioengine.NewArena(r.o.buffers); err != nil {
		r.t.Fatal(err)
	}
	so := Options{
		Meta: r.db, Namespaces: r.o.spaces, DefaultTTL: 30 * time.Second, MaxTTL: 10 * time.Minute, MaxPinned: r.o.maxPinned,
		MaxPayload: r.o.payload, Buffers: r.arena, Now: func() time.Time { return time.Unix(0, r.clock.Load()) }, Log: quiet(), SyncInterval: r.o.interval, MinFree: r.o.minFree,
	}
	if r.o.realTime {
		so.Now = time.Now
	}
	for i := range so.Namespaces {
		if r.o.quota > 0 {
			so.Namespaces[i].Quota = r.o.quota
		}
	}
	for i, dev := range r.devs {
		name := fmt.Sprint("s", i)
		if why := r.gone[i]; why != nil {
			so.Slabs = append(so.Slabs, SlabConfig{Name: name, Device: dev.Path(), Relaxed: r.o.relaxed, Missing: why})
			r.engs, r.slabs = append(r.engs, nil), append(r.slabs, nil)
			continue
		}
		var eng ioengine.Engine = ioengine.NewPread(dev, ioengine.PreadOptions{Workers: r.o.workers, InflightBytes: 64 << 20})
		if r.o.engine != nil {
			eng = r.o.engine(eng)
		}
		r.engs = append(r.engs, eng)
		sl, err := slab.Open(dev, eng, slab.Options{Name: name, Log: quiet(), BounceBytes: r.o.bounce, VerifyOff: r.o.verifyOff})
		if err != nil {
			return err
		}
		r.slabs = append(r.slabs, sl)
		so.Slabs = append(so.Slabs, SlabConfig{Slab: sl, Relaxed: r.o.relaxed || slices.Contains(r.o.relaxedOn, len(so.Slabs))})
	}
	r.s, err = Open(context.Background(), so)
	return err
}

func (r *rig) start() {
	r.t.Helper()
	if err := r.open(); err != nil {
		r.t.Fatalf("open: %v", err)
	}
	r.s.events.draw = func() uint64 { // under events.mu
		r.draws++
		return 1000 * r.draws
	}
}

// shut stops everything; errors of a store whose metadata failed are expected.
func (r *rig) shut() {
	r.t.Helper()
	if r.s != nil {
		if err := r.s.Close(); err != nil && r.s.commits.broken() == nil {
			r.t.Errorf("close store: %v", err)
		}
	}
	for _, sl := range r.slabs {
		if sl == nil {
			continue
		}
		if err := sl.Close(); err != nil {
			r.t.Errorf("close slab: %v", err)
		}
	}
	for _, e := range r.engs {
		if e == nil {
			continue
		}
		if err := e.Close(); err != nil {
			r.t.Errorf("close engine: %v", err)
		}
	}
	if r.db != nil {
		if err := r.db.Close(); err != nil {
			if _, failed := r.db.Failed(); !failed {
				r.t.Errorf("close meta: %v", err)
			}
		}
	}
	if r.arena != nil {
		if err := r.arena.Close(); err != nil {
			r.t.Errorf("memory left behind: %v", err)
		}
	}
	r.s, r.db, r.arena, r.slabs, r.engs = nil, nil, nil, nil, nil
}

func (r *rig) restart() {
	r.t.Helper()
	r.shut()
	r.start()
}

// end checks that nothing is left behind and that the states add up.
func (r *rig) end() {
	r.t.Helper()
	if r.t.Failed() {
		for _, d := range r.devs {
			d.ReleaseAll() // else what hangs still would keep it from the end
		}
	}
	if r.s != nil {
		r.s.work.Wait()
		r.checkStates()
	}
	r.shut()
}

func (r *rig) checkStates() {
	r.t.Helper()
	r.s.mu.Lock()
	defer r.s.mu.Unlock()
	for v, vol := range r.s.volumes {
		c := vol.slab.Counts()
		sum := c.Free + c.Reserved + c.Used + c.Deleting + c.Retired + c.Quarantined
		if sum != c.Total || c.Total != vol.slab.SlotCount() {
			r.t.Errorf("slab %d: states add up to %d of %d: %+v", v, sum, c.Total, c)
		}
		used := 0
		for h := vol.base; h < vol.end(); h++ {
			if r.s.x.life[h] == live {
				used += len(r.s.x.chain(nil, h))
			}
		}
		if used != int(c.Used) {
			r.t.Errorf("slab %d: entries have %d slots, %d are used", v, used, c.Used)
		}
	}
	r.checkAccountsLocked()
	for h, n := range r.s.x.refs {
		if n != 0 {
			r.t.Errorf("slot id %d has %d references left", h, n)
		}
	}
	if len(r.s.claims) != 0 {
		r.t.Errorf("%d claims left", len(r.s.claims))
	}
}

// checkAccountsLocked compares what namespaces are charged with what they have.
// Nothing may be under way but deletes.
// +checklocks:r.s.mu
func (r *rig) checkAccountsLocked() {
	r.t.Helper()
	x := r.s.x
	used, pinned, entries, wasted := map[uint16]int64{}, map[uint16]int64{}, map[uint16]int64{}, map[uint16]int64{}
	for h := range x.life {
		h := id(h)
		switch x.life[h] {
		case live:
			entries[x.ns[h]]++
			used[x.ns[h]] += r.s.sizeLocked(h)
			wasted[x.ns[h]] += r.s.sizeLocked(h) - int64(x.length[h])
			if x.pins[h] > 0 {
				pinned[x.ns[h]] += r.s.sizeLocked(h)
			}
		case dying, retired, unserved:
			used[x.ns[h]] += r.s.sizeLocked(h)
		}
	}
	for _, sp := range r.s.spaces {
		if sp.used != used[sp.num] || sp.pinned != pinned[sp.num] || sp.entries != entries[sp.num] || sp.wasted != wasted[sp.num] {
			r.t.Errorf("namespace %q: used %d, pinned %d, entries %d, wasted %d; the index has %d, %d, %d, %d",
				sp.name, sp.used, sp.pinned, sp.entries, sp.wasted, used[sp.num], pinned[sp.num], entries[sp.num], wasted[sp.num])
		}
	}
}

// payload is n bytes that only this key and version have.
func payload(key string, version, n int) []byte {
	out := make([]byte, n)
	seed := slab.KeySeed(key, fmt.Sprint(version))
	for i := 0; i < n; i += 8 {
		seed = seed*6364136223846793005 + 1442695040888963407
		var w [8]byte
		binary.LittleEndian.PutUint64(w[:], seed)
		copy(out[i:], w[:])
	}
	return out
}

func (r *rig) item(key string, data []byte) StoreItem {
	r.t.Helper()
	buf, err := r.s.Buffer(context.Background(), int64(len(data)))
	if err != nil {
		r.t.Fatal(err)
	}
	rest := data
	for _, c := range buf.Chunks() {
		rest = rest[copy(c, rest):]
	}
	return StoreItem{Key: key, Len: int64(len(data)), Buf: buf}
}

// store stores version 1 of keys, n bytes each, as one batch.
func (r *rig) store(n int, o StoreOptions, keys ...string) []StoreResult {
	r.t.Helper()
	return r.storeVersion(1, n, o, keys...)
}

func (r *rig) storeVersion(version, n int, o StoreOptions, keys ...string) []StoreResult {
	r.t.Helper()
	st, err := r.s.BeginStore(context.Background(), ns, o)
	if err != nil {
		r.t.Fatal(err)
	}
	for _, k := range keys {
		st.Add(r.item(k, payload(k, version, n)))
	}
	res, err := st.Commit()
	if err != nil {
		r.t.Fatal(err)
	}
	return res
}

// mustStore stores keys that must all become ok.
func (r *rig) mustStore(n int, keys ...string) {
	r.t.Helper()
	for _, x := range r.store(n, StoreOptions{}, keys...) {
		if x.Status != OK {
			r.t.Fatalf("store %q: %v (%v)", x.Key, x.Status, x.Err)
		}
	}
}

// load loads keys and checks the bytes of those that are ok.
func (r *rig) load(version int, keys ...string) []Status {
	r.t.Helper()
	l, err := r.s.Load(context.Background(), ns, keys)
	if err != nil {
		r.t.Fatal(err)
	}
	defer l.Close()
	var out []Status
	for {
		it, ok := l.Next()
		if !ok {
			return out
		}
		out = append(out, it.Status)
		if it.Status == OK {
			if got, want := bytesOf(it), payload(it.Key, version, int(it.Bytes)); !bytes.Equal(got, want) {
				r.t.Errorf("load %q: wrong bytes", it.Key)
			}
			it.Buf.Release()
		}
	}
}

func bytesOf(it LoadItem) []byte {
	var out []byte
	for _, c := range it.Buf.Chunks() {
		out = append(out, c...)
	}
	return out[:it.Bytes]
}

func (r *rig) lookup(keys ...string) []Status {
	r.t.Helper()
	res, err := r.s.Lookup(context.Background(), ns, keys, LookupOptions{})
	if err != nil {
		r.t.Fatal(err)
	}
	return statuses(res.Results)
}

func (r *rig) remove(force bool, keys ...string) RemoveResult {
	r.t.Helper()
	res, err := r.s.Remove(context.Background(), ns, keys, force)
	if err != nil {
		r.t.Fatal(err)
	}
	return res
}

func (r *rig) pin(keys ...string) *Lease {
	r.t.Helper()
	res, err := r.s.Pin(context.Background(), ns, keys, LeaseRequest{Owner: "test"})
	if err != nil {
		r.t.Fatal(err)
	}
	if res.Lease == nil {
		r.t.Fatalf("pin %q: no lease: %+v", keys, res.Results)
	}
	return res.Lease
}

func statuses(rs []KeyResult) []Status {
	out := make([]Status, len(rs))
	for i := range rs {
		out[i] = rs[i].Status
	}
	return out
}

func names(n int) []string {
	out := make([]string, n)
	for i := range out {
		out[i] = fmt.Sprintf("key-%05d", i)
	}
	return out
}

func all(n int, st Status) []Status {
	out := make([]Status, n)
	for i := range out {
		out[i] = st
	}
	return out
}

// sweep does what the sweeper does when all is due.
func (r *rig) sweep() {
	r.s.sweepLeases()
	r.s.sweepAll()
}

// metric reads one metric.
func (r *rig) metric(m any) *dto.Metric {
	r.t.Helper()
	var out dto.Metric
	if err := m.(interface{ Write(*dto.Metric) error }).Write(&out); err != nil {
		r.t.Fatal(err)
	}
	return &out
}

// acquisitions is how often the pin lock was taken for op.
func (r *rig) acquisitions(op lockOp) uint64 {
	r.t.Helper()
	return r.metric(r.s.metrics.lockHold[op]).GetHistogram().GetSampleCount()
}

// counts is the states of the first slab's slots.
func (r *rig) counts() slab.Counts { return r.slabs[0].Counts() }
