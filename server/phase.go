// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"net/http"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/store"
)

// SetStore makes the server ready, or with nil not ready any more, which a stop
// does first; streams of events end then. The store's metrics are registered with the first one.
func (s *Server) SetStore(st *store.Store) {
	if st != nil && !s.registered.Swap(true) {
		for _, c := range st.Collectors() {
			if err := s.registry.Register(c); err != nil {
				s.o.Log.Error("register metrics of the store", "err", err)
			}
		}
	}
	s.stopping.Store(st == nil)
	s.store.Store(st)
	if st == nil {
		s.streams.end()
	} else {
		s.streams.begin()
	}
}

// SetProgress tells /readyz how far recovery is, in rows.
func (s *Server) SetProgress(done, total uint64) {
	s.done.Store(done)
	s.total.Store(total)
}

// SetFailed says that the metadata is out of service, and why: the server is
// not ready any more, for good, so that whoever watches it can start another.
// What is stored is still served.
// The first reason stays, as later ones follow from it.
func (s *Server) SetFailed(reason string) {
	reason = cmp.Or(reason, "unknown")
	s.failed.CompareAndSwap(nil, &reason)
}

// phase says what the server is doing, in the words of /readyz.
func (s *Server) phase() api.Ready {
	reason := ""
	if failed := s.failed.Load(); failed != nil {
		reason = *failed
	}
	switch {
	case s.stopping.Load():
		return api.Ready{Phase: api.PhaseStopping, Reason: reason}
	case reason != "":
		return api.Ready{Phase: api.PhaseMetadataFailed, Reason: reason}
	case s.store.Load() == nil:
		return api.Ready{Phase: api.PhaseRecovering, Done: s.done.Load(), Total: s.total.Load()}
	}
	return api.Ready{Ready: true, Phase: api.PhaseServing}
}

// ready returns the store, or the problem that there is none.
func (s *Server) ready() (*store.Store, error) {
	if st := s.store.Load(); st != nil {
		return st, nil
	}
	p := api.NewProblem(http.StatusServiceUnavailable, api.CodeNotReady, "", "recovering: %d of %d rows read; see /readyz", s.done.Load(), s.total.Load())
	if s.stopping.Load() {
		p.Detail = "the daemon is stopping"
	}
	p.RetryAfter = 1
	return nil, p
}
