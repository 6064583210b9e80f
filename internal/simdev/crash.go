// SPDX-License-Identifier: Apache-2.0

package simdev

import "slices"

// cache is what has been written and not flushed, and what is being written. It
// is guarded by Device.mu and empty without Options.Volatile, but for running.
type cache struct {
	durable image
	log     []logged // oldest first
	running []*op    // writes inside the device
	seq     uint64
}

type logged struct {
	extent
	seq  uint64 // from 1, in order of completion
	lost bool   // a flush that was to cover it failed: no later one will
}

// Crash returns the device that is found after a power cut at this moment; d
// itself goes on.
//
// For each block that is not certain, pick is asked which of its versions
// survived: 0 is the durable one, versions-1 the newest. Newer than all
// completed writes are the ones inside the device. So pick returning 0 loses
// everything unflushed, versions-1 keeps everything, and a random number tears
// writes apart and reorders them, as the volatile cache of a real drive may.
// The faults are not carried over. It panics without Options.Volatile.
func (d *Device) Crash(pick func(off int64, versions int) int) *Device {
	if !d.o.Volatile {
		panic("simdev: Crash needs Options.Volatile")
	}
	d.mu.Lock()
	defer d.mu.Unlock()
	image := d.cache.durable.clone()
	versions := d.cache.versions(int64(d.o.Block))
	blocks := make([]int64, 0, len(versions))
	for off := range versions {
		blocks = append(blocks, off)
	}
	slices.Sort(blocks) // pick may draw from a seeded source
	for _, off := range blocks {
		if which := pick(off, len(versions[off])+1); which > 0 {
			image.write(extent{off, versions[off][which-1]})
		}
	}
	after := New(d.o)
	after.mu.Lock()
	defer after.mu.Unlock()
	after.image, after.cache.durable = image, image.clone()
	return after
}

// Unflushed returns how many writes a power cut could lose.
func (d *Device) Unflushed() int {
	d.mu.Lock()
	defer d.mu.Unlock()
	return len(d.cache.log) + len(d.cache.running)
}

// versions returns, by block, what was written there since it was durable.
func (c *cache) versions(block int64) map[int64][][]byte {
	versions := map[int64][][]byte{}
	add := func(e extent) {
		for len(e.data) > 0 {
			n := min(block-e.off%block, int64(len(e.data)))
			versions[e.off] = append(versions[e.off], e.data[:n])
			e = extent{e.off + n, e.data[n:]}
		}
	}
	for _, w := range c.log {
		add(w.extent)
	}
	for _, t := range c.running {
		add(extent{t.off, slices.Concat(clip(t.vec, t.n)...)})
	}
	return versions
}

// add logs a write that has completed.
func (c *cache) add(w extent) {
	c.seq++
	c.log = append(c.log, logged{extent: w, seq: c.seq})
}

func (c *cache) begin(t *op) { c.running = append(c.running, t) }

func (c *cache) end(t *op) {
	c.running = slices.DeleteFunc(c.running, func(other *op) bool { return other == t })
}

// last returns the number of the newest completed write.
func (c *cache) last() uint64 { return c.seq }

// flush makes completed writes up to number last durable, but for lost ones.
// A lost write that a durable one has since overwritten is settled too.
func (c *cache) flush(last uint64) {
	var rest []logged
	for _, w := range c.log {
		if w.seq > last || w.lost {
			rest = append(rest, w)
			continue
		}
		c.durable.write(w.extent)
		rest = cut(rest, w.extent)
	}
	c.log = rest
}

// lose is a failed flush of what flush would have made durable.
func (c *cache) lose(last uint64) {
	for i := range c.log {
		if c.log[i].seq <= last {
			c.log[i].lost = true
		}
	}
}

// poke makes an extent durable and newer than all that is logged.
func (c *cache) poke(w extent) {
	c.durable.write(w)
	c.log = cut(c.log, w)
}

// cut takes out of logged writes what a durable extent has overwritten.
func cut(log []logged, w extent) []logged {
	var rest []logged
	for _, old := range log {
		for _, part := range old.without(span{w.off, int64(len(w.data))}) {
			rest = append(rest, logged{part, old.seq, old.lost})
		}
	}
	return rest
}
