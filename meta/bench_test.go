// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"fmt"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
)

func benchRow(i int) Row {
	return Row{Namespace: "llama-70b", Key: fmt.Sprintf("%064x", i*0x9e3779b1), Gen: uint64(i + 1), Len: 2 << 20, Sum: uint64(i) * 0x9e3779b97f4a7c15, StoredAt: 1700000000000}
}

// BenchmarkScan reads 200,000 rows; one op is one row.
func BenchmarkScan(b *testing.B) {
	const n = 200_000
	db, err := Open(Options{Path: testPath, FS: vfs.NewMem(), CacheSize: 256 << 20})
	if err != nil {
		b.Fatal(err)
	}
	defer mustClose(b, db)
	batch := db.NewBatch()
	for i := range n {
		r := benchRow(i)
		if batch.Set(inc(1), uint32(i), &r); batch.Len() == 1000 {
			if err := db.Commit(batch, false); err != nil {
				b.Fatal(err)
			}
			batch = db.NewBatch()
		}
	}
	if err := db.pb.Flush(); err != nil {
		b.Fatal(err)
	}
	b.ReportAllocs()
	b.ResetTimer()
	for left := b.N; left > 0; {
		err := db.Scan(inc(1), 0, 0, func(uint32, Row, error) bool { left--; return left > 0 })
		if err != nil {
			b.Fatal(err)
		}
	}
}

// BenchmarkOpen is a crash campaign's share: open and close over memory.
func BenchmarkOpen(b *testing.B) {
	fs := vfs.NewMem()
	mustClose(b, mustOpen(b, fs))
	b.ReportAllocs()
	for b.Loop() {
		mustClose(b, mustOpen(b, fs))
	}
}

// BenchmarkFirstOpen builds the store each time.
func BenchmarkFirstOpen(b *testing.B) {
	b.ReportAllocs()
	for b.Loop() {
		mustClose(b, mustOpen(b, vfs.NewCrashableMem()))
	}
}

// BenchmarkCommit stores a batch of 64 rows, synced to memory.
func BenchmarkCommit(b *testing.B) {
	db, err := Open(Options{Path: testPath, FS: vfs.NewMem()})
	if err != nil {
		b.Fatal(err)
	}
	defer mustClose(b, db)
	r := benchRow(1)
	b.ReportAllocs()
	for b.Loop() {
		batch := db.NewBatch()
		for h := range uint32(64) {
			batch.Set(inc(1), h, &r)
		}
		if err := db.Commit(batch, true); err != nil {
			b.Fatal(err)
		}
	}
}
