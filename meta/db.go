// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"errors"
	"fmt"
	"io"
	"sync"
	"sync/atomic"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
	"golang.org/x/sys/unix"
)

// DB is the open metadata store. Open makes one.
type DB struct {
	pb   *pebble.DB
	fs   vfs.FS // the caller's, below the breaker
	path string
	lock io.Closer
	fail *failure

	ballast *ballast

	gen generations

	wedged atomic.Bool // mutant builds only: Pebble panicked under its own lock

	closing  sync.Once
	closeErr error
}

// Failed reports metaFailed and what set it.
func (db *DB) Failed() (reason string, failed bool) { return db.fail.get() }

// Free returns the bytes that the file system of the metadata still has for us.
func (db *DB) Free() (bytes uint64, err error) {
	u, err := db.fs.GetDiskUsage(db.path)
	if err != nil {
		return 0, fmt.Errorf("free space of %q: %w", db.path, err)
	}
	return u.AvailBytes, nil
}

// FreeFiles returns how many files the file system of the metadata can still make;
// ok is false where that is not known or not bounded, as on btrfs or in memory.
func (db *DB) FreeFiles() (n uint64, ok bool) {
	var st unix.Statfs_t
	if err := unix.Statfs(db.path, &st); err != nil || st.Files == 0 {
		return 0, false
	}
	return st.Ffree, true
}

// Close syncs what was committed and lets the directory go. After metaFailed it
// changes nothing on disk, waits for nothing that failed, and returns ErrFailed.
// Later calls repeat the answer.
func (db *DB) Close() error {
	db.closing.Do(func() {
		var err error
		if !db.wedged.Load() {
			err = db.pb.Close()
		}
		if ferr := db.fail.err(); ferr != nil {
			// What Pebble has to say about its dream helps nobody.
			err = ferr
		}
		if err = errors.Join(err, db.lock.Close()); err != nil {
			db.closeErr = fmt.Errorf("close metadata %q: %w", db.path, err)
		}
	})
	return db.closeErr
}
