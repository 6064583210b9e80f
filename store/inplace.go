// SPDX-License-Identifier: Apache-2.0

package store

// This file is mutant H9, overwriting in place: what a store must never do. It
// is compiled away without the build tag "mutants".

// reserveInPlace takes the slots of the entry that is to be overwritten.
func (st *Storing) reserveInPlace(it *storeItem) bool {
	if it.replaces == none {
		return false
	}
	s := st.s
	h := s.lock(lockStore)
	defer s.unlock(h)
	if s.x.life[it.replaces] != live || s.x.refs[it.replaces] > 0 || s.x.digest[it.replaces] != it.digest {
		it.replaces = none
		return false
	}
	v := s.volumeOf(it.replaces)
	if s.sizeLocked(it.replaces) != s.volumes[v].slotBytes(it.Len) {
		it.replaces = none
		return false
	}
	it.vol = v
	it.ids = s.x.chain(nil, it.replaces)
	it.slots = s.volumes[v].toSlots(append([]id(nil), it.ids...))
	return true
}

// admitInPlaceLocked switches the entry to the bytes that lie over its old ones.
// +checklocks:st.s.mu
func (st *Storing) admitInPlaceLocked(it *storeItem, g *group) bool {
	x := st.s.x
	if x.life[it.replaces] != live || x.digest[it.replaces] != it.digest {
		it.end(Busy, nil)
		return false
	}
	x.sum[it.replaces], x.length[it.replaces] = it.sum, uint32(it.Len)
	x.setGen(it.replaces, it.gen)
	g.sets = append(g.sets, setRow{it.replaces, st.row(it)})
	it.end(OK, nil)
	it.ids = nil
	return false
}
