// SPDX-License-Identifier: Apache-2.0

package crashtest

import (
	"io"
	"os"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"
)

// watchFS passes every operation that changes the file system through a
// timeline.
type watchFS struct {
	vfs.FS
	t *timeline
}

// Create implements vfs.FS.
func (w *watchFS) Create(name string, c vfs.DiskWriteCategory) (f vfs.File, err error) {
	err = w.t.around("create", name, func() error {
		f, err = w.FS.Create(name, c)
		return err
	})
	return w.file(name, f, err)
}

// Link implements vfs.FS.
func (w *watchFS) Link(oldname, newname string) error {
	return w.t.around("link", newname, func() error { return w.FS.Link(oldname, newname) })
}

// OpenReadWrite implements vfs.FS.
func (w *watchFS) OpenReadWrite(name string, c vfs.DiskWriteCategory, o ...vfs.OpenOption) (f vfs.File, err error) {
	err = w.t.around("open for writing", name, func() error {
		f, err = w.FS.OpenReadWrite(name, c, o...)
		return err
	})
	return w.file(name, f, err)
}

// OpenDir implements vfs.FS.
func (w *watchFS) OpenDir(name string) (vfs.File, error) {
	f, err := w.FS.OpenDir(name)
	return w.file(name, f, err)
}

// Remove implements vfs.FS.
func (w *watchFS) Remove(name string) error {
	return w.t.around("remove", name, func() error { return w.FS.Remove(name) })
}

// RemoveAll implements vfs.FS.
func (w *watchFS) RemoveAll(name string) error {
	return w.t.around("remove all", name, func() error { return w.FS.RemoveAll(name) })
}

// Rename implements vfs.FS.
func (w *watchFS) Rename(oldname, newname string) error {
	return w.t.around("rename", newname, func() error { return w.FS.Rename(oldname, newname) })
}

// ReuseForWrite implements vfs.FS.
func (w *watchFS) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (f vfs.File, err error) {
	err = w.t.around("reuse", newname, func() error {
		f, err = w.FS.ReuseForWrite(oldname, newname, c)
		return err
	})
	return w.file(newname, f, err)
}

// MkdirAll implements vfs.FS.
func (w *watchFS) MkdirAll(dir string, perm os.FileMode) error {
	return w.t.around("mkdir", dir, func() error { return w.FS.MkdirAll(dir, perm) })
}

// Lock implements vfs.FS.
func (w *watchFS) Lock(name string) (c io.Closer, err error) {
	err = w.t.around("lock", name, func() error {
		c, err = w.FS.Lock(name)
		return err
	})
	return c, err
}

func (w *watchFS) file(name string, f vfs.File, err error) (vfs.File, error) {
	if err != nil {
		return nil, err
	}
	return &watchFile{File: f, name: name, t: w.t}, nil
}

// watchFile passes writes and syncs through a timeline.
type watchFile struct {
	vfs.File
	name string
	t    *timeline
}

// Write implements vfs.File.
func (f *watchFile) Write(p []byte) (n int, err error) {
	err = f.t.around("write", f.name, func() error {
		n, err = f.File.Write(p)
		return err
	})
	return n, err
}

// WriteAt implements vfs.File.
func (f *watchFile) WriteAt(p []byte, off int64) (n int, err error) {
	err = f.t.around("write", f.name, func() error {
		n, err = f.File.WriteAt(p, off)
		return err
	})
	return n, err
}

// Sync implements vfs.File.
func (f *watchFile) Sync() error {
	if f.t.setup.actors > 1 && strings.HasSuffix(f.name, ".log") {
		// Rows are visible and not yet durable: let others act on them.
		linger(f.t.setup.lingerLog, f.t.model.ticks)
	}
	return f.t.around("sync", f.name, f.File.Sync)
}

// SyncData implements vfs.File.
func (f *watchFile) SyncData() error { return f.Sync() }
