// SPDX-License-Identifier: Apache-2.0

package server

import (
	"cmp"
	"log/slog"
	"net/http"
	"slices"
	"strconv"
	"sync"
	"time"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/store"
)

// about is what the report of requests in flight says of one. Its own goroutine
// notes things, others read them.
type about struct {
	mu sync.Mutex
	// +checklocks:mu
	route string // pattern; empty until the router has found it
	// +checklocks:mu
	namespace string
	// +checklocks:mu
	keys int
}

func (a *about) setRoute(pattern string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.route = pattern
}

func (a *about) setNamespace(name string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.namespace = name
}

func (a *about) setKeys(n int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	a.keys = n
}

func (a *about) get() (route, namespace string, keys int) {
	a.mu.Lock()
	defer a.mu.Unlock()
	return a.route, a.namespace, a.keys
}

// requestTable has the requests being answered.
type requestTable struct {
	mu sync.Mutex
	// +checklocks:mu
	last uint64
	// +checklocks:mu
	all map[uint64]*exchange
}

func (t *requestTable) add(x *exchange) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.all == nil {
		t.all = map[uint64]*exchange{}
	}
	t.last++
	x.id = t.last
	t.all[x.id] = x
}

func (t *requestTable) remove(x *exchange) {
	t.mu.Lock()
	defer t.mu.Unlock()
	delete(t.all, x.id)
}

// oldest returns those under way, in the order in which they came.
func (t *requestTable) oldest() []*exchange {
	t.mu.Lock()
	out := make([]*exchange, 0, len(t.all))
	for _, x := range t.all {
		out = append(out, x)
	}
	t.mu.Unlock()
	slices.SortFunc(out, func(a, b *exchange) int { return cmp.Compare(a.id, b.id) })
	return out
}

// requestsListed bounds the report: ten thousand idle streams need no page each.
const requestsListed = 1000

// inFlight reports the requests being answered, the oldest first, and where each
// of them is.
func (s *Server) inFlight(x *exchange, r *http.Request) error {
	if err := newQuery(r).end(); err != nil {
		return err
	}
	all := s.requests.oldest()
	res := api.RequestsResponse{Total: len(all), Requests: []api.RequestStatus{}}
	for _, o := range all[:min(len(all), requestsListed)] {
		route, namespace, keys := o.about.get()
		at := o.trace.Report()
		res.Requests = append(res.Requests, api.RequestStatus{
			ID: strconv.FormatUint(o.id, 10), Method: o.method, Route: route, Namespace: namespace, Keys: keys,
			AgeMS: time.Since(o.began).Milliseconds(), Stage: at.Stage.String(), Slab: at.Slab,
			BytesIn: o.body.got.Load(), BytesOut: o.bytes.Load(), Remote: remote(o.r),
		})
	}
	return x.json(res)
}

// SetSlow sets from how long on a request is logged; 0: never.
func (s *Server) SetSlow(d time.Duration) { s.slow.Store(int64(d)) }

// logSlow says where a slow request spent its time. One that is endless by its
// nature is none.
func (s *Server) logSlow(x *exchange, r *http.Request) {
	limit, took := time.Duration(s.slow.Load()), time.Since(x.began)
	if limit <= 0 || took < limit || x.endless {
		return
	}
	_, namespace, keys := x.about.get()
	at := x.trace.Report()
	attrs := []any{"method", x.method, "route", routeLabel(r), "code", x.code, "took", took}
	if namespace != "" {
		attrs = append(attrs, "namespace", namespace, "keys", keys)
	}
	attrs = append(attrs, "bytes_in", x.body.got.Load(), "bytes_out", x.bytes.Load())
	if at.Slab != "" {
		attrs = append(attrs, "slab", at.Slab)
	}
	var stages []any
	for stage, d := range at.Spent {
		if d > 0 {
			stages = append(stages, slog.Duration(store.Stage(stage).String(), d.Round(time.Microsecond)))
		}
	}
	s.o.Log.Warn("slow request", append(attrs, slog.Group("stages", stages...), "remote", remote(r))...)
}
