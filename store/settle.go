// SPDX-License-Identifier: Apache-2.0

package store

import "github.com/rawblockd/rawblockd/slab"

// portion is up to how many entries are dealt with in one holding of the pin lock
// after a commit. Less is done for each than where one leaves the index (hold).
const portion = 4 * hold

// settle lets the slots of durably deleted entries go: to the free list in one
// call per slab and portion, or to RETIRED where a read is still under way.
func (s *Store) settle(groups []group) {
	portions(groups, func(lists [][]id, n int) {
		free, kept := s.newSlotLists(n), s.newSlotLists(0)
		h := s.lock(lockCommit)
		for _, deletes := range lists {
			for _, d := range deletes {
				if s.x.refs[d] > 0 {
					s.x.life[d] = retired
					s.addChainLocked(kept, d)
					continue
				}
				s.addChainLocked(free, d)
				s.forgetLocked(d)
			}
		}
		s.move(free, slab.Deleting, slab.Free)
		s.move(kept, slab.Deleting, slab.Retired)
		s.unlock(h)
	})
}

// unserve takes what failed groups published out of the index, in one section of
// the pin lock for a portion of entries, or one group of more.
func (s *Store) unserve(groups []group) {
	now := s.nowMS()
	for len(groups) > 0 {
		n, entries := 0, 0
		for n < len(groups) && (n == 0 || entries < portion) {
			entries += len(groups[n].sets) + len(groups[n].deletes)
			n++
		}
		lost := make([]departure, 0, entries)
		h := s.lock(lockCommit)
		s.past.pend(now, s.unserveLocked(groups[:n], lost))
		s.unlock(h)
		groups = groups[n:]
	}
}

// unserveLocked adds to lost what it took out.
// +checklocks:s.mu
func (s *Store) unserveLocked(groups []group, lost []departure) []departure {
	for i := range groups {
		for _, r := range groups[i].sets {
			if s.x.life[r.head] == live && s.x.gen[r.head] == r.row.Gen {
				lost = append(lost, departure{head: r.head, why: ReasonUnavailable, digest: s.x.digest[r.head]})
				s.detachLocked(r.head, unserved)
			}
		}
		for _, d := range groups[i].deletes {
			if s.x.life[d] == dying {
				lost = append(lost, departure{head: d, why: ReasonUnavailable, digest: s.x.digest[d]})
				s.x.life[d] = unserved
			}
		}
	}
	return lost
}

// portions calls fn with the deletes of groups, part by part; n is how many they are.
func portions(groups []group, fn func(lists [][]id, n int)) {
	var lists [][]id
	n := 0
	for i := range groups {
		for rest := groups[i].deletes; len(rest) > 0; {
			k := min(len(rest), portion-n)
			lists, rest, n = append(lists, rest[:k]), rest[k:], n+k
			if n == portion {
				fn(lists, n)
				lists, n = lists[:0], 0
			}
		}
	}
	if n > 0 {
		fn(lists, n)
	}
}
