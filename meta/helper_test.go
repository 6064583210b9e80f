// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/google/go-cmp/cmp"

	"github.com/rawblockd/rawblockd/internal/testdev"
)

func TestMain(m *testing.M) { testdev.Main(m) }

const testPath = "var/meta"

func inc(n byte) Incarnation { return Incarnation{0: n, 15: n} }

func mustOpen(t testing.TB, fs vfs.FS) *DB {
	t.Helper()
	db, err := Open(smallOptions(fs))
	if err != nil {
		t.Fatal(err)
	}
	return db
}

// smallOptions makes flushes and compactions happen within a hundred rows.
func smallOptions(fs vfs.FS) Options {
	return Options{Path: testPath, FS: fs, MemTableSize: 64 << 10, CacheSize: 64 << 10}
}

func mustClose(t testing.TB, db *DB) {
	t.Helper()
	if err := db.Close(); err != nil {
		t.Fatal(err)
	}
}

func put(db *DB, i Incarnation, head uint32, r Row, sync bool) error {
	b := db.NewBatch()
	b.Set(i, head, &r)
	return db.Commit(b, sync)
}

// rows reads a whole slab; undecodable rows fail the test.
func rows(t testing.TB, db *DB, i Incarnation) map[uint32]Row {
	t.Helper()
	m := map[uint32]Row{}
	err := db.Scan(i, 0, 0, func(head uint32, r Row, err error) bool {
		if err != nil {
			t.Errorf("row in slot %d: %v", head, err)
		}
		m[head] = r
		return true
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func isChange(op errorfs.Op) bool {
	return op.Kind.ReadOrWrite() == errorfs.OpIsWrite && op.Kind != errorfs.OpFileClose && op.Kind != errorfs.OpFilePreallocate
}

func isFile(op errorfs.Op, suffixes ...string) bool {
	for _, s := range suffixes {
		if strings.HasSuffix(op.Path, s) || strings.Contains(op.Path, "/"+s) {
			return true
		}
	}
	return false
}

func clone(fs *vfs.MemFS, percent int, seed uint64) *vfs.MemFS {
	return fs.CrashClone(vfs.CrashCloneCfg{UnsyncedDataPercent: percent, RNG: rand.New(rand.NewPCG(seed, 0))})
}

// history is a workload whose every prefix is a distinct, checkable state:
// step i stores row i and deletes row i−window; every third step syncs.
type history struct {
	steps  int
	acked  atomic.Int64 // steps that a nil made durable
	issued atomic.Int64 // steps begun
}

const (
	window   = 20
	syncEach = 3
)

func stepRow(i int) Row {
	return Row{
		Namespace: "ns", Key: fmt.Sprintf("key-%d-%s", i, strings.Repeat("k", 2000)),
		Gen: uint64(i + 1), Len: uint64(i), More: []uint32{uint32(i) + 7}, Sum: uint64(i) * 31,
	}
}

// run returns the first error; whatever it acknowledged is in acked.
func (h *history) run(db *DB) error {
	for i := range h.steps {
		h.issued.Store(int64(i + 1))
		sync := i%syncEach == 0
		b := db.NewBatch()
		r := stepRow(i)
		b.Set(inc(1), uint32(i), &r)
		if i >= window {
			b.Delete(inc(1), uint32(i-window))
		}
		if err := db.Commit(b, sync); err != nil {
			return err
		}
		if sync {
			h.acked.Store(int64(i + 1))
		}
	}
	return nil
}

// check demands the state after m whole steps, acked ≤ m ≤ issued.
func (h *history) check(t testing.TB, db *DB, acked, issued int64) {
	t.Helper()
	got := rows(t, db, inc(1))
	var m int64
	for _, r := range got {
		m = max(m, int64(r.Gen))
	}
	if m < acked || m > issued {
		t.Fatalf("%d steps survived, want between %d acknowledged and %d issued", m, acked, issued)
	}
	want := map[uint32]Row{}
	for i := max(0, m-window); i < m; i++ {
		want[uint32(i)] = stepRow(int(i))
	}
	if d := cmp.Diff(want, got); d != "" {
		t.Fatalf("state is no prefix of the history (after %d steps, -want +got):\n%s", m, d)
	}
}

// reopen recovers a crash image and checks it.
func (h *history) reopen(t testing.TB, fs vfs.FS, acked, issued int64) {
	t.Helper()
	db, err := Open(smallOptions(fs))
	if err != nil {
		t.Fatalf("open after a crash: %v", err)
	}
	defer mustClose(t, db)
	h.check(t, db, acked, issued)
}

func wantFailed(t testing.TB, what string, err error) {
	t.Helper()
	if !errors.Is(err, ErrFailed) {
		t.Errorf("%s: got %v, want ErrFailed", what, err)
	}
}
