// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/rand"
	"encoding/hex"
	"errors"
	"fmt"
	"slices"
	"time"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/client"
	"github.com/rawblockd/rawblockd/slab"
)

// demo is one run of the main job.
type demo struct {
	plan  demoPlan
	place *demoPlace
	table demoTable
	child child

	cl    *client.Client
	salt  string
	big   batch
	small batch
	cut   batch // the batch whose store is cut short by kill -9
	lease string
}

// step is one row of the table.
type step struct {
	name string
	do   func(ctx context.Context) (outcome, error)
}

func (d *demo) run(ctx context.Context) (err error) {
	var salt [8]byte
	rand.Read(salt[:]) // crypto/rand never fails: it ends the process instead
	d.salt = hex.EncodeToString(salt[:])
	d.big = newBatch("big", d.plan.keys, d.plan.big)
	d.small = newBatch("small", d.plan.keys, d.plan.small)
	d.cut = newBatch("cut", d.plan.keys, d.plan.big)
	if d.cl, err = client.New(d.place.addr(), "default"); err != nil {
		return err
	}
	defer d.cl.Close()
	for _, s := range d.steps() {
		began := time.Now()
		o, err := s.do(ctx)
		if err == nil {
			err = ctx.Err()
		}
		if err != nil {
			o.result = "FAILED"
			d.table.row(s.name, o, time.Since(began))
			return fmt.Errorf("%s: %w", s.name, err)
		}
		d.table.row(s.name, o, time.Since(began))
	}
	return nil
}

func (d *demo) steps() []step {
	store := func(b *batch) func(context.Context) (outcome, error) {
		return func(ctx context.Context) (outcome, error) { return d.store(ctx, *b) }
	}
	return []step{
		{"init", d.initSlab},
		{"start", d.start},
		{fmt.Sprintf("store %s", bytesEach(d.plan.big)), store(&d.big)},
		{fmt.Sprintf("store %s", bytesEach(d.plan.small)), store(&d.small)},
		{"kill -9 in mid-store", d.storeAndKill},
		{"restart", d.start},
		{"slots after the crash", d.slotsAddUp},
		{"verify what was acknowledged", d.loadAll},
		{"verify what was not", d.verifyCut},
		{"look up, with a lease", d.lookup},
		{"load, pinned", d.loadAll},
		{"remove, pinned", d.removePinned},
		{"unpin", d.unpin},
		{"remove", d.remove},
		{"kill -9, restart", d.killAndStart},
		{"removed stays removed", d.allGone},
		{"stop", func(context.Context) (outcome, error) { return outcome{result: "clean"}, d.child.stop() }},
	}
}

func bytesEach(n int64) string {
	if n%(1<<20) == 0 {
		return size(n) + " each"
	}
	return count(n) + " B each"
}

func (d *demo) initSlab(context.Context) (outcome, error) {
	l, err := slab.Init(d.place.device, slab.InitOptions{SlotSize: int64(d.plan.slotSize), Name: "demo"})
	return outcome{result: fmt.Sprintf("%d slots of %s", l.SlotCount, size(l.SlotSize))}, err
}

func (d *demo) start(ctx context.Context) (outcome, error) {
	if err := d.child.start(ctx, d.cl); err != nil {
		return outcome{}, err
	}
	st, err := d.cl.Status(ctx)
	return outcome{result: fmt.Sprintf("serving %d keys", st.Entries)}, err
}

func (d *demo) store(ctx context.Context, b batch) (outcome, error) {
	o := outcome{keys: len(b.keys), bytes: b.total()}
	res, err := d.cl.Store(ctx, b.items(d.salt, nil), client.StoreOptions{})
	if err != nil {
		return o, err
	}
	for i, r := range res.Results {
		if r.Status != api.StatusOK {
			return o, fmt.Errorf("key %q: %s %s", b.keys[i], r.Status, r.Error)
		}
	}
	o.result = fmt.Sprintf("%d acknowledged", res.OK)
	return o, nil
}

// storeAndKill kills the daemon when half of a batch has been sent.
func (d *demo) storeAndKill(ctx context.Context) (outcome, error) {
	ctx, cancel := context.WithCancel(ctx)
	defer cancel()
	half := make(chan struct{})
	var sent int64
	items := d.cut.items(d.salt, func(n int) {
		before := sent
		sent += int64(n)
		if before < d.cut.total()/2 && sent >= d.cut.total()/2 {
			close(half)
		}
	})
	answer := make(chan error, 1)
	go func() {
		_, err := d.cl.Store(ctx, items, client.StoreOptions{})
		answer <- err
	}()
	var early error
	select {
	case <-half:
	case early = <-answer: // also when ctx ends
		if early == nil {
			early = errors.New("the store ended before the daemon could be killed")
		}
		return outcome{}, early
	}
	killed := d.child.kill()
	cancel()
	if err := <-answer; err == nil {
		return outcome{}, errors.New("the store was acknowledged by a daemon that was dead")
	}
	return outcome{bytes: sent, result: fmt.Sprintf("cut at %s of %s, nothing acknowledged", size(sent), size(d.cut.total()))}, killed
}

func (d *demo) slotsAddUp(ctx context.Context) (outcome, error) {
	st, err := d.cl.Status(ctx)
	if err != nil {
		return outcome{}, err
	}
	if len(st.Slabs) != 1 {
		return outcome{}, fmt.Errorf("%d slabs, want 1", len(st.Slabs))
	}
	n := st.Slabs[0].Slots
	slot := int64(d.plan.slotSize)
	want := uint32(int64(d.plan.keys) * ((d.plan.big+slot-1)/slot + (d.plan.small+slot-1)/slot))
	if n.Used != want || n.Free+n.Used != n.Total {
		return outcome{}, fmt.Errorf("%d slots used, want %d; states: %+v", n.Used, want, n)
	}
	return outcome{result: fmt.Sprintf("%d used + %d free = %d, none lost", n.Used, n.Free, n.Total)}, nil
}

func (d *demo) allKeys() []string { return slices.Concat(d.big.keys, d.small.keys) }

// loadAll loads both batches and compares every byte.
func (d *demo) loadAll(ctx context.Context) (outcome, error) {
	o := outcome{keys: len(d.allKeys()), bytes: d.big.total() + d.small.total()}
	for _, b := range []batch{d.big, d.small} {
		if _, err := d.compare(ctx, b, false); err != nil {
			return o, err
		}
	}
	o.result = "byte-exact"
	return o, nil
}

// verifyCut checks that nothing of the batch that was cut short is wrong: each
// key is either not there, or whole.
func (d *demo) verifyCut(ctx context.Context) (outcome, error) {
	found, err := d.compare(ctx, d.cut, true)
	return outcome{keys: len(d.cut.keys), bytes: int64(found) * d.cut.bytes, result: fmt.Sprintf("%d missing, %d whole, 0 wrong", len(d.cut.keys)-found, found)}, err
}

// compare loads a batch and returns how many of its keys were there.
func (d *demo) compare(ctx context.Context, b batch, mayMiss bool) (found int, err error) {
	cmp := newComparer()
	for l, err := range d.cl.Load(ctx, b.keys) {
		switch {
		case err != nil:
			return found, err
		case l.Status == api.StatusMissing && mayMiss:
			continue
		case l.Status != api.StatusOK:
			return found, fmt.Errorf("key %q: %s %s", l.Key, l.Status, l.Error)
		}
		if err := cmp.same(l.Body, d.salt, l.Key, b.bytes); err != nil {
			return found, err
		}
		found++
	}
	return found, nil
}

func (d *demo) lookup(ctx context.Context) (outcome, error) {
	keys := d.allKeys()
	res, err := d.cl.Lookup(ctx, keys, client.LookupOptions{Lease: &client.Lease{TTL: time.Minute, Owner: "demo"}})
	if err != nil {
		return outcome{}, err
	}
	if res.Hits != len(keys) || res.Lease == nil || res.Lease.Entries != len(keys) {
		return outcome{}, fmt.Errorf("%d hits and lease %+v, want %d", res.Hits, res.Lease, len(keys))
	}
	d.lease = res.Lease.ID
	return outcome{keys: len(keys), result: fmt.Sprintf("%d hits, all pinned", res.Hits)}, nil
}

// removePinned shows that a pin protects.
func (d *demo) removePinned(ctx context.Context) (outcome, error) {
	return d.removeAll(ctx, api.StatusPinned, 0, "refused: all pinned")
}

func (d *demo) remove(ctx context.Context) (outcome, error) {
	return d.removeAll(ctx, api.StatusOK, len(d.allKeys()), "all removed")
}

func (d *demo) removeAll(ctx context.Context, want api.Status, removed int, result string) (outcome, error) {
	keys := d.allKeys()
	res, err := d.cl.Remove(ctx, keys, false)
	if err != nil {
		return outcome{}, err
	}
	for i, r := range res.Results {
		if r.Status != want {
			return outcome{}, fmt.Errorf("key %q: %s, want %s", keys[i], r.Status, want)
		}
	}
	if res.Removed != removed {
		return outcome{}, fmt.Errorf("%d removed, want %d", res.Removed, removed)
	}
	return outcome{keys: len(keys), result: result}, nil
}

func (d *demo) unpin(ctx context.Context) (outcome, error) {
	res, err := d.cl.Unpin(ctx, d.lease, nil)
	if err == nil && (res.Released != len(d.allKeys()) || res.Stale != 0) {
		err = fmt.Errorf("%d released and %d stale, want %d and 0", res.Released, res.Stale, len(d.allKeys()))
	}
	return outcome{keys: res.Released, result: "lease released"}, err
}

func (d *demo) killAndStart(ctx context.Context) (outcome, error) {
	if err := d.child.kill(); err != nil {
		return outcome{}, err
	}
	return d.start(ctx)
}

func (d *demo) allGone(ctx context.Context) (outcome, error) {
	keys := d.allKeys()
	res, err := d.cl.Lookup(ctx, keys, client.LookupOptions{})
	if err != nil {
		return outcome{}, err
	}
	for i, r := range res.Results {
		if r.Status != api.StatusMissing {
			return outcome{}, fmt.Errorf("key %q: %s, want missing", keys[i], r.Status)
		}
	}
	return outcome{keys: len(keys), result: "all missing"}, nil
}
