// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"errors"
	"fmt"
	"os"
	"strings"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/rawblockd/rawblockd/internal/mutant"
)

// breaker is Pebble's file system. The first change that fails trips it; from
// then on changes are swallowed and reported as done, so the disk stays at the
// instant of the failure. Reads always pass. See the package comment for why.
//
// A change under way on another goroutine when the breaker trips still lands.
// That is harmless: it started before the failure, so everything it builds on
// did happen.
type breaker struct {
	vfs.FS // reads, path helpers
	fail   *failure
}

var _ vfs.FS = (*breaker)(nil)

// markerPrefix starts the name of every file of Pebble's vfs/atomicfs.
const markerPrefix = "marker."

// tripped says whether changes are swallowed.
func (b *breaker) tripped() bool {
	if mutant.On(mutant.H34) {
		return false
	}
	_, failed := b.fail.get()
	return failed
}

// check passes err on as nil after tripping. The mutant of H34 shows Pebble the
// error, as a store without a breaker would.
func (b *breaker) check(verb, name string, err error) error {
	if err == nil {
		return nil
	}
	b.fail.set(fmt.Sprintf("%s %s: %v", verb, name, bare(err, name)))
	if mutant.On(mutant.H34) {
		return err
	}
	return nil
}

// bare takes off what would say again which file it was.
func bare(err error, name string) error {
	if path := (*os.PathError)(nil); errors.As(err, &path) && path.Path == name {
		return path.Err
	}
	if link := (*os.LinkError)(nil); errors.As(err, &link) && (link.Old == name || link.New == name) {
		return link.Err
	}
	return err
}

// file wraps what open returned; after a failure it stands in a file that holds nothing.
func (b *breaker) file(verb, name string, open func() (vfs.File, error)) (vfs.File, error) {
	if b.tripped() {
		return voidFile{name: b.PathBase(name)}, nil
	}
	f, err := open()
	if err == nil {
		return &breakerFile{File: f, b: b, name: name}, nil
	}
	if err := b.check(verb, name, err); err != nil {
		return nil, err
	}
	return voidFile{name: b.PathBase(name)}, nil
}

// Create makes a table, log, manifest, marker or options file.
//
// A marker is Pebble's pointer to the current manifest. Pebble makes both names
// durable by one directory sync after the fact, so a crash in between may keep
// the pointer and lose what it points to, at every open; the crash tests found
// it. Therefore the directory is synced before a marker appears.
func (b *breaker) Create(name string, c vfs.DiskWriteCategory) (vfs.File, error) {
	if strings.HasPrefix(b.PathBase(name), markerPrefix) {
		dir := b.PathDir(name)
		if err := b.change("sync", dir, func() error { return syncDir(b.FS, dir) }); err != nil {
			return nil, err
		}
	}
	return b.file("create", name, func() (vfs.File, error) { return b.FS.Create(name, c) })
}

// OpenReadWrite opens for writing in place.
func (b *breaker) OpenReadWrite(name string, c vfs.DiskWriteCategory, opts ...vfs.OpenOption) (vfs.File, error) {
	return b.file("open", name, func() (vfs.File, error) { return b.FS.OpenReadWrite(name, c, opts...) })
}

// ReuseForWrite recycles an old log: in two steps, as the disk does it, since
// MemFS's own takes its clone lock twice and hangs when a CrashClone waits in
// between.
func (b *breaker) ReuseForWrite(oldname, newname string, c vfs.DiskWriteCategory) (vfs.File, error) {
	return b.file("reuse", newname, func() (vfs.File, error) {
		if err := b.FS.Rename(oldname, newname); err != nil {
			return nil, err
		}
		return b.FS.OpenReadWrite(newname, c)
	})
}

// OpenDir opens a directory for syncing. That it cannot be opened is an
// ordinary error: nothing was changed yet.
func (b *breaker) OpenDir(name string) (vfs.File, error) {
	f, err := b.FS.OpenDir(name)
	if err != nil {
		return nil, err
	}
	return &breakerFile{File: f, b: b, name: name}, nil
}

// change runs one operation on names.
func (b *breaker) change(verb, name string, do func() error) error {
	if b.tripped() {
		return nil
	}
	return b.check(verb, name, do())
}

// Link makes a second name.
func (b *breaker) Link(oldname, newname string) error {
	return b.change("link", newname, func() error { return b.FS.Link(oldname, newname) })
}

// Rename moves a finished file to its name.
func (b *breaker) Rename(oldname, newname string) error {
	return b.change("rename", newname, func() error { return b.FS.Rename(oldname, newname) })
}

// Remove passes its error on: a file that stays only costs room, and Pebble
// tries again at the next open.
func (b *breaker) Remove(name string) error {
	if b.tripped() {
		return nil
	}
	return b.FS.Remove(name)
}

// RemoveAll is Remove for a tree.
func (b *breaker) RemoveAll(name string) error {
	if b.tripped() {
		return nil
	}
	return b.FS.RemoveAll(name)
}

// MkdirAll is called while opening only, where Pebble returns errors properly.
func (b *breaker) MkdirAll(dir string, perm os.FileMode) error {
	if b.tripped() {
		return nil
	}
	return b.FS.MkdirAll(dir, perm)
}

// Unwrap lets Pebble find the file system at the root.
func (b *breaker) Unwrap() vfs.FS { return b.FS }
