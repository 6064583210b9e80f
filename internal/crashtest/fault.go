// SPDX-License-Identifier: Apache-2.0

package crashtest

import (
	"path"
	"strings"
	"sync/atomic"
	"syscall"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
)

// fault is what a run injects into Pebble's files.
type fault struct {
	name   string
	suffix string // of the file's name; "MANIFEST" is a prefix
	kinds  []errorfs.OpKind
	full   bool // ENOSPC instead of a plain error
	after  int  // matching operations that still work
	sticky bool // all later ones fail too
	rare   bool // happens only when a memtable is full
}

// faults lists every kind of fault.
func faults() []fault {
	write := []errorfs.OpKind{errorfs.OpFileWrite}
	sync := []errorfs.OpKind{errorfs.OpFileSync, errorfs.OpFileSyncData, errorfs.OpFileSyncTo}
	create := []errorfs.OpKind{errorfs.OpCreate, errorfs.OpReuseForWrite}
	var out []fault
	for _, f := range []fault{
		{name: "WAL write", suffix: ".log", kinds: write},
		{name: "WAL sync", suffix: ".log", kinds: sync},
		{name: "WAL create", suffix: ".log", kinds: create, rare: true},
		{name: "MANIFEST write", suffix: "MANIFEST", kinds: write, rare: true},
		{name: "MANIFEST sync", suffix: "MANIFEST", kinds: sync, rare: true},
		{name: "flush write", suffix: ".sst", kinds: write, rare: true},
		{name: "flush sync", suffix: ".sst", kinds: sync, rare: true},
		{name: "flush create", suffix: ".sst", kinds: create, rare: true},
	} {
		out = append(out, f)
		f.name, f.full = f.name+" ENOSPC", true
		out = append(out, f)
	}
	return out
}

// matches tells whether an operation is of the kind that fails.
func (f *fault) matches(op errorfs.Op) bool {
	base := path.Base(op.Path)
	if !strings.HasSuffix(base, f.suffix) && !strings.HasPrefix(base, f.suffix) {
		return false
	}
	for _, k := range f.kinds {
		if op.Kind == k {
			return true
		}
	}
	return false
}

// injector fails operations once it is armed.
type injector struct {
	fault fault
	t     *timeline
	armed atomic.Bool
	seen  atomic.Int64
}

// wrap puts the injector in front of fs.
func (in *injector) wrap(fs vfs.FS) vfs.FS { return errorfs.Wrap(fs, errorfs.InjectorFunc(in.maybe)) }

func (in *injector) maybe(op errorfs.Op) error {
	if !in.armed.Load() || !in.fault.matches(op) {
		return nil
	}
	n := in.seen.Add(1) - 1
	if n < int64(in.fault.after) || n > int64(in.fault.after) && !in.fault.sticky {
		return nil
	}
	in.t.faulty.Store(true)
	if in.fault.full {
		return syscall.ENOSPC
	}
	return errorfs.ErrInjected
}
