// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/rawblockd/rawblockd/internal/testdev"
	"github.com/rawblockd/rawblockd/ioengine"
	"github.com/rawblockd/rawblockd/meta"
	"github.com/rawblockd/rawblockd/slab"
)

// BenchmarkBatchWindow loads one batch of 32 payloads of 24 MiB from a loop device,
// with the whole stream budget for the batch and with shares of it, one after the
// other in each round. It reports the median of each round's ratios of time, share
// to whole: what the window costs a single batch. The taker copies each payload, as
// a socket does.
func BenchmarkBatchWindow(b *testing.B) {
	const n, size = 32, 24 << 20
	for _, budget := range []int64{256 << 20, 512 << 20} {
		s := realStore(b, n, size, budget)
		shares := []int64{1, 2, windowShare, 8}
		b.Run(fmt.Sprintf("budget=%dMiB", budget>>20), func(b *testing.B) {
			ratios := make([][]float64, len(shares))
			var whole []float64
			for i := 0; b.Loop(); i++ {
				took := make([]float64, len(shares))
				for k := range shares { // each round begins with another one
					j := (i + k) % len(shares)
					took[j] = loadBatch(b, s, names(n), budget/shares[j]).Seconds()
				}
				whole = append(whole, took[0])
				for j := range shares {
					ratios[j] = append(ratios[j], took[j]/took[0])
				}
			}
			b.ReportMetric(n*size/median(whole)/(1<<20), "MiB/s")
			for j, share := range shares[1:] {
				b.ReportMetric(median(ratios[j+1]), fmt.Sprintf("ratio-1/%d", share))
			}
		})
	}
}

func median(x []float64) float64 {
	slices.Sort(x)
	return x[len(x)/2]
}

func loadBatch(b *testing.B, s *Store, keys []string, share int64) time.Duration {
	b.Helper()
	sink := make([]byte, ioengine.PieceSize)
	began := time.Now()
	l, err := s.loadWithin(context.Background(), ns, keys, 0, share)
	if err != nil {
		b.Fatal(err)
	}
	defer l.Close()
	for it, more := l.Next(); more; it, more = l.Next() {
		if it.Status != OK {
			b.Fatalf("%q: %v (%v)", it.Key, it.Status, it.Err)
		}
		for _, c := range it.Buf.Chunks() {
			copy(sink, c)
		}
		it.Buf.Release()
	}
	return time.Since(began)
}

// realStore is a store on a loop device that holds n keys.
func realStore(b *testing.B, n int, size, budget int64) *Store {
	b.Helper()
	file, err := slab.OpenDevice(testdev.Loop(b, int64(n)*(size+2<<20)+8<<20, 512))
	if err != nil {
		b.Fatal(err)
	}
	if _, err := slab.InitDevice(file, slab.InitOptions{SlotSize: 2 << 20, Name: "real"}); err != nil {
		b.Fatal(err)
	}
	eng := ioengine.NewPread(file, ioengine.PreadOptions{Workers: 32, InflightBytes: 256 << 20})
	sl, err := slab.Open(file, eng, slab.Options{Name: "real", Log: quiet()})
	if err != nil {
		b.Fatal(err)
	}
	db, err := meta.Open(meta.Options{Path: "meta", FS: vfs.NewMem(), CacheSize: 1 << 20, MemTableSize: 256 << 10, Log: quiet()})
	if err != nil {
		b.Fatal(err)
	}
	arena, err := ioengine.NewArena(budget)
	if err != nil {
		b.Fatal(err)
	}
	s, err := Open(context.Background(), Options{
		Slabs: []SlabConfig{{Slab: sl}}, Meta: db, Namespaces: []Namespace{{Name: ns}}, DefaultTTL: time.Minute, MaxTTL: time.Hour,
		MaxPinned: 0.5, MaxPayload: size, Buffers: arena, Log: quiet(), SyncInterval: time.Hour,
	})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() {
		for _, end := range []func() error{s.Close, sl.Close, eng.Close, db.Close, arena.Close, file.Close} {
			if err := end(); err != nil {
				b.Error(err)
			}
		}
	})
	r := &rig{t: b, s: s}
	r.mustStore(int(size), names(n)...)
	return s
}
