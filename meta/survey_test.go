// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

// tree is every file below dir with its content.
func tree(t *testing.T, dir string) map[string]string {
	t.Helper()
	m := map[string]string{}
	err := filepath.WalkDir(dir, func(path string, e fs.DirEntry, err error) error {
		if err != nil || e.IsDir() {
			m[path] = "directory"
			return err
		}
		b, err := os.ReadFile(path)
		m[path] = string(b)
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// TestExists: what is no store is told from one, and neither the question nor a
// refused Open changes anything.
func TestExists(t *testing.T) {
	store := func(t *testing.T, path string) {
		db, err := Open(Options{Path: path})
		must(t, err)
		mustClose(t, db)
	}
	for name, c := range map[string]struct {
		make func(t *testing.T, path string)
		want bool
		err  error
		says string
	}{
		"nothing":        {func(*testing.T, string) {}, false, nil, ""},
		"empty":          {func(t *testing.T, path string) { must(t, os.Mkdir(path, 0o700)) }, false, nil, ""},
		"an earlier try": {func(t *testing.T, path string) { must(t, os.MkdirAll(filepath.Join(path, tmpPrefix+"0"), 0o700)) }, false, nil, ""},
		"store":          {store, true, nil, ""},
		"file":           {func(t *testing.T, path string) { must(t, os.WriteFile(path, nil, 0o600)) }, false, ErrForeign, "it is a file"},
		"other pebble": {
			func(t *testing.T, path string) { must(t, os.MkdirAll(filepath.Join(path, dirName), 0o700)) }, false, ErrForeign,
			"there is no store in its pebble",
		},
		"file called pebble": {func(t *testing.T, path string) {
			must(t, os.Mkdir(path, 0o700))
			must(t, os.WriteFile(filepath.Join(path, dirName), nil, 0o600))
		}, false, ErrForeign, "its pebble is a file"},
		"inside of a store": {func(t *testing.T, path string) {
			store(t, path+".store")
			must(t, os.Rename(filepath.Join(path+".store", dirName), path))
		}, false, ErrForeign, "the directory around it is the one"},
	} {
		t.Run(name, func(t *testing.T) {
			dir := t.TempDir()
			path := filepath.Join(dir, "meta")
			c.make(t, path)
			before := tree(t, dir)
			got, err := Exists(nil, path)
			if got != c.want || !errors.Is(err, c.err) {
				t.Errorf("got %v, %v, want %v, %v", got, err, c.want, c.err)
			}
			if c.err != nil {
				_, err := Open(Options{Path: path, MinFree: ballastFree})
				if !errors.Is(err, c.err) || !strings.Contains(err.Error(), path) || !strings.Contains(err.Error(), c.says) {
					t.Errorf("Open: got %v, want %v with the path and %q", err, c.err, c.says)
				}
			}
			if d := cmp.Diff(before, tree(t, dir)); d != "" {
				t.Errorf("something changed (-before +after):\n%s", d)
			}
		})
	}
}

// TestDamagedStore: files that Pebble cannot read are damage, with the path, and
// get no ballast.
func TestDamagedStore(t *testing.T) {
	path := t.TempDir()
	db, err := Open(Options{Path: path})
	must(t, err)
	mustClose(t, db)
	manifests, err := filepath.Glob(filepath.Join(path, dirName, "MANIFEST-*"))
	must(t, err)
	for _, m := range manifests {
		must(t, os.Truncate(m, 0))
	}
	_, err = Open(Options{Path: path, MinFree: ballastFree})
	if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), path) {
		t.Errorf("got %v, want ErrDamaged with the path", err)
	}
	if _, err := os.Stat(filepath.Join(path, ballastName)); err == nil {
		t.Error("a refused open left a ballast")
	}
}
