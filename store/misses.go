// SPDX-License-Identifier: Apache-2.0

package store

// missReasons are the labels of the count of misses.
func missReasons() []Reason {
	return []Reason{ReasonNeverStored, ReasonEvicted, ReasonExpired, ReasonRemoved, ReasonCorrupt, ReasonUnavailable, ReasonUnknown}
}

// countMisses counts why keys of one batch were not there: n of them, of which at
// tells the answer and the digest. It takes no lock unless a key is missing, and
// never the pin lock.
func (s *Store) countMisses(n int, at func(i int) (Status, digest)) {
	var why [reasons]int
	missing := 0
	for i := range n {
		switch st, _ := at(i); st {
		case Missing:
			missing++
		case Expired:
			why[ReasonExpired]++
		case Unavailable:
			why[ReasonUnavailable]++
		}
	}
	if missing > 0 {
		s.past.tally(&why, n, at)
	}
	for r, k := range why {
		if k > 0 {
			s.metrics.misses[Reason(r).miss()].Add(float64(k))
		}
	}
}

// tally adds why the missing ones of n keys are.
func (p *history) tally(why *[reasons]int, n int, at func(i int) (Status, digest)) {
	p.absorb()
	p.mu.RLock()
	defer p.mu.RUnlock()
	for i := range n {
		if st, d := at(i); st == Missing {
			r, _ := p.ofLocked(d)
			why[r]++
		}
	}
}
