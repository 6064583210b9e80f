// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// TestKnownSlabs: the records are read, from the log alone as after a kill, and
// nothing is changed, not even by what is damaged.
func TestKnownSlabs(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "m")
	db, err := Open(Options{Path: dir})
	must(t, err)
	want := SlabRecord{Inc: inc(7), Name: "fast0", Device: "/dev/a", SlotSize: 2 << 20, Slots: 9}
	b := db.NewBatch()
	b.SetSlab(want.Inc, want)
	must(t, db.Commit(b, true))
	copied := filepath.Join(t.TempDir(), "copy")
	must(t, os.CopyFS(copied, os.DirFS(dir)))
	mustClose(t, db)
	for _, path := range []string{dir, copied} {
		before := tree(t, path)
		got, err := KnownSlabs(nil, path)
		must(t, err)
		if diff := cmp.Diff([]SlabRecord{want}, got); diff != "" {
			t.Errorf("%s (-want +got):\n%s", path, diff)
		}
		if diff := cmp.Diff(before, tree(t, path)); diff != "" {
			t.Errorf("it was changed (-before +after):\n%s", diff)
		}
	}
	names, err := filepath.Glob(filepath.Join(dir, dirName, "MANIFEST-*"))
	must(t, err)
	must(t, os.Truncate(names[len(names)-1], 0))
	before := tree(t, dir)
	if got, err := KnownSlabs(nil, dir); err == nil {
		t.Errorf("of damaged metadata: got %v", got)
	}
	if diff := cmp.Diff(before, tree(t, dir)); diff != "" {
		t.Errorf("it was changed (-before +after):\n%s", diff)
	}
}
