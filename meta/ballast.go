// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"errors"
	"fmt"

	"github.com/cockroachdb/errors/oserror"
	"github.com/cockroachdb/pebble/v2/vfs"
)

const maxBallast = 64 << 20

// withBallast returns the file system that gives the ballast up when the disk
// is full and then tries the failed write once more (never a failed sync). The
// ballast is allocated at open, when there is room for it besides MinFree; that
// there is none is worth a warning, not a refusal.
func withBallast(o Options) vfs.FS {
	size := min(o.MinFree/4, maxBallast)
	if size <= 0 {
		return o.FS
	}
	name := o.FS.PathJoin(o.Path, ballastName)
	if err := makeBallast(o.FS, o.Path, name, size, o.MinFree); err != nil {
		o.Log.Warn("no ballast for a full metadata file system", "path", o.Path, "error", err)
	}
	return vfs.OnDiskFull(o.FS, func() {
		err := o.FS.Remove(name)
		if oserror.IsNotExist(err) {
			return // already given up
		}
		o.Log.Error("metadata file system is full: ballast removed", "path", o.Path, "bytes", size, "error", err)
	})
}

func makeBallast(fs vfs.FS, dir, name string, size, minFree int64) error {
	if _, err := fs.Stat(name); err == nil {
		return nil
	}
	u, err := fs.GetDiskUsage(dir)
	if err != nil {
		return err
	}
	if u.AvailBytes < uint64(minFree) {
		return fmt.Errorf("%d bytes free, less than the %d asked to be left", u.AvailBytes, minFree)
	}
	f, err := fs.Create(name, vfs.WriteCategoryUnspecified)
	if err != nil {
		return err
	}
	if err := errors.Join(f.Preallocate(0, size), f.Close()); err != nil {
		return errors.Join(err, fs.Remove(name))
	}
	return nil
}
