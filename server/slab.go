// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"time"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/store"
)

// slabOf returns the status of one slab.
func (s *Server) slabOf(st *store.Store, name string) (api.SlabStatus, error) {
	for _, v := range s.slabStatus(st.Status()) {
		if v.Name == name {
			return v, nil
		}
	}
	return api.SlabStatus{}, fmt.Errorf("%w %q", store.ErrSlab, name)
}

// slabMap answers a byte for each of a part of a slab's slots.
func (s *Server) slabMap(x *exchange, r *http.Request) error {
	q := newQuery(r)
	from, count := q.number("from", 0, math.MaxUint32), cmp.Or(q.number("count", 1, api.MaxSlabMap), api.MaxSlabMap)
	if err := q.end(); err != nil {
		return err
	}
	st, err := s.ready()
	if err != nil {
		return err
	}
	v, err := s.slabOf(st, r.PathValue("name"))
	if err != nil {
		return err
	}
	if total := int64(v.Slots.Total); from > total {
		return invalid("from", "the slab has no slot %d: want one from 0 to %d", from, total)
	}
	states, err := st.SlabMap(v.Name, uint32(from), uint32(count))
	if err != nil {
		return err
	}
	h := x.Header()
	h.Set(api.HeaderSlots, strconv.FormatUint(uint64(v.Slots.Total), 10))
	h.Set("Content-Type", api.MediaOctets)
	h.Set("Content-Length", strconv.Itoa(len(states)))
	x.WriteHeader(http.StatusOK)
	_, err = x.Write(states)
	return err
}

// drain keeps stores away from a slab.
func (s *Server) drain(x *exchange, r *http.Request) error {
	return s.steer(x, r, "drain", (*store.Store).Drain)
}

// resume takes a drain back.
func (s *Server) resume(x *exchange, r *http.Request) error {
	return s.steer(x, r, "resume", (*store.Store).Resume)
}

// scrub starts a pass over a slab, which goes on when this is answered.
func (s *Server) scrub(x *exchange, r *http.Request) error {
	return s.steer(x, r, "scrub", (*store.Store).Scrub)
}

// scrubStatus puts a scrub into the words of the wire.
func scrubStatus(p *store.ScrubProgress) *api.ScrubStatus {
	if p == nil {
		return nil
	}
	return &api.ScrubStatus{Running: p.Running, Done: p.Done, Total: p.Total, Bad: p.Bad, EndedAt: p.Ended.UTC().Truncate(time.Millisecond), Stopped: p.Stopped}
}

// steer changes what a slab is used for, and answers how it is then.
func (s *Server) steer(x *exchange, r *http.Request, what string, change func(*store.Store, context.Context, string) error) error {
	if err := x.bodyless(r); err != nil {
		return err
	}
	if err := newQuery(r).end(); err != nil {
		return err
	}
	st, err := s.ready()
	if err != nil {
		return err
	}
	ctx, cancel := s.within(x, r, 0)
	defer cancel()
	name := r.PathValue("name")
	if err := change(st, ctx, name); err != nil {
		return err // and nothing has changed
	}
	s.audit(x, r, what, nil, "slab", name)
	v, err := s.slabOf(st, name)
	if err != nil {
		return err
	}
	return x.json(v)
}
