// SPDX-License-Identifier: Apache-2.0

package crashtest

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"

	"github.com/rawblockd/rawblockd/ioengine"
	"github.com/rawblockd/rawblockd/ioengine/enginetest"
	"github.com/rawblockd/rawblockd/meta"
	"github.com/rawblockd/rawblockd/slab"
	"github.com/rawblockd/rawblockd/store"
)

// metaPath is the folder of the metadata store.
const metaPath = "/meta"

// nodeOptions say what a node is opened on.
type nodeOptions struct {
	setup    *setup
	disk     vfs.FS    // the device's
	fs       vfs.FS    // Pebble's: disk as the time line or a fault shows it
	t        *timeline // nil: nobody will crash this node
	verify   bool
	clock    func() int64 // Unix milliseconds
	buffers  *ioengine.Arena
	onHeader func(generation uint64)
}

// node is the whole product on one file system.
type node struct {
	dev   *device
	eng   ioengine.Engine
	db    *meta.DB
	slab  *slab.Slab
	store *store.Store
}

// initDevice writes the label.
func initDevice(o nodeOptions, wipe bool) error {
	dev, err := newDevice(o.disk, o.setup, o.t, o.onHeader)
	if err != nil {
		return err
	}
	_, err = slab.InitDevice(dev, slab.InitOptions{SlotSize: o.setup.slotSize, Name: "crash", Wipe: wipe})
	return errors.Join(err, dev.Close())
}

// openNode opens everything; on error nothing stays open.
func openNode(o nodeOptions) (n *node, err error) {
	n = new(node)
	defer func() {
		if err != nil {
			err = errors.Join(err, n.close())
			n = nil
		}
	}()
	log := slog.New(slog.DiscardHandler)
	if n.dev, err = newDevice(o.disk, o.setup, o.t, o.onHeader); err != nil {
		return n, err
	}
	if o.setup.uring {
		n.eng = ioengine.NewUringOn(n.dev, enginetest.NewRing(n.dev), ioengine.UringOptions{Depth: o.setup.workers})
	} else {
		n.eng = ioengine.NewPread(n.dev, ioengine.PreadOptions{Workers: o.setup.workers})
	}
	if n.slab, err = slab.Open(n.dev, n.eng, slab.Options{
		Name: "crash", SlotSize: o.setup.slotSize, VerifyOff: !o.verify, IOSize: ioengine.PieceSize, BounceBytes: 8 * mib, Log: log,
	}); err != nil {
		return n, fmt.Errorf("open slab: %w", err)
	}
	if n.db, err = meta.Open(meta.Options{Path: metaPath, FS: o.fs, CacheSize: 64 << 10, MemTableSize: o.setup.memTable, Log: log}); err != nil {
		return n, fmt.Errorf("open metadata: %w", err)
	}
	n.store, err = store.Open(context.Background(), store.Options{
		Slabs:      []store.SlabConfig{{Slab: n.slab, Relaxed: o.setup.relaxed}},
		Meta:       n.db,
		Namespaces: []store.Namespace{{Name: "default"}, {Name: "tenant"}},
		DefaultTTL: leaseTime, MaxTTL: leaseTime, MaxPinned: 0.5, MaxPayload: o.setup.maxPayload,
		Buffers: o.buffers, Now: func() time.Time { return time.UnixMilli(o.clock()) }, Log: log,
		SyncInterval: 2 * time.Millisecond,
	})
	if err != nil {
		return n, fmt.Errorf("open store: %w", err)
	}
	return n, nil
}

// close stops everything that is open.
func (n *node) close() error {
	var errs []error
	if n.store != nil {
		errs = append(errs, n.store.Close())
	}
	if n.slab != nil {
		errs = append(errs, n.slab.Close())
	}
	if n.db != nil {
		errs = append(errs, n.db.Close())
	}
	if n.eng != nil {
		errs = append(errs, n.eng.Close())
	}
	if n.dev != nil {
		errs = append(errs, n.dev.Close())
	}
	return errors.Join(errs...)
}
