// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"io"
	"os"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// breakerFile is a file or directory that Pebble may change.
type breakerFile struct {
	vfs.File // reads
	b        *breaker
	name     string
}

func (f *breakerFile) change(verb string, do func() error) error {
	return f.b.change(verb, f.name, do)
}

// Write appends. A write that failed halfway leaves a torn end, which recovery
// cuts off.
func (f *breakerFile) Write(p []byte) (int, error) {
	if err := f.change("write", func() error { _, err := f.File.Write(p); return err }); err != nil {
		return 0, err
	}
	return len(p), nil
}

// WriteAt overwrites in place.
func (f *breakerFile) WriteAt(p []byte, off int64) (int, error) {
	if err := f.change("write", func() error { _, err := f.File.WriteAt(p, off); return err }); err != nil {
		return 0, err
	}
	return len(p), nil
}

// Sync makes the file, or the directory's entries, durable. A failed sync is
// never tried again: the kernel may have dropped the pages.
func (f *breakerFile) Sync() error { return f.change("sync", f.File.Sync) }

// SyncData is Sync without the times.
func (f *breakerFile) SyncData() error { return f.change("sync", f.File.SyncData) }

// SyncTo starts the write-back of a prefix.
func (f *breakerFile) SyncTo(length int64) (full bool, err error) {
	err = f.change("sync", func() error {
		full, err = f.File.SyncTo(length)
		return err
	})
	return full, err
}

// Preallocate is a hint; Pebble ignores its error too.
func (f *breakerFile) Preallocate(off, length int64) error {
	if f.b.tripped() {
		return nil
	}
	return f.File.Preallocate(off, length)
}

// Stat is asked for the size of a recycled log in the middle of a rotation,
// where Pebble panics on an error.
func (f *breakerFile) Stat() (vfs.FileInfo, error) {
	info, err := f.File.Stat()
	if err == nil {
		return info, nil
	}
	if err := f.b.check("stat", f.name, err); err != nil {
		return nil, err
	}
	return voidInfo{voidFile{name: f.b.PathBase(f.name)}}, nil
}

// Close always closes; an error may be a lost write (quota, network file systems).
func (f *breakerFile) Close() error { return f.b.check("close", f.name, f.File.Close()) }

// voidFile stands in for a file made after the breaker tripped: it takes every
// write, keeps nothing and is empty.
type voidFile struct{ name string }

var _ vfs.File = voidFile{}

func (voidFile) Close() error                           { return nil }
func (voidFile) Read([]byte) (int, error)               { return 0, io.EOF }
func (voidFile) ReadAt([]byte, int64) (int, error)      { return 0, io.EOF }
func (voidFile) Write(p []byte) (int, error)            { return len(p), nil }
func (voidFile) WriteAt(p []byte, _ int64) (int, error) { return len(p), nil }
func (voidFile) Preallocate(int64, int64) error         { return nil }
func (voidFile) Sync() error                            { return nil }
func (voidFile) SyncTo(int64) (bool, error)             { return false, nil }
func (voidFile) SyncData() error                        { return nil }
func (voidFile) Prefetch(int64, int64) error            { return nil }
func (voidFile) Fd() uintptr                            { return vfs.InvalidFd }
func (f voidFile) Stat() (vfs.FileInfo, error)          { return voidInfo{f}, nil }

type voidInfo struct{ f voidFile }

func (i voidInfo) Name() string         { return i.f.name }
func (voidInfo) Size() int64            { return 0 }
func (voidInfo) Mode() os.FileMode      { return 0o644 }
func (voidInfo) ModTime() time.Time     { return time.Time{} }
func (voidInfo) IsDir() bool            { return false }
func (voidInfo) Sys() any               { return nil }
func (voidInfo) DeviceID() vfs.DeviceID { return vfs.DeviceID{} }
