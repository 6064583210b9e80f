// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/errors/oserror"
	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"
)

const maxBallast = 64 << 20

// ballast is a file that keeps room on the metadata's file system, to be given
// up when that is full. It is made when there is room for it besides MinFree;
// that there is none is worth a warning, not a refusal. All it does goes to the
// caller's file system, past the breaker: nothing rests on it.
type ballast struct {
	fs   vfs.FS
	dir  string
	name string
	size int64 // 0: none is wanted
	room int64 // free bytes from which on it is made
	o    Options

	// mu is held across file operations. They are short, and a write that meets
	// the full disk meanwhile must wait for the whole file to be able to free it.
	mu   sync.Mutex
	held atomic.Bool // set under mu; read at any time: a report must not wait for the disk
	// +checklocks:mu
	refused bool // the file system cannot preallocate; there is no use in trying again
}

func newBallast(o Options) *ballast {
	size := max(min(o.MinFree/4, maxBallast), 0)
	return &ballast{fs: o.FS, dir: o.Path, name: o.FS.PathJoin(o.Path, ballastName), size: size, room: o.MinFree + size, o: o}
}

// wrap returns the file system that gives the ballast up when the disk is full
// and then tries the failed write once more (never a failed sync).
func (b *ballast) wrap() vfs.FS {
	if b.size == 0 {
		return b.fs
	}
	return vfs.OnDiskFull(b.fs, b.giveUp)
}

// giveUp runs inside a write of Pebble's, under whatever locks that one holds.
func (b *ballast) giveUp() {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.held.Store(false)
	const full = "the metadata's file system is full"
	const free = "free space on it: with the ballast gone the next write that does not fit ends all changes"
	err := b.fs.Remove(b.name)
	switch {
	case oserror.IsNotExist(err): // it was given up before
	case err != nil:
		b.o.Log.Error(full+", and the ballast cannot be removed", "path", b.dir, "error", err, "advice", free)
	default:
		b.o.Log.Error(full+", the ballast was given up", "path", b.dir, "bytes", b.size, "advice", free)
	}
}

// restore makes the ballast unless it is there.
func (b *ballast) restore() error {
	if b.size == 0 {
		return nil
	}
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.held.Load() || b.refused {
		return nil
	}
	if _, err := b.fs.Stat(b.name); err == nil {
		b.held.Store(true)
		return nil
	}
	u, err := b.fs.GetDiskUsage(b.dir)
	if err != nil {
		return err
	}
	if u.AvailBytes < uint64(b.room) {
		return fmt.Errorf("%d bytes are free, %d are needed", u.AvailBytes, b.room)
	}
	err = b.makeLocked()
	b.held.Store(err == nil)
	b.refused = errors.Is(err, unix.EOPNOTSUPP) || errors.Is(err, unix.ENOSYS)
	return err
}

// makeLocked makes the file under another name, so that one of this name is
// whole: its length says nothing of the room it holds.
//
// +checklocks:b.mu
func (b *ballast) makeLocked() error {
	tmp := b.name + ".tmp"
	f, err := b.fs.Create(tmp, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	err = errors.Join(f.Preallocate(0, b.size), f.Close())
	if err == nil {
		err = b.fs.Rename(tmp, b.name)
	}
	if err != nil {
		return errors.Join(err, b.fs.Remove(tmp))
	}
	return nil
}

// RestoreBallast makes the ballast again after a full file system took it, once
// there is room for it besides MinFree; nil means that it is there, or that none
// is wanted. Nothing depends on it: an error changes nothing about the DB.
func (db *DB) RestoreBallast() error {
	if err := db.fail.err(); err != nil {
		return err // the disk stays as it is
	}
	if err := db.ballast.restore(); err != nil {
		return fmt.Errorf("ballast in %q: %w", db.path, err)
	}
	return nil
}

// Ballast returns the bytes that the ballast holds now, 0 when it was given up
// or could not be made, and those that it is meant to hold.
func (db *DB) Ballast() (held, wanted int64) {
	b := db.ballast
	if b.held.Load() {
		held = b.size
	}
	return held, b.size
}
