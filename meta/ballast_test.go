// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"bytes"
	"errors"
	"fmt"
	"log/slog"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// smallDisk is a disk whose writes fail while it is full, unless giving the
// ballast up has made room.
type smallDisk struct {
	vfs.FS
	mem   *vfs.MemFS
	avail atomic.Uint64
	full  atomic.Bool
	helps bool // the ballast's room is enough
}

const (
	ballastFree = 1 << 20 // MinFree
	ballastSize = ballastFree / 4
)

func newSmallDisk(avail uint64, helps bool) *smallDisk {
	d := &smallDisk{mem: vfs.NewCrashableMem(), helps: helps}
	d.avail.Store(avail)
	d.FS = errorfs.Wrap(d.mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if !d.full.Load() || op.Kind != errorfs.OpFileWrite || d.helps && !d.hasBallast() {
			return nil
		}
		return fmt.Errorf("injected: %w", syscall.ENOSPC)
	}))
	return d
}

func (d *smallDisk) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: d.avail.Load()}, nil
}

func (d *smallDisk) hasBallast() bool {
	_, err := d.mem.Stat(d.mem.PathJoin(testPath, ballastName))
	return err == nil
}

func (d *smallDisk) open(t *testing.T, log *slog.Logger) *DB {
	t.Helper()
	o := smallOptions(d)
	o.MinFree, o.Log = ballastFree, log
	db, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	return db
}

func wantBallast(t *testing.T, d *smallDisk, db *DB, want int64) {
	t.Helper()
	if held, wanted := db.Ballast(); held != want || wanted != ballastSize {
		t.Errorf("Ballast() = %d, %d, want %d, %d", held, wanted, want, ballastSize)
	}
	if d.hasBallast() != (want > 0) {
		t.Errorf("ballast on disk: %v, want %v", d.hasBallast(), want > 0)
	}
}

func TestBallast(t *testing.T) {
	for name, c := range map[string]struct {
		avail uint64
		helps bool
		held  int64
		fails bool
	}{
		"given up, goes on":        {1 << 30, true, ballastSize, false},
		"given up, still full":     {1 << 30, false, ballastSize, true},
		"no room for a ballast":    {ballastFree, false, 0, true},
		"one byte short of enough": {ballastFree + ballastSize - 1, false, 0, true},
		"just enough":              {ballastFree + ballastSize, true, ballastSize, false},
	} {
		t.Run(name, func(t *testing.T) {
			d := newSmallDisk(c.avail, c.helps)
			db := d.open(t, nil)
			wantBallast(t, d, db, c.held)
			d.full.Store(true)
			err := put(db, inc(1), 1, stepRow(1), true)
			if errors.Is(err, ErrFailed) != c.fails {
				t.Errorf("commit on the full disk: %v, want failure %v", err, c.fails)
			}
			wantBallast(t, d, db, 0)
			if err := db.Close(); errors.Is(err, ErrFailed) != c.fails {
				t.Errorf("Close: %v", err)
			}
		})
	}
}

// TestBallastComesBack: once there is room again it is made again, while the DB
// is open and at the next open, and then helps a second time.
func TestBallastComesBack(t *testing.T) {
	d := newSmallDisk(1<<30, true)
	var log bytes.Buffer
	db := d.open(t, slog.New(slog.NewTextHandler(&log, nil)))
	for i := range uint32(2) {
		d.avail.Store(0)
		d.full.Store(true)
		if err := put(db, inc(1), i, stepRow(int(i)), true); err != nil {
			t.Fatalf("time %d on the full disk: %v", i, err)
		}
		wantBallast(t, d, db, 0)
		if err := db.RestoreBallast(); err == nil || !strings.Contains(err.Error(), testPath) {
			t.Errorf("without room: got %v, want an error with the path", err)
		}
		wantBallast(t, d, db, 0)
		d.full.Store(false)
		d.avail.Store(1 << 30)
		if err := db.RestoreBallast(); err != nil {
			t.Errorf("with room: %v", err)
		}
		wantBallast(t, d, db, ballastSize)
	}
	if got := log.String(); strings.Contains(got, "<nil>") || strings.Count(got, "the ballast was given up") != 2 || !strings.Contains(got, "free space on it") {
		t.Errorf("log: %s", got)
	}
	if _, failed := db.Failed(); failed {
		t.Error("the DB has failed")
	}

	d.full.Store(true)
	if err := put(db, inc(1), 9, stepRow(9), true); err != nil {
		t.Fatal(err)
	}
	mustClose(t, db)
	wantBallast(t, d, db, 0)
	d.full.Store(false)
	db = d.open(t, nil)
	wantBallast(t, d, db, ballastSize)
	mustClose(t, db)
}

func TestNoBallastOnAFailedStore(t *testing.T) {
	d := newSmallDisk(1<<30, false)
	db := d.open(t, nil)
	d.full.Store(true)
	wantFailed(t, "Commit", put(db, inc(1), 1, stepRow(1), true))
	d.full.Store(false)
	wantFailed(t, "RestoreBallast", db.RestoreBallast())
	wantBallast(t, d, db, 0)
	wantFailed(t, "Close", db.Close())
}

// cannotPreallocate is a file system without fallocate.
type cannotPreallocate struct {
	vfs.FS
	tries int
}

func (c *cannotPreallocate) Create(name string, w vfs.DiskWriteCategory) (vfs.File, error) {
	f, err := c.FS.Create(name, w)
	if strings.Contains(name, ballastName) {
		c.tries++
		return noPreallocate{f}, err
	}
	return f, err
}

func (c *cannotPreallocate) GetDiskUsage(string) (vfs.DiskUsage, error) {
	return vfs.DiskUsage{AvailBytes: 1 << 40}, nil
}

type noPreallocate struct{ vfs.File }

func (noPreallocate) Preallocate(int64, int64) error { return syscall.EOPNOTSUPP }

func TestBallastThatCannotBeMade(t *testing.T) {
	mem := vfs.NewMem()
	fs := &cannotPreallocate{FS: mem}
	o := smallOptions(fs)
	o.MinFree = ballastFree
	db, err := Open(o)
	if err != nil {
		t.Fatal(err)
	}
	defer mustClose(t, db)
	if err := db.RestoreBallast(); err != nil || fs.tries != 1 {
		t.Errorf("after %d tries: %v, want one and no error", fs.tries, err)
	}
	names, err := mem.List(testPath)
	if err != nil {
		t.Fatal(err)
	}
	for _, n := range names {
		if strings.HasPrefix(n, ballastName) {
			t.Errorf("%s is left", n)
		}
	}
}
