// SPDX-License-Identifier: Apache-2.0

package store

import (
	"sort"

	"github.com/rawblockd/rawblockd/meta"
	"github.com/rawblockd/rawblockd/slab"
)

// StatusReport is the state of the whole at one moment.
type StatusReport struct {
	Slabs      []SlabStatus
	Namespaces []NamespaceStatus
	Entries    int
	Leases     int
	Pins       int64 // in force, over all entries
	// MetaFailed says why changes are refused; empty while they are not.
	MetaFailed string
	// StoresRefused says why stores are refused while the rest goes on: the
	// metadata's file system is short of space. Empty while they are not.
	StoresRefused string
	// Queued is how many changes wait for the committer, counted in groups.
	Queued uint64
	// Results is how many keys were answered since the start, by op and status
	// word.
	Results map[string]map[string]uint64
}

// SlabStatus is the state of one slab.
type SlabStatus struct {
	Name        string
	Device      string
	Incarnation string
	SlotSize    int64
	Mount       uint64
	Relaxed     bool
	ReadOnly    string // why, or empty
	Health      string // one of Healths
	Reason      string // why it is not online
	Counts      slab.Counts
	Scrub       *ScrubProgress // nil: none since the start
}

// NamespaceStatus is what one namespace uses. Sizes are bytes of slots.
type NamespaceStatus struct {
	Name    string
	Entries int64
	Used    int64
	Quota   int64 // 0: no limit of its own
	Pinned  int64
	Wasted  int64 // beyond the payloads
	// Configured is false for one that has left the configuration, or that only
	// rows know: kept, not served.
	Configured bool
}

// Status reports the state of the store.
func (s *Store) Status() StatusReport {
	var r StatusReport
	h := s.lock(lockReport)
	r.Entries, r.Leases, r.Pins = s.x.live, len(s.leases.byID), s.pins
	for _, sp := range *s.names.Load() {
		set := sp.settings()
		r.Namespaces = append(r.Namespaces, NamespaceStatus{sp.name, sp.entries, sp.used, set.quota, sp.pinned, sp.wasted, set.served})
	}
	s.unlock(h)
	sort.Slice(r.Namespaces, func(i, j int) bool { return r.Namespaces[i].Name < r.Namespaces[j].Name })
	for _, v := range s.volumes {
		l := v.slab.Label()
		st := SlabStatus{
			Name: v.slab.Name(), Device: v.slab.Device(), Incarnation: v.inc.String(), SlotSize: v.slab.SlotSize(),
			Mount: l.Mount, Relaxed: v.relaxed, Counts: v.slab.Counts(), Scrub: v.scrub.view(),
		}
		if v.inc == (meta.Incarnation{}) {
			st.Incarnation, st.SlotSize = "", 0 // missing, and nothing is known of it
		}
		st.Health, st.Reason = v.state()
		if why, ro := v.slab.ReadOnly(); ro {
			st.ReadOnly = why
		}
		r.Slabs = append(r.Slabs, st)
	}
	if err := s.commits.broken(); err != nil {
		r.MetaFailed = err.Error()
	} else if why, failed := s.o.Meta.Failed(); failed {
		r.MetaFailed = why
	}
	if err := s.tooFull(); err != nil {
		r.StoresRefused = err.Error()
	}
	r.Queued = s.commits.backlog()
	r.Results = s.metrics.resultCounts()
	return r
}
