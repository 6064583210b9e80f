// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"errors"
	"fmt"
	"io"
	"os"

	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"
)

// KnownSlabs reads the records of slabs from the store at path, which must be there
// (see Exists) and should not be open: it takes no lock, and writes nothing. Its
// errors are those of Open and of DB.Slabs. fs nil: the disk.
func KnownSlabs(fs vfs.FS, path string) ([]SlabRecord, error) {
	o := Options{Path: path, FS: fs}
	o = o.withDefaults()
	fail := &failure{log: o.Log}
	po := pebbleOptions(o, untouched{o.FS}, fail)
	po.ReadOnly = true
	pb, err := openPebble(o.FS.PathJoin(path, dirName), po, fail)
	if err != nil {
		return nil, fmt.Errorf("look into metadata %q: %w", path, err)
	}
	db := &DB{pb: pb, fs: o.FS, path: path, fail: fail}
	err = db.checkVersion()
	var all []SlabRecord
	if err == nil {
		all, err = db.Slabs()
	}
	if err = errors.Join(err, pb.Close()); err != nil {
		return all, fmt.Errorf("look into metadata %q: %w", path, err)
	}
	return all, nil
}

// untouched is a file system that takes no changes, Pebble's lock among them.
type untouched struct{ vfs.FS }

// Lock implements vfs.FS.
func (untouched) Lock(string) (io.Closer, error) { return io.NopCloser(nil), nil }

// Create implements vfs.FS.
func (untouched) Create(string, vfs.DiskWriteCategory) (vfs.File, error) { return nil, unix.EROFS }

// Link implements vfs.FS.
func (untouched) Link(string, string) error { return unix.EROFS }

// OpenReadWrite implements vfs.FS.
func (untouched) OpenReadWrite(string, vfs.DiskWriteCategory, ...vfs.OpenOption) (vfs.File, error) {
	return nil, unix.EROFS
}

// Remove implements vfs.FS.
func (untouched) Remove(string) error { return unix.EROFS }

// RemoveAll implements vfs.FS.
func (untouched) RemoveAll(string) error { return unix.EROFS }

// Rename implements vfs.FS.
func (untouched) Rename(string, string) error { return unix.EROFS }

// ReuseForWrite implements vfs.FS.
func (untouched) ReuseForWrite(string, string, vfs.DiskWriteCategory) (vfs.File, error) {
	return nil, unix.EROFS
}

// MkdirAll implements vfs.FS.
func (untouched) MkdirAll(string, os.FileMode) error { return unix.EROFS }
