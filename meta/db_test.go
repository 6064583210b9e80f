// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"testing"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/google/go-cmp/cmp"
)

func TestEverythingSurvivesOnDisk(t *testing.T) {
	o := Options{Path: filepath.Join(t.TempDir(), "a", "b", "meta"), MinFree: 1 << 20}
	db, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	b := db.NewBatch()
	want := map[uint32]Row{}
	for _, head := range []uint32{0, 1, 255, 256, math.MaxUint32} {
		want[head] = stepRow(int(head & 0xffff))
		r := want[head]
		b.Set(inc(1), head, &r)
	}
	b.SetMount(inc(2), 7)
	b.SetMount(inc(0xff), math.MaxUint64)
	b.Quarantine(inc(1), 3, "read error at offset 4096")
	b.Quarantine(inc(1), 4, "")
	if b.Len() != 9 {
		t.Errorf("Len() = %d, want 9", b.Len())
	}
	if err := db.Commit(b, false); err != nil { // the clean Close must sync it
		t.Fatal(err)
	}
	mustClose(t, db)
	mustClose(t, db)
	if _, err := os.Stat(filepath.Join(o.Path, ballastName)); err != nil {
		t.Errorf("ballast: %v", err)
	}

	if db, err = Open(o); err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, db)
	if d := cmp.Diff(want, rows(t, db, inc(1))); d != "" {
		t.Errorf("rows (-want +got):\n%s", d)
	}
	if free, err := db.Free(); err != nil || free == 0 {
		t.Errorf("Free() = %d, %v", free, err)
	}
	checkSmallRows(t, db)
}

func checkSmallRows(t *testing.T, db *DB) {
	t.Helper()
	if n, ok, err := db.Mount(inc(2)); n != 7 || !ok || err != nil {
		t.Errorf("Mount = %d, %v, %v", n, ok, err)
	}
	if _, ok, err := db.Mount(inc(1)); ok || err != nil {
		t.Errorf("Mount of a slab never mounted = %v, %v", ok, err)
	}
	all, err := db.Incarnations()
	if d := cmp.Diff([]Incarnation{inc(2), inc(0xff)}, all); d != "" || err != nil {
		t.Errorf("Incarnations: %v (-want +got):\n%s", err, d)
	}
	got := map[uint32]string{}
	err = db.Quarantined(inc(1), func(slot uint32, reason string) { got[slot] = reason })
	if d := cmp.Diff(map[uint32]string{3: "read error at offset 4096", 4: ""}, got); d != "" || err != nil {
		t.Errorf("Quarantined: %v (-want +got):\n%s", err, d)
	}
}

func TestScanBoundsOrderAndStop(t *testing.T) {
	db := mustOpen(t, vfs.NewMem())
	defer mustClose(t, db)
	heads := []uint32{0, 1, 2, 255, 256, 65536, math.MaxUint32}
	b := db.NewBatch()
	for _, i := range []Incarnation{inc(1), inc(2), inc(3), {}, {15: 1}} {
		for _, h := range heads {
			b.Set(i, h, &Row{Gen: uint64(h) + 1})
		}
		b.Quarantine(i, 5, "")
		b.SetMount(i, 1)
	}
	if err := db.Commit(b, true); err != nil {
		t.Fatal(err)
	}
	top := Incarnation(bytes.Repeat([]byte{0xff}, 16))
	if err := put(db, top, math.MaxUint32, Row{Gen: 1}, true); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		inc      Incarnation
		from, to uint32
		want     []uint32
	}{
		{inc(2), 0, 0, heads},
		{inc(2), 1, 256, heads[1:4]},
		{inc(2), 256, 257, heads[4:5]},
		{inc(2), 3, 200, nil},
		{inc(2), math.MaxUint32, 0, heads[6:]},
		{inc(2), 0, math.MaxUint32, heads[:6]},
		{inc(9), 0, 0, nil},
		{Incarnation{}, 0, 0, heads},
		{top, 0, 0, heads[6:]},
	} {
		var got []uint32
		err := db.Scan(c.inc, c.from, c.to, func(head uint32, r Row, err error) bool {
			if err != nil || r.Gen != uint64(head)+1 && c.inc != top {
				t.Errorf("slot %d: generation %d, %v", head, r.Gen, err)
			}
			got = append(got, head)
			return true
		})
		if d := cmp.Diff(c.want, got); d != "" || err != nil {
			t.Errorf("Scan(%v, %d, %d): %v (-want +got):\n%s", c.inc, c.from, c.to, err, d)
		}
	}
	n := 0
	if err := db.Scan(inc(2), 0, 0, func(uint32, Row, error) bool { n++; return n < 3 }); err != nil || n != 3 {
		t.Errorf("a false after 3 rows: %d rows, %v", n, err)
	}
}

// What Scan hands out must not change under the caller's feet.
func TestScannedRowsMayBeKept(t *testing.T) {
	db := mustOpen(t, vfs.NewMem())
	defer mustClose(t, db)
	want := map[uint32]Row{}
	for i := range 50 {
		r := stepRow(i)
		r.Namespace = fmt.Sprint("ns", i/7%3)
		r.More = r.More[:i%2]
		if i%2 == 0 {
			r.More = nil
		}
		want[uint32(i)] = r
		if err := put(db, inc(1), uint32(i), r, false); err != nil {
			t.Fatal(err)
		}
	}
	if d := cmp.Diff(want, rows(t, db, inc(1))); d != "" {
		t.Errorf("(-want +got):\n%s", d)
	}
}

func TestDeleteUnquarantineForget(t *testing.T) {
	db := mustOpen(t, vfs.NewMem())
	defer mustClose(t, db)
	b := db.NewBatch()
	for i := byte(1); i <= 3; i++ {
		for h := range uint32(3) {
			b.Set(inc(i), h, &Row{Gen: 1})
			b.Quarantine(inc(i), 10+h, "x")
		}
		b.SetMount(inc(i), 1)
	}
	b.Delete(inc(1), 1)
	b.Delete(inc(1), 99)
	b.Unquarantine(inc(1), 11)
	b.Forget(inc(2))
	if err := db.Commit(b, true); err != nil {
		t.Fatal(err)
	}
	for i, want := range map[byte]int{1: 2, 2: 0, 3: 3} {
		q := 0
		if err := db.Quarantined(inc(i), func(uint32, string) { q++ }); err != nil {
			t.Fatal(err)
		}
		if got := len(rows(t, db, inc(i))); got != want || q != want {
			t.Errorf("slab %d: %d rows, %d quarantined, want %d", i, got, q, want)
		}
		if _, ok, _ := db.Mount(inc(i)); ok != (i != 2) {
			t.Errorf("slab %d: mount number present: %v", i, ok)
		}
	}
	if _, ok, err := db.Get(inc(1), 1); ok || err != nil {
		t.Errorf("Get of a deleted row = %v, %v", ok, err)
	}
	if r, ok, err := db.Get(inc(1), 2); !ok || err != nil || r.Gen != 1 {
		t.Errorf("Get = %v, %v, %v", r, ok, err)
	}
}

func TestCommitOfNothingStillSyncs(t *testing.T) {
	mem := vfs.NewCrashableMem()
	db := mustOpen(t, mem)
	defer mustClose(t, db)
	if err := put(db, inc(1), 1, stepRow(1), false); err != nil {
		t.Fatal(err)
	}
	lost := mustOpen(t, clone(mem, 0, 0))
	if n := len(rows(t, lost, inc(1))); n != 0 {
		t.Errorf("%d unsynced rows survived: the image proves nothing", n)
	}
	mustClose(t, lost)
	if err := db.Commit(db.NewBatch(), true); err != nil {
		t.Fatal(err)
	}
	kept := mustOpen(t, clone(mem, 0, 0))
	defer mustClose(t, kept)
	if n := len(rows(t, kept, inc(1))); n != 1 {
		t.Errorf("%d rows survived, want 1", n)
	}
}

func TestUndecodableRowIsThatRowsError(t *testing.T) {
	db := mustOpen(t, vfs.NewMem())
	defer mustClose(t, db)
	for h := range uint32(3) {
		if err := put(db, inc(1), h, stepRow(int(h)), true); err != nil {
			t.Fatal(err)
		}
	}
	bad := makeSlotKey(prefixRow, inc(1), 1)
	if err := db.pb.Set(bad[:], []byte("no row"), pebble.Sync); err != nil {
		t.Fatal(err)
	}
	if err := db.pb.Set(append(bad[:], 0), []byte("no key"), pebble.Sync); err != nil {
		t.Fatal(err)
	}
	good, errs := 0, 0
	err := db.Scan(inc(1), 0, 0, func(_ uint32, _ Row, err error) bool {
		if errors.Is(err, ErrRow) {
			errs++
		} else if err == nil {
			good++
		}
		return true
	})
	if good != 2 || errs != 2 || err != nil {
		t.Errorf("%d rows, %d errors, %v; want 2, 2, nil", good, errs, err)
	}
	if _, _, err := db.Get(inc(1), 1); !errors.Is(err, ErrRow) {
		t.Errorf("Get: got %v, want ErrRow", err)
	}
}

func TestIncarnationString(t *testing.T) {
	i := Incarnation{0x01, 0x23, 0x45, 0x67, 0x89, 0xab, 0xcd, 0xef, 0, 1, 2, 3, 4, 5, 6, 0xff}
	if got, want := i.String(), "01234567-89ab-cdef-0001-0203040506ff"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
}

// Where the file system knows how many files it can make, so do we; where it has no
// such number, as procfs, nothing is said, and certainly not that there are none left.
func TestFreeFiles(t *testing.T) {
	if n, ok := (&DB{path: t.TempDir()}).FreeFiles(); ok && n == 0 {
		t.Error("none left where a directory was just made")
	}
	for _, path := range []string{"/proc", filepath.Join(t.TempDir(), "nowhere")} {
		if n, ok := (&DB{path: path}).FreeFiles(); ok {
			t.Errorf("%s: %d", path, n)
		}
	}
}
