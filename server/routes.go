// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"
	"net/http/pprof"
	"slices"
	"strings"

	"github.com/rawblockd/rawblockd/api"
)

// handler answers a request or returns what is wrong with it.
type handler func(x *exchange, r *http.Request) error

// methods are the handlers of one path. GET does not imply HEAD.
type methods map[string]handler

// DataHandler returns the handler of a data listener.
func (s *Server) DataHandler(kind Kind) http.Handler {
	mux := http.NewServeMux()
	s.handle(mux, "/v1/kv/{namespace}", methods{"GET": s.list})
	s.handle(mux, "/v1/kv/{namespace}/{key}", methods{"GET": s.get, "HEAD": s.head, "PUT": s.put, "DELETE": s.remove})
	s.handle(mux, "/v1/batch/lookup", methods{"POST": s.batchLookup})
	s.handle(mux, "/v1/batch/load", methods{"POST": s.batchLoad})
	s.handle(mux, "/v1/batch/store", methods{"POST": s.batchStore})
	s.handle(mux, "/v1/batch/remove", methods{"POST": s.batchRemove})
	s.handle(mux, "/v1/batch/pin", methods{"POST": s.batchPin})
	s.handle(mux, "/v1/batch/unpin", methods{"POST": s.batchUnpin})
	s.handle(mux, "/v1/leases", methods{"GET": s.leases})
	s.handle(mux, "/v1/leases/{id}", methods{"GET": s.lease})
	s.handle(mux, "/v1/info", methods{"GET": s.info})
	s.health(mux)
	if kind == Unix {
		s.reports(mux)
	}
	return s.wrap(kind, mux)
}

// AdminHandler returns the handler of the admin listener, which is TCP.
func (s *Server) AdminHandler() http.Handler {
	mux := http.NewServeMux()
	s.health(mux)
	s.reports(mux)
	s.handle(mux, "/v1/info", methods{"GET": s.info})
	s.handle(mux, "/metrics", methods{"GET": plain(s.metricsHandler())})
	s.handle(mux, "/debug/pprof", methods{"GET": plain(http.HandlerFunc(pprof.Index))})
	s.handle(mux, "/debug/pprof/{profile}", methods{"GET": plain(http.HandlerFunc(profile))})
	return s.wrap(TCP, mux)
}

func (s *Server) health(mux *http.ServeMux) {
	s.handle(mux, "/healthz", methods{"GET": s.healthz, "HEAD": s.healthz})
	s.handle(mux, "/readyz", methods{"GET": s.readyz, "HEAD": s.readyz})
	s.handle(mux, "/", nil)
}

func (s *Server) reports(mux *http.ServeMux) {
	s.handle(mux, "/v1/status", methods{"GET": s.status})
	s.handle(mux, "/v1/slabs", methods{"GET": s.slabs})
}

// handle registers the methods of a path. Paths are registered without a
// method, and all others at "/", so that 404 and 405 are problems like any.
func (s *Server) handle(mux *http.ServeMux, pattern string, m methods) {
	allow := make([]string, 0, len(m))
	for name := range m {
		allow = append(allow, name)
	}
	slices.Sort(allow)
	mux.HandleFunc(pattern, func(w http.ResponseWriter, r *http.Request) {
		x := w.(*exchange)
		h := m[r.Method]
		switch {
		case h != nil:
			s.finish(x, r, h(x, r))
		case len(allow) == 0:
			s.finish(x, r, api.NewProblem(http.StatusNotFound, api.CodeNotFound, "path", "%q", r.URL.EscapedPath()))
		default:
			x.Header().Set("Allow", strings.Join(allow, ", "))
			s.finish(x, r, api.NewProblem(http.StatusMethodNotAllowed, api.CodeMethod, "", "%s; it takes %s", r.Method, strings.Join(allow, ", ")))
		}
	})
}

// plain adapts a handler that answers all by itself.
func plain(h http.Handler) handler {
	return func(x *exchange, r *http.Request) error {
		h.ServeHTTP(x, r)
		return nil
	}
}

// profile serves one profile of net/http/pprof, whose own routes sit on the
// default mux that nothing here serves.
func profile(w http.ResponseWriter, r *http.Request) {
	switch name := r.PathValue("profile"); name {
	case "cmdline":
		pprof.Cmdline(w, r)
	case "profile":
		pprof.Profile(w, r)
	case "symbol":
		pprof.Symbol(w, r)
	case "trace":
		pprof.Trace(w, r)
	default:
		pprof.Handler(name).ServeHTTP(w, r)
	}
}
