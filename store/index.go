// SPDX-License-Identifier: Apache-2.0

package store

import (
	"fmt"
	"hash/maphash"
	"math/bits"
	"sync/atomic"
)

// A slot of any slab has one number here: the slab's base plus the slot number.
// The entry of a key goes by the number of its head slot, its id.
type id = uint32

// none is no id: the end of a chain, an empty place of the table.
const none = ^id(0)

// digest is what stands for namespace and key in RAM: 128 bits under a key of
// this process, so that nobody can prepare two keys that meet.
type digest struct{ hi, lo uint64 }

// life says what an id is the head of.
type life uint8

const (
	idle     life = iota // nothing, or a further slot of some entry
	live                 // published: in the table
	dying                // unlinked, its delete is queued
	retired              // deleted durably, still read by someone
	condemn              // unlinked because its bytes are bad; never freed
	unserved             // its commit failed: never freed, never served
)

// index maps digests to ids and holds what is known of each entry. It is sized
// once, holds no pointers and never grows: 60 bytes a slot with the table at
// 4/5 load. A Go map would cost several times that and blow the lock-hold
// budget with its growth.
//
// Everything is guarded by the pin lock, but gen may be read without it.
type index struct {
	table  []id // open addressing, linear probing, backward-shift deletion
	digest []digest
	gen    []uint64 // 0: no entry; written with atomic stores
	sum    []uint64
	length []uint32
	next   []id
	expiry []int64 // unix ms; 0: never
	ns     []uint16
	refs   []uint16 // I/O under way
	pins   []uint16 // leases
	life   []life
	live   int
	ttls   int // live entries with an expiry
}

func newIndex(slots uint64) (*index, error) {
	if slots >= uint64(none) {
		return nil, fmt.Errorf("%d slots in all: more than the index can number (%d)", slots, none-1)
	}
	n := int(slots)
	x := &index{
		table:  make([]id, n+n/4+8),
		digest: make([]digest, n),
		gen:    make([]uint64, n),
		sum:    make([]uint64, n),
		length: make([]uint32, n),
		next:   make([]id, n),
		expiry: make([]int64, n),
		ns:     make([]uint16, n),
		refs:   make([]uint16, n),
		pins:   make([]uint16, n),
		life:   make([]life, n),
	}
	for i := range x.table {
		x.table[i] = none
	}
	return x, nil
}

// home is the first place a digest is looked for.
func (x *index) home(d digest) int {
	h, _ := bits.Mul64(d.hi, uint64(len(x.table)))
	return int(h)
}

// place finds where d is, or where it would go.
func (x *index) place(d digest) (int, bool) {
	i := x.home(d)
	for x.table[i] != none {
		if x.digest[x.table[i]] == d {
			return i, true
		}
		if i++; i == len(x.table) {
			i = 0
		}
	}
	return i, false
}

// find returns the id of the entry with digest d.
func (x *index) find(d digest) (id, bool) {
	i, ok := x.place(d)
	if !ok {
		return none, false
	}
	return x.table[i], true
}

// entry is what insert needs to know.
type entry struct {
	digest digest
	gen    uint64
	sum    uint64
	length uint32
	expiry int64
	ns     uint16
}

// insert publishes an entry whose slots, as ids, are chain. The digest must not
// be in the table.
func (x *index) insert(e entry, chain []id) {
	head := chain[0]
	i, found := x.place(e.digest)
	if found || x.life[head] != idle {
		panic(fmt.Sprintf("store: insert over a live entry at slot id %d", head))
	}
	x.table[i] = head
	x.digest[head] = e.digest
	x.sum[head] = e.sum
	x.length[head] = e.length
	x.expiry[head] = e.expiry
	x.ns[head] = e.ns
	x.refs[head], x.pins[head] = 0, 0
	x.life[head] = live
	x.link(chain)
	x.setGen(head, e.gen)
	x.live++
	if e.expiry != 0 {
		x.ttls++
	}
}

// link makes ids the chain of one entry.
func (x *index) link(chain []id) {
	for j, c := range chain {
		x.next[c] = none
		if j > 0 {
			x.next[chain[j-1]] = c
		}
	}
}

// bury takes note of an entry that is to be deleted without ever having been in
// the table.
func (x *index) bury(e entry, chain []id) {
	head := chain[0]
	x.link(chain)
	x.length[head], x.ns[head], x.life[head] = e.length, e.ns, dying
}

// unlink takes an entry out of the table and clears its generation, so that
// every pin on it is stale. Its chain stays until forget.
func (x *index) unlink(h id, to life) {
	i, ok := x.place(x.digest[h])
	if !ok || x.table[i] != h || x.life[h] != live {
		panic(fmt.Sprintf("store: unlink of slot id %d which is not live", h))
	}
	x.vacate(i)
	x.life[h] = to
	x.pins[h] = 0
	x.setGen(h, 0)
	x.live--
	if x.expiry[h] != 0 {
		x.ttls--
	}
}

// retime changes when a live entry expires.
func (x *index) retime(h id, expiry int64) {
	if x.expiry[h] != 0 {
		x.ttls--
	}
	if expiry != 0 {
		x.ttls++
	}
	x.expiry[h] = expiry
}

// vacate empties place i and moves later entries of the same run back, so that
// no tombstone is ever needed.
func (x *index) vacate(i int) {
	j := i
	for {
		if j++; j == len(x.table) {
			j = 0
		}
		if x.table[j] == none {
			break
		}
		k := x.home(x.digest[x.table[j]])
		// The entry at j may move to i only if its home is not between i (exclusive) and j.
		if i <= j && (i < k && k <= j) || i > j && (i < k || k <= j) {
			continue
		}
		x.table[i] = x.table[j]
		i = j
	}
	x.table[i] = none
}

// forget makes the head of an unlinked entry idle again: its slots are free.
func (x *index) forget(h id) {
	x.life[h] = idle
	x.expiry[h] = 0
}

// chain appends the ids of an entry's slots to dst, head first.
func (x *index) chain(dst []id, h id) []id {
	for c := h; c != none; c = x.next[c] {
		dst = append(dst, c)
	}
	return dst
}

// setGen changes a generation, which judge reads without the lock.
func (x *index) setGen(h id, gen uint64) { atomic.StoreUint64(&x.gen[h], gen) }

// dead tells whether an entry's time is over. A pin outlives expiry.
func (x *index) dead(h id, nowMS int64) bool {
	return x.expiry[h] != 0 && x.expiry[h] <= nowMS && x.pins[h] == 0
}

// hasher makes digests.
type hasher struct{ a, b maphash.Seed }

func newHasher() hasher { return hasher{maphash.MakeSeed(), maphash.MakeSeed()} }

// of returns the digest of a key in a namespace whose salt is given.
func (h hasher) of(salt digest, key string) digest {
	return digest{maphash.String(h.a, key) ^ salt.hi, maphash.String(h.b, key) ^ salt.lo}
}
