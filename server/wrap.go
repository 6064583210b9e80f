// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"net/http"
	"runtime/debug"
	"time"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/store"
)

// wrap is everything around the router: what is refused before it, and what is
// counted and cleaned up after it.
func (s *Server) wrap(kind Kind, h http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		w.Header().Set(api.HeaderInstance, s.o.Instance)
		x := s.newExchange(w, r)
		beginServing(r, &x.hold)
		s.metrics.inFlight.Inc()
		s.requests.add(x)
		defer func() {
			s.metrics.inFlight.Dec()
			s.requests.remove(x)
			cause := recover()
			if cause != nil && cause != http.ErrAbortHandler {
				s.o.Log.Error("handler panicked", "route", r.Pattern, "cause", cause, "stack", string(debug.Stack()))
				if x.code == 0 {
					s.refuse(x, api.NewProblem(http.StatusInternalServerError, api.CodeInternal, "", "see the daemon's log"))
					cause = nil
				}
			}
			s.metrics.done(r, x, cause != nil)
			s.logSlow(x, r)
			if cause != nil {
				panic(http.ErrAbortHandler)
			}
		}()
		err := s.guard(kind, r)
		if err == nil {
			err = s.authenticate(kind, x, r)
		}
		if err != nil {
			s.finish(x, r, err)
			return
		}
		h.ServeHTTP(x, r)
	})
}

// within bounds a request that asked for ms milliseconds; 0 takes the limit
// for requests that do not ask.
func (s *Server) within(x *exchange, r *http.Request, ms int64) (context.Context, context.CancelFunc) {
	d := s.o.Limits.RequestDeadline
	if x.patience > 0 && (d <= 0 || d > x.patience) {
		d = x.patience
	}
	if ms > 0 {
		d = time.Duration(ms) * time.Millisecond
	}
	x.limit = d
	traced := store.WithTrace(r.Context(), x.trace)
	if d <= 0 {
		return context.WithCancel(traced)
	}
	ctx, cancel := context.WithTimeout(traced, d)
	x.body.bound(ctx)
	return ctx, cancel
}
