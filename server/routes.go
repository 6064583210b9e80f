// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"net/http"
	"net/http/pprof"

	"github.com/rawblockd/rawblockd/api"
)

// handler answers a request or returns what is wrong with it.
type handler func(x *exchange, r *http.Request) error

// methods are the handlers of one path. GET does not imply HEAD.
type methods map[string]handler

// DataHandler returns the handler of a data listener.
func (s *Server) DataHandler(kind Kind) http.Handler { return s.wrap(kind, s.dataRoutes(kind)) }

func (s *Server) dataRoutes(kind Kind) *router {
	t := &router{s: s}
	t.handle("/v1/kv/{namespace}", methods{"GET": s.list})
	t.handle("/v1/kv/{namespace}/clear", methods{"POST": s.clear}) // for all other methods that is a key
	t.handle("/v1/kv/{namespace}/{key}/leases", methods{"POST": s.stage})
	t.handle("/v1/kv/{namespace}/{key}", methods{"GET": s.get, "HEAD": s.head, "PUT": s.put, "DELETE": s.remove})
	t.handle("/v1/batch/lookup", methods{"POST": s.batchLookup})
	t.handle("/v1/batch/load", methods{"POST": s.batchLoad})
	t.handle("/v1/batch/store", methods{"POST": s.batchStore})
	t.handle("/v1/batch/remove", methods{"POST": s.batchRemove})
	t.handle("/v1/batch/pin", methods{"POST": s.batchPin})
	t.handle("/v1/batch/unpin", methods{"POST": s.batchUnpin})
	t.handle("/v1/batch/touch", methods{"POST": s.batchTouch})
	t.handle("/v1/leases", methods{"GET": s.leases})
	t.handle("/v1/leases/{id}", methods{"GET": s.lease})
	t.handle("/v1/leases/{id}/renew", methods{"POST": s.renewLease})
	t.handle("/v1/leases/{id}/release", methods{"POST": s.releaseLease})
	t.handle("/v1/events", methods{"GET": s.events})
	t.handle("/v1/explain/{namespace}/{key}", methods{"GET": s.explainOne})
	t.handle("/v1/namespaces", methods{"GET": s.namespaceList})
	t.handle("/v1/namespaces/{namespace}", methods{"GET": s.namespace, "PUT": admins(s.putNamespace), "DELETE": admins(s.deleteNamespace)})
	t.handle("/v1/info", methods{"GET": s.info})
	s.health(t)
	if kind == Unix {
		s.reports(t)
	}
	return t
}

// AdminHandler returns the handler of the admin listener, which is TCP.
func (s *Server) AdminHandler() http.Handler { return s.wrap(adminKind, s.adminRoutes()) }

func (s *Server) adminRoutes() *router {
	t := &router{s: s}
	s.health(t)
	s.reports(t)
	t.handle("/v1/info", methods{"GET": s.info})
	t.handle("/metrics", methods{"GET": plain(s.metricsHandler())})
	t.handle("/debug/pprof", methods{"GET": plain(http.HandlerFunc(pprof.Index))})
	t.handle("/debug/pprof/{profile}", methods{"GET": s.profile})
	return t
}

func (s *Server) health(t *router) {
	t.handle("/healthz", methods{"GET": s.healthz, "HEAD": s.healthz})
	t.handle("/readyz", methods{"GET": s.readyz, "HEAD": s.readyz})
	t.handle("/openapi.json", methods{"GET": s.openapi})
}

// reports are about all tenants, so they are for administrators wherever they
// are asked for.
func (s *Server) reports(t *router) {
	t.handle("/v1/status", methods{"GET": admins(s.status)})
	t.handle("/v1/slabs", methods{"GET": admins(s.slabs)})
	t.handle("/v1/slabs/{name}/map", methods{"GET": admins(s.slabMap)})
	t.handle("/v1/slabs/{name}/drain", methods{"POST": admins(s.drain)})
	t.handle("/v1/slabs/{name}/resume", methods{"POST": admins(s.resume)})
	t.handle("/v1/slabs/{name}/scrub", methods{"POST": admins(s.scrub)})
	t.handle("/v1/requests", methods{"GET": admins(s.inFlight)})
}

// profile serves one profile. One over a span of time ends with the streams, for a
// stop would wait for it; after that there is only what is so at once. Of the profiles
// of the CPU, and of traces, there is one at a time.
func (s *Server) profile(x *exchange, r *http.Request) error {
	ctx, _ := s.streams.add(r.Context(), x, "", 0)
	if ctx != nil {
		defer s.streams.remove(x)
	} else {
		ctx = atOnce()
	}
	err := plain(http.HandlerFunc(oneProfile))(x, r.WithContext(ctx))
	var p *api.Problem
	if !errors.As(err, &p) || p.Status < http.StatusInternalServerError {
		return err
	}
	if s.stopping.Load() {
		_, err = s.ready()
		return err
	}
	return api.StatusProblem(api.StatusBusy, p.Detail+"; try again when the other one has ended")
}

// oneProfile serves one profile of net/http/pprof, whose own routes sit on the
// default mux that nothing here serves.
func oneProfile(w http.ResponseWriter, r *http.Request) {
	switch name := r.PathValue("profile"); name {
	case "cmdline":
		pprof.Cmdline(w, r)
	case "profile":
		pprof.Profile(w, r)
	case "symbol":
		pprof.Symbol(w, r)
	case "trace":
		pprof.Trace(w, r)
	default: // a name there is no profile of is answered 404
		pprof.Handler(name).ServeHTTP(w, r)
	}
}
