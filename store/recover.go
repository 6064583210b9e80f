// SPDX-License-Identifier: Apache-2.0

package store

import (
	"context"
	"errors"
	"fmt"
	"math"
	"slices"

	"github.com/rawblockd/rawblockd/internal/mutant"
	"github.com/rawblockd/rawblockd/meta"
	"github.com/rawblockd/rawblockd/slab"
)

// recovery derives the index and the free lists from the rows. It is the same
// after every kind of stop.
type recovery struct {
	s       *Store
	lost    []id // heads of entries that a later one of the same key replaces
	bad     []badRow
	mounted []*volume // to be described in the metadata
}

// recover mounts all slabs, reads their rows, and makes what it found durable and
// the settings that the file gave. Only Open calls it, before anything else runs.
func (s *Store) recover(ctx context.Context, seeded []nameRow) error {
	r := &recovery{s: s}
	missing, err := s.absent()
	if err != nil {
		return err
	}
	for _, inc := range missing {
		s.o.Log.Warn("metadata knows a slab that is not configured; its entries are not served", "incarnation", inc.String())
	}
	for _, v := range s.volumes {
		if v.slab.Absent() == nil {
			_, ro := v.slab.ReadOnly()
			if err := s.mount(v); err != nil {
				return err
			}
			if !ro {
				r.mounted = append(r.mounted, v)
			}
		}
		if err := r.volume(ctx, v); err != nil {
			return fmt.Errorf("recover slab %q: %w", v.slab.Name(), err)
		}
	}
	if err := r.settle(seeded); err != nil {
		return err
	}
	for _, v := range s.volumes {
		v.slab.Ready()
	}
	return nil
}

// volume reads one slab's quarantine and rows.
func (r *recovery) volume(ctx context.Context, v *volume) error {
	if v.slab.SlotCount() == 0 {
		return nil // missing, and nothing is known of it
	}
	err := r.s.o.Meta.Quarantined(v.inc, func(slot uint32, _ string) {
		if slot < v.slab.SlotCount() && v.slab.State(slot) != slab.Quarantined {
			v.slab.Quarantine([]uint32{slot})
		}
	})
	if err != nil {
		return err
	}
	total := uint64(len(r.s.x.gen))
	rows := 0
	var stop error
	err = r.s.o.Meta.Scan(v.inc, 0, 0, func(head uint32, row meta.Row, rowErr error) bool {
		if rows++; rows%4096 == 0 {
			if stop = ctx.Err(); stop != nil {
				return false
			}
			if r.s.o.Progress != nil {
				r.s.o.Progress(uint64(v.base)+uint64(head), total)
			}
		}
		stop = r.row(v, head, &row, rowErr)
		return stop == nil
	})
	return errors.Join(stop, err)
}

// row puts one row's entry into the index. Only what must stop the daemon is an
// error: a row of a later release. A row that cannot be right is reported, and
// its slots are put out of use.
func (r *recovery) row(v *volume, head uint32, row *meta.Row, rowErr error) error {
	if errors.Is(rowErr, meta.ErrIncompat) {
		return fmt.Errorf("row of slot %d: %w: start the release that wrote it", head, rowErr)
	}
	if head >= v.slab.SlotCount() {
		return fmt.Errorf("row of slot %d: the slab has %d slots: metadata and device do not belong together", head, v.slab.SlotCount())
	}
	slots := append([]uint32{head}, row.More...)
	if rowErr == nil {
		rowErr = checkRow(v, slots, row)
	}
	switch {
	case rowErr == nil:
	case v.slab.State(head) == slab.Used:
		r.shared(v, head, []uint32{head}, fmt.Errorf("row: %w", rowErr))
		return nil
	default:
		r.condemn(v, head, []uint32{head}, "row: "+rowErr.Error())
		return nil
	}
	sp, err := r.space(row.Namespace)
	if err != nil {
		return err
	}
	restore := slots
	if mutant.On(mutant.H10) {
		restore = slots[:1]
	}
	if err := v.slab.Restore(restore); err != nil {
		r.shared(v, head, slots, err)
		return nil
	}
	r.insert(v, sp, slots, row)
	return nil
}

// checkRow tells whether a row can be of this slab at all.
func checkRow(v *volume, slots []uint32, row *meta.Row) error {
	if row.Len == 0 || row.Len > math.MaxUint32 {
		return fmt.Errorf("length %d", row.Len)
	}
	if want := v.slab.SlotsFor(int64(row.Len)); want != len(slots) {
		return fmt.Errorf("%d slots for %d bytes, want %d", len(slots), row.Len, want)
	}
	for _, sl := range slots {
		if sl >= v.slab.SlotCount() {
			return fmt.Errorf("slot %d is beyond the %d of the slab", sl, v.slab.SlotCount())
		}
	}
	return CheckKey(row.Key)
}

// space finds the row's namespace; one that is no longer configured keeps its
// entries and what they use, but nobody reaches them.
//
// +checklocksignore: nothing else runs yet.
func (r *recovery) space(name string) (*space, error) {
	s := r.s
	if sp := s.named(name); sp != nil {
		return sp, nil
	}
	if len(s.spaces) >= math.MaxUint16 {
		return nil, fmt.Errorf("rows of more than %d namespaces", math.MaxUint16)
	}
	sp := s.newSpace(name, &settings{})
	s.numberLocked(sp)
	(*s.names.Load())[name] = sp
	s.o.Log.Warn("entries of a namespace that is not configured are kept but not served", "namespace", name)
	return sp, nil
}

// insert adds an entry; of two rows of one key the higher generation wins.
//
// +checklocksignore: nothing else runs yet.
func (r *recovery) insert(v *volume, sp *space, slots []uint32, row *meta.Row) {
	x := r.s.x
	ids := v.toIDs(slots)
	e := entry{r.s.hash.of(sp.salt, row.Key), row.Gen, row.Sum, uint32(row.Len), row.ExpiresAt, sp.num}
	sp.used += v.slotBytes(int64(row.Len))
	sp.holds(v)
	if old, found := x.find(e.digest); found {
		if x.gen[old] > row.Gen {
			x.bury(e, ids)
			r.lose(ids[0])
			return
		}
		r.s.countLocked(old, -1)
		x.unlink(old, dying)
		r.lose(old)
	}
	x.insert(e, ids)
	r.s.countLocked(ids[0], 1)
}

// lose notes an entry for deletion.
func (r *recovery) lose(h id) {
	r.lost = append(r.lost, h)
	r.s.o.Log.Warn("two rows of one key: the older one is dropped", "slot id", h)
}

// shared handles a row whose slots belong to another entry too: which of the
// two wrote them last cannot be known, so neither is served.
//
// +checklocksignore: nothing else runs yet.
func (r *recovery) shared(v *volume, head uint32, slots []uint32, cause error) {
	x := r.s.x
	wanted := map[id]bool{}
	for _, sl := range slots {
		wanted[sl+v.base] = true
	}
	for h := v.base; h < v.end(); h++ {
		if x.life[h] != live {
			continue
		}
		chain := x.chain(nil, h)
		for _, c := range chain {
			if wanted[c] {
				r.s.countLocked(h, -1)
				r.s.spaces[x.ns[h]].used -= r.s.sizeLocked(h)
				x.unlink(h, condemn)
				r.condemn(v, h-v.base, v.toSlots(chain), "shares a slot with the entry at slot "+fmt.Sprint(head))
				break
			}
		}
	}
	r.condemn(v, head, slots, cause.Error())
}

// condemn puts slots out of use and drops the row of head.
func (r *recovery) condemn(v *volume, head uint32, slots []uint32, reason string) {
	var fresh []uint32
	for _, sl := range slots {
		if v.slab.State(sl) != slab.Quarantined {
			fresh = append(fresh, sl)
		}
	}
	v.slab.Quarantine(fresh)
	r.s.metrics.recoveryFaults.Inc()
	r.s.o.Log.Error("row dropped, its slots are quarantined", "slab", v.slab.Name(), "slot", head, "reason", reason)
	r.bad = append(r.bad, badRow{head: head + v.base, slots: v.toIDs(slots), reason: reason})
}

// losers returns the slots of the entries to delete. One that shares a slot with
// what was found bad goes the way of that instead.
//
// +checklocksignore: nothing else runs yet.
func (r *recovery) losers() slotLists {
	s := r.s
	slots := s.newSlotLists(0)
	var keep []id
	for _, h := range r.lost {
		v := s.volumes[s.volumeOf(h)]
		mine := v.toSlots(s.x.chain(nil, h))
		if !slices.ContainsFunc(mine, func(sl uint32) bool { return v.slab.State(sl) == slab.Quarantined }) {
			keep = append(keep, h)
			s.addChainLocked(slots, h)
			continue
		}
		s.spaces[s.x.ns[h]].used -= s.sizeLocked(h)
		s.x.life[h] = condemn
		r.condemn(v, h-v.base, mine, "shares a slot with a row that was dropped")
	}
	r.lost = keep
	return slots
}

// settle makes what recovery found durable before anything is served.
func (r *recovery) settle(seeded []nameRow) error {
	s := r.s
	s.move(r.losers(), slab.Used, slab.Deleting)
	b := s.o.Meta.NewBatch()
	for _, v := range r.mounted {
		if err := s.describe(b, v); err != nil {
			return fmt.Errorf("mount slab %q: %w", v.slab.Name(), err)
		}
	}
	g := group{deletes: r.lost, bad: r.bad, names: seeded}
	s.commits.fill(b, &g)
	if b.Len() == 0 {
		return nil
	}
	if err := s.o.Meta.Commit(b, true); err != nil {
		return fmt.Errorf("record what recovery found: %w", err)
	}
	s.settle([]group{g})
	return nil
}
