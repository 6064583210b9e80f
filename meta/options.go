// SPDX-License-Identifier: Apache-2.0

package meta

import (
	"log/slog"

	"github.com/cockroachdb/pebble/v2"
	"github.com/cockroachdb/pebble/v2/vfs"
)

// Options says where a DB lives and how much it may use.
type Options struct {
	Path string // directory; made when missing. Pebble's files lie in Path/pebble.
	FS   vfs.FS // nil: the disk

	CacheSize    int64  // bytes of table blocks kept in RAM; 0: 8 MiB
	MinFree      int64  // bytes the operator wants left on the file system; a quarter, at most 64 MiB, is held as ballast
	MemTableSize uint64 // bytes; 0: 16 MiB. Tests go down to 64 KiB to see flushes.

	Log   *slog.Logger        // nil: silent
	Fatal func(reason string) // called once when metaFailed is set, and logs it; may be nil; must neither block nor call the DB
}

// FormatVersion pins Pebble's on-disk format: a new Pebble must not raise it by
// itself, or the previous release could no longer open the store. WALSyncChunks
// is the oldest one that tells a torn end of the log from a damaged middle.
const FormatVersion = pebble.FormatWALSyncChunks

const (
	defaultCacheSize    = 8 << 20
	defaultMemTableSize = 16 << 20

	// maxOpenFiles bounds Pebble's table files; rows of ten million entries fill about 100 of them.
	maxOpenFiles = 256

	// l0Stop is out of reach: a commit must never wait for compactions, which
	// stop when metaFailed is set.
	l0Stop = 1000
)

func (o *Options) withDefaults() Options {
	c := *o
	if c.FS == nil {
		c.FS = vfs.Default
	}
	if c.CacheSize == 0 {
		c.CacheSize = defaultCacheSize
	}
	if c.MemTableSize == 0 {
		c.MemTableSize = defaultMemTableSize
	}
	if c.Log == nil {
		c.Log = slog.New(slog.DiscardHandler)
	}
	return c
}

// pebbleOptions is the whole configuration of Pebble. WAL recovery keeps its
// default: a torn end is cut off, damage before a synced offset refuses to open.
func pebbleOptions(o Options, fs vfs.FS, fail *failure) *pebble.Options {
	po := &pebble.Options{
		FS:                    fs,
		FormatMajorVersion:    FormatVersion,
		CacheSize:             o.CacheSize,
		MemTableSize:          o.MemTableSize,
		L0StopWritesThreshold: l0Stop,
		MaxOpenFiles:          maxOpenFiles,
		Logger:                pebbleLog{fail: fail, log: o.Log},
		EventListener:         events(fail, o.Log),
		// The statistics only steer compactions that drop tombstones early; they
		// cost a job that reads every table after each open.
		DisableTableStats: true,
	}
	po.Experimental.FileCacheShards = 1
	po.Experimental.CompactionScheduler = newScheduler(fail)
	return po
}
