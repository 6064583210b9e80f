// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"
	"net/netip"
	"time"

	"github.com/rawblockd/rawblockd/api"
)

// leasePatience is how long a request on the lease listener may take that does
// not say. Stock LMCache leaves after five seconds, and after three such requests
// in a row tries none for a while; any answer in time is better.
const leasePatience = 4 * time.Second

// LeaseOptions say who gets what on the lease listener.
type LeaseOptions struct {
	Allow      []netip.Prefix // addresses of clients; IPv4 as IPv4
	Namespaces []string       // the only ones there are to them
}

// LeaseHandler returns the handler of the lease listener, which is TCP: what
// stock LMCache asks for and the contract, nothing else, for whoever has an allowed address and
// without a token.
func (s *Server) LeaseHandler(o LeaseOptions) http.Handler {
	t := s.leaseRoutes()
	rights := access{namespaces: map[string]bool{}}
	for _, n := range o.Namespaces {
		rights.namespaces[n] = true
	}
	return s.wrap(leaseKind, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		x := w.(*exchange)
		if err := o.admit(r); err != nil {
			x.body.end() // nothing more is read of a stranger
			s.finish(x, r, err)
			return
		}
		x.access, x.patience = rights, leasePatience
		t.ServeHTTP(x, r)
	}))
}

func (s *Server) leaseRoutes() *router {
	t := &router{s: s, strict: true}
	t.handle("/v1/kv/{namespace}/{key}", methods{"PUT": s.leasePut})
	t.handle("/v1/kv/{namespace}/{key}/leases", methods{"POST": s.stage})
	t.handle("/v1/leases/{id}/release", methods{"POST": s.releaseLease})
	t.handle("/openapi.json", methods{"GET": s.openapi})
	return t
}

// leasePut is put for whoever may reach the listener: nobody there has a token, so
// nobody may touch what others stored, nor say what it belongs to.
func (s *Server) leasePut(x *exchange, r *http.Request) error {
	q := newQuery(r)
	for _, name := range []string{"overwrite", "force", "after", "family"} {
		if q.given(name) {
			return api.NewProblem(http.StatusBadRequest, api.CodeUnsupportedField, name, "this listener asks for no token, so it takes new keys only, without relation to others; use listen.http or listen.unix")
		}
	}
	return s.put(x, r)
}

// admit refuses clients by their address.
func (o *LeaseOptions) admit(r *http.Request) error {
	from, err := netip.ParseAddrPort(r.RemoteAddr)
	if err == nil {
		addr := from.Addr().Unmap().WithZone("") // a range has no zone
		for _, p := range o.Allow {
			if p.Contains(addr) {
				return nil
			}
		}
	}
	p := api.NewProblem(http.StatusForbidden, api.CodeForeignAddress, "", "%s is in no range of listen.lease.allow_cidrs", r.RemoteAddr)
	p.Close = true
	return p
}
