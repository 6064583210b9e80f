// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"
	"github.com/google/go-cmp/cmp"
)

var errInjected = errors.New("injected")

// faultyFS fails writes or syncs of the log once switched on.
func faultyFS(kind errorfs.OpKind) (vfs.FS, *atomic.Bool, *vfs.MemFS) {
	on := new(atomic.Bool)
	mem := vfs.NewCrashableMem()
	return errorfs.Wrap(mem, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if on.Load() && op.Kind == kind && strings.HasSuffix(op.Path, ".log") {
			return errInjected
		}
		return nil
	})), on, mem
}

// C35, H34: once the log has failed nothing is acknowledged that is not durable,
// and loads go on.
func TestMetadataFailure(t *testing.T) {
	for name, kind := range map[string]errorfs.OpKind{"write": errorfs.OpFileWrite, "sync": errorfs.OpFileSyncData} {
		t.Run(name, func(t *testing.T) {
			fs, on, mem := faultyFS(kind)
			r := newRig(t, func(o *rigOptions) { o.fs = fs })
			r.mustStore(1000, "a", "b", "c")
			on.Store(true)
			if got := r.store(1000, StoreOptions{}, "d")[0].Status; got != Unavailable {
				t.Errorf("store: %v", got)
			}
			if got := r.remove(false, "a").Results[0].Status; got != Unavailable {
				t.Errorf("remove: %v", got)
			}
			if got := r.store(1000, StoreOptions{}, "e")[0].Status; got != Unavailable {
				t.Errorf("second store: %v", got)
			}
			if got := r.load(1, "b", "c", "d"); !cmp.Equal(got, []Status{OK, OK, Missing}) {
				t.Errorf("loads: %v", got)
			}
			l := r.pin("b")
			if rel, _, err := r.s.Unpin(context.Background(), ns, l.ID, nil); rel != 1 || err != nil {
				t.Errorf("unpin: %d %v", rel, err)
			}
			if _, _, err := r.s.List(context.Background(), ns, "", 10); !errors.Is(err, ErrUnavailable) {
				t.Errorf("list: %v", err)
			}
			if st := r.s.Status(); st.MetaFailed == "" {
				t.Error("status does not say that the metadata store failed")
			}
			r.shut()
			on.Store(false)
			r.fs = mem.CrashClone(vfs.CrashCloneCfg{})
			r.start()
			if got := r.load(1, "b", "c"); !cmp.Equal(got, all(2, OK)) {
				t.Errorf("loads after a restart: %v", got)
			}
			r.mustStore(1000, "f")
		})
	}
}
