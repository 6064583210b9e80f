// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"sync/atomic"

	"github.com/rawblockd/rawblockd/ioengine"
	"github.com/rawblockd/rawblockd/slab"
)

// What reads entries.
const byLoad, byScrub = "load", "scrub"

// judge turns the outcome of a read into a status and drops the entry if its
// bytes are bad. By names what read it: only a load that finds none is a miss.
func (s *Store) judge(it *loadItem, err error, by string) Status {
	v := s.volumes[it.vol]
	if err == nil {
		v.worked(ioengine.Read)
		// The reference keeps the slots: another generation here means that they
		// were given away all the same, and then nothing in them may be served.
		if g := atomic.LoadUint64(&s.x.gen[it.head]); g != it.Gen && g != 0 {
			s.metrics.generationChanged.Inc()
			return Missing
		}
		return OK
	}
	if errors.Is(err, slab.ErrCorrupt) {
		s.metrics.corrupt.WithLabelValues(v.slab.Name()).Inc()
		if s.torn(it) {
			v.worked(ioengine.Read)
		} else {
			v.flawed(err)
		}
		s.missed(by, ReasonCorrupt)
		s.condemn(it, "checksum mismatch on "+by, false)
		return Corrupt
	}
	if v.unread(err, by) {
		if by == byScrub {
			v.confirm(err)
		} else {
			s.flushes.Go(func() { v.confirm(err) })
		}
	}
	if ok, _ := v.serves(); !ok {
		return Unavailable // the entry is there when the slab is back; Next counts the miss
	}
	s.missed(by, ReasonCorrupt)
	if accuses(err) {
		s.condemn(it, "read error on "+by+": "+err.Error(), true)
	}
	return IOError
}

// missed counts a load of an entry that was there and could not be had.
func (s *Store) missed(by string, why Reason) {
	if by == byLoad {
		s.metrics.misses[why].Inc()
	}
}
