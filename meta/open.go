// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"errors"
	"fmt"
	"strings"

	"github.com/cockroachdb/errors/oserror"
	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// The names inside Options.Path.
const (
	dirName     = "pebble"
	tmpPrefix   = "pebble.tmp-"
	lockName    = "LOCK"
	ballastName = "ballast"
)

// Open opens the store in o.Path, or makes it: under a temporary name, closed
// and synced before it gets its own, because a crash inside Pebble's first open
// can leave a directory that never opens again. Something else at o.Path is
// refused before anything is written.
func Open(o Options) (*DB, error) {
	o = o.withDefaults()
	db, err := open(o)
	if err != nil {
		return nil, fmt.Errorf("open metadata %q: %w", o.Path, err)
	}
	return db, nil
}

func open(o Options) (_ *DB, err error) {
	if _, err := exists(o.FS, o.Path); err != nil {
		return nil, err
	}
	if err := mkdirSynced(o.FS, o.Path); err != nil {
		return nil, err
	}
	lock, err := lockDir(o.FS, o.FS.PathJoin(o.Path, lockName))
	if err != nil {
		return nil, err
	}
	defer func() {
		if err != nil {
			err = errors.Join(err, lock.Close())
		}
	}()
	fail := &failure{log: o.Log, fatal: o.Fatal}
	spare := newBallast(o)
	fs := &breaker{FS: spare.wrap(), fail: fail}
	if err := prepare(o, fs, fail); err != nil {
		return nil, err
	}
	db, err := start(o, fs, fail)
	if err != nil {
		return nil, err
	}
	db.lock, db.ballast = lock, spare
	if err := spare.restore(); err != nil {
		o.Log.Warn("no ballast for a full metadata file system", "path", o.Path, "error", err, "advice", "free space on it; the ballast is made when there is room")
	}
	return db, nil
}

// prepare leaves a whole store under its final name, durably.
func prepare(o Options, fs *breaker, fail *failure) error {
	names, err := fs.List(o.Path)
	if err != nil {
		return err
	}
	exists := false
	for _, name := range names {
		exists = exists || name == dirName
		if !strings.HasPrefix(name, tmpPrefix) {
			continue
		}
		if err := fs.RemoveAll(fs.PathJoin(o.Path, name)); err != nil {
			return fmt.Errorf("remove the rest of an earlier try: %w", err)
		}
	}
	if exists {
		return nil
	}
	return build(o, fs, fail)
}

// build makes an empty store. The directory lock keeps other builders out, so
// the temporary name can be fixed.
func build(o Options, fs *breaker, fail *failure) error {
	tmp := fs.PathJoin(o.Path, tmpPrefix+"0")
	pb, err := openPebble(tmp, pebbleOptions(o, fs, fail), fail)
	if err != nil {
		return err
	}
	err = pb.Set([]byte(keyVersion), encodeVersion(), pebble.Sync)
	if err := errors.Join(err, pb.Close(), fail.err()); err != nil {
		return err
	}
	if err := syncDir(fs, tmp); err != nil {
		return err
	}
	if err := fs.Rename(tmp, fs.PathJoin(o.Path, dirName)); err != nil {
		return err
	}
	return errors.Join(syncDir(fs, o.Path), fail.err())
}

func start(o Options, fs *breaker, fail *failure) (*DB, error) {
	po := pebbleOptions(o, fs, fail)
	po.ErrorIfNotExists = true // only build makes one
	pb, err := openPebble(fs.PathJoin(o.Path, dirName), po, fail)
	if err != nil {
		return nil, err
	}
	db := &DB{pb: pb, fs: o.FS, path: o.Path, fail: fail}
	if err := errors.Join(db.checkVersion(), db.loadGenerations()); err != nil {
		return nil, errors.Join(err, pb.Close())
	}
	return db, nil
}

// openPebble counts as done only if nothing failed on the way: behind a tripped
// breaker Pebble opens a dream.
func openPebble(dir string, po *pebble.Options, fail *failure) (*pebble.DB, error) {
	pb, err := pebble.Open(dir, po)
	ferr := fail.err()
	switch {
	case err != nil && ferr != nil:
		return nil, ferr // what Pebble says then is a consequence
	case pebble.IsCorruptionError(err), oserror.IsNotExist(err):
		return nil, fmt.Errorf("%w: %w", ErrDamaged, err)
	case err != nil:
		return nil, err
	case ferr != nil:
		return nil, errors.Join(ferr, pb.Close())
	}
	return pb, nil
}

// mkdirSynced makes dir and its missing parents, durably.
func mkdirSynced(fs vfs.FS, dir string) error {
	var parents []string // of what is missing, innermost first
	for d := dir; ; {
		if _, err := fs.Stat(d); err == nil {
			break
		} else if !oserror.IsNotExist(err) {
			return err
		}
		up := fs.PathDir(d)
		if up == d {
			break
		}
		parents = append(parents, up)
		d = up
	}
	if len(parents) == 0 {
		return nil
	}
	if err := fs.MkdirAll(dir, 0o750); err != nil {
		return err
	}
	for _, p := range parents {
		if err := syncDir(fs, p); err != nil {
			return err
		}
	}
	return nil
}

func syncDir(fs vfs.FS, dir string) error {
	d, err := fs.OpenDir(dir)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}
