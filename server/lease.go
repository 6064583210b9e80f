// SPDX-License-Identifier: Apache-2.0

package server

import (
	"fmt"
	"net/http"
	"time"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/store"
)

// leases lists leases in force, of one namespace or of all.
func (s *Server) leases(x *exchange, r *http.Request) error {
	q := newQuery(r)
	ns := q.text("namespace")
	if err := q.end(); err != nil {
		return err
	}
	st, err := s.ready()
	if err != nil {
		return err
	}
	res := api.LeasesResponse{Leases: []api.Lease{}}
	for _, l := range st.Leases(ns) {
		if !x.sees(l.Namespace) {
			continue
		}
		res.Leases = append(res.Leases, *leaseView(&l))
	}
	return x.json(res)
}

// lease describes one lease.
func (s *Server) lease(x *exchange, r *http.Request) error {
	if err := newQuery(r).end(); err != nil {
		return err
	}
	st, err := s.ready()
	if err != nil {
		return err
	}
	l, err := x.leaseOf(st, r.PathValue("id"))
	if err != nil {
		return err
	}
	return x.json(leaseView(&l))
}

// leaseOf finds a lease. One of a namespace that the sender may not use is
// unknown to it.
func (x *exchange) leaseOf(st *store.Store, id string) (store.Lease, error) {
	l, err := st.LeaseByID(id)
	if err == nil && !x.sees(l.Namespace) {
		return store.Lease{}, fmt.Errorf("%w %q", store.ErrNoLease, id)
	}
	return l, err
}

// renewLease lets a lease last longer, or less long.
func (s *Server) renewLease(x *exchange, r *http.Request) error {
	if err := x.bodyless(r); err != nil {
		return err
	}
	q := newQuery(r)
	ttl, deadline := q.number("ttl_ms", 0, api.MaxMillis), q.deadline()
	if err := q.end(); err != nil {
		return err
	}
	st, err := s.ready()
	if err != nil {
		return err
	}
	if _, err := x.leaseOf(st, r.PathValue("id")); err != nil {
		return err
	}
	ctx, cancel := s.within(x, r, deadline)
	defer cancel()
	l, err := st.Renew(ctx, r.PathValue("id"), time.Duration(ttl)*time.Millisecond)
	if err != nil {
		return err
	}
	return x.json(leaseView(&l))
}

// releaseLease ends a lease. It answers 200 whatever the id is, and whatever
// else is wrong: its callers try again until they see one, and after any other
// answer they could do nothing else.
func (s *Server) releaseLease(x *exchange, r *http.Request) error {
	var res api.UnpinResponse
	if st, err := s.ready(); err == nil {
		if l, err := x.leaseOf(st, r.PathValue("id")); err == nil {
			x.about.setNamespace(l.Namespace)
			res.Released, res.Stale, _ = st.Release(l.ID) // that it has ended meanwhile is as good
		}
	}
	return x.json(res)
}

// stage would take a lease on a key and put its payload into the namespace's
// shared segment. No namespace has one, which a caller learns only for keys that
// are there: it takes any answer but 200 for a miss, and 504 for one that is not
// worth waiting for.
func (s *Server) stage(x *exchange, r *http.Request) error {
	if err := x.bodyless(r); err != nil {
		return err
	}
	o, err := s.object(x, r, func(q *query) {
		q.number("timeout_ms", 0, api.MaxMillis)
		q.seconds("ttl_s")
	})
	if err != nil {
		return err
	}
	defer o.done()
	found, err := lookOne(o.ctx, o.st, o.namespace, o.key)
	if err != nil {
		return err
	}
	switch found.Status {
	case store.OK:
		return api.NewProblem(http.StatusServiceUnavailable, api.CodeNoSegment, "namespace", "%q; load the key with GET or /v1/batch/load", o.namespace)
	case store.Missing, store.Expired:
		return api.NewProblem(http.StatusGatewayTimeout, found.Status.String(), "", "")
	}
	return x.keyProblem(found.Status, found.Err)
}

// bodyless refuses a body on a route that takes none.
func (x *exchange) bodyless(r *http.Request) error {
	if _, err := media(r, "", api.MediaJSON, api.MediaOctets); err != nil {
		return err
	}
	some := r.ContentLength > 0
	if r.ContentLength < 0 {
		n, _ := x.body.Read(make([]byte, 1)) // how it fails is not of interest: nothing of it is used
		some = n > 0
	}
	if some {
		return api.NewProblem(http.StatusRequestEntityTooLarge, api.CodeBodyTooLarge, "", "it takes none")
	}
	return nil
}
