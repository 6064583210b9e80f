// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"net/http"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/store"
)

// healthz says that the process answers. It asks no device and no store.
func (s *Server) healthz(x *exchange, _ *http.Request) error {
	x.Header().Set("Content-Type", "text/plain; charset=utf-8")
	_, err := x.Write([]byte("ok\n"))
	return err
}

// readyz says whether the daemon serves, and how far recovery is while not.
func (s *Server) readyz(x *exchange, _ *http.Request) error {
	now := s.phase()
	if now.Ready {
		return x.json(now)
	}
	x.Header().Set("Retry-After", "1")
	return x.answer(http.StatusServiceUnavailable, api.MediaJSON, now)
}

// info tells a client what this server can do.
func (s *Server) info(x *exchange, r *http.Request) error {
	if err := newQuery(r).end(); err != nil {
		return err
	}
	info := api.Info{
		API: api.Version, Version: s.o.Version, Instance: s.o.Instance,
		Features: []string{
			"clear", "compact_lookup", "drain", "events", "explain", "frames", "leases", "namespaces",
			"overwrite", "pins", "prefix_lookup", "scrub", "touch", "ttl",
		},
		Limits: api.InfoLimits{
			BatchKeys: s.o.Limits.BatchKeys, KeyBytes: api.MaxKeyBytes, Payload: s.o.Limits.Payload,
			StreamBytes: s.o.Limits.StreamBytes, RequestDeadlineMS: s.o.Limits.RequestDeadline.Milliseconds(), ListLimit: listMax,
		},
		Alignments:     api.Alignments{Block: s.block(), Piece: piece},
		LargestPayload: s.o.Limits.Payload,
		Namespaces:     s.configured(x),
	}
	return x.json(info)
}

// block is the length, in bytes, of which a transfer of the slabs is a multiple:
// the largest there is. Before a slab is open it is what all of them can do.
func (s *Server) block() int {
	most, st := 0, s.store.Load()
	if st != nil && s.o.Engine != nil {
		for _, v := range st.Status().Slabs {
			if e := s.o.Engine(v.Name); e != nil {
				most = max(most, e.Block)
			}
		}
	}
	return cmp.Or(most, page)
}

// status reports the whole. It works while recovery runs, with what there is.
func (s *Server) status(x *exchange, r *http.Request) error {
	if err := newQuery(r).end(); err != nil {
		return err
	}
	res := api.StatusReport{Instance: s.o.Instance, Version: s.o.Version, Slabs: []api.SlabStatus{}, Namespaces: []api.NamespaceStatus{}, Results: map[string]map[api.Status]uint64{}}
	now := s.phase()
	res.Ready, res.MetaFailed = now.Ready, now.Reason
	st := s.store.Load()
	if st == nil {
		return x.json(res)
	}
	rep := st.Status()
	res.MetaFailed, res.Queued = cmp.Or(res.MetaFailed, rep.MetaFailed), rep.Queued
	res.StoresRefused = rep.StoresRefused
	res.Entries, res.Leases, res.Pins = uint64(rep.Entries), rep.Leases, rep.Pins
	res.Slabs, res.Results = s.slabStatus(rep), results(rep)
	for _, n := range rep.Namespaces {
		res.PinnedBytes += n.Pinned
		res.Namespaces = append(res.Namespaces, api.NamespaceStatus{
			Name: n.Name, Entries: n.Entries, SlotBytes: n.Used, Quota: n.Quota, PinnedBytes: n.Pinned, Configured: n.Configured,
		})
	}
	return x.json(res)
}

// results counts answers by the words of the wire.
func results(rep store.StatusReport) map[string]map[api.Status]uint64 {
	out := make(map[string]map[api.Status]uint64, len(rep.Results))
	for op, by := range rep.Results {
		out[op] = make(map[api.Status]uint64, len(by))
		for word, n := range by {
			out[op][api.Status(word)] = n
		}
	}
	return out
}

// slabs reports the slabs alone.
func (s *Server) slabs(x *exchange, r *http.Request) error {
	if err := newQuery(r).end(); err != nil {
		return err
	}
	st, err := s.ready()
	if err != nil {
		return err
	}
	return x.json(api.SlabsResponse{Slabs: s.slabStatus(st.Status())})
}

func (s *Server) slabStatus(rep store.StatusReport) []api.SlabStatus {
	out := make([]api.SlabStatus, len(rep.Slabs))
	for i, v := range rep.Slabs {
		c := v.Counts
		out[i] = api.SlabStatus{
			Name: v.Name, Device: v.Device, Incarnation: v.Incarnation, SlotSize: v.SlotSize, Mount: v.Mount,
			Health: v.Health, Reason: v.Reason, Durability: "sync", Scrub: scrubStatus(v.Scrub),
			Slots: api.SlotCounts{
				Free: c.Free, Reserved: c.Reserved, Used: c.Used, Deleting: c.Deleting,
				Retired: c.Retired, Quarantined: c.Quarantined, Total: c.Total,
			},
		}
		if s.o.Engine != nil {
			out[i].Engine = s.o.Engine(v.Name)
		}
		if v.Relaxed {
			out[i].Durability = "relaxed"
		}
	}
	return out
}
