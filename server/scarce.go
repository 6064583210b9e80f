// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/rawblockd/rawblockd/api"
)

// scarce is what requests hold of what there is too little of for everybody. They
// are bits.
type scarce uint8

const (
	place  scarce = 1 << iota // one of limits.requests
	text                      // bytes of limits.json_bytes
	memory                    // bytes of limits.stream_bytes
)

// String returns the limit's name, the label of the metric of refusals.
func (w scarce) String() string {
	switch w {
	case place:
		return "requests"
	case text:
		return "json_bytes"
	case memory:
		return "stream_bytes"
	}
	return "unknown"
}

// budget is so much of something. Nobody waits for it: what is not there is refused.
type budget struct {
	limit   int64 // 0: none
	used    atomic.Int64
	refused atomic.Int64 // when somebody last got none, in Unix nanoseconds
}

func (b *budget) take(n int64) bool {
	for {
		now := b.used.Load()
		if b.limit > 0 && now+n > b.limit {
			b.refused.Store(time.Now().UnixNano())
			return false
		}
		if b.used.CompareAndSwap(now, now+n) {
			return true
		}
	}
}

func (b *budget) give(n int64) { b.used.Add(-n) }

// wanted tells whether somebody got none within the time d.
func (b *budget) wanted(d time.Duration) bool {
	return time.Now().UnixNano()-b.refused.Load() < int64(d)
}

// counts tells whether the requests of a route are data requests, which
// limits.requests bounds. Health, readiness, reports and metrics are not, as they
// have to answer just then; nor is what renews and ends leases, which gives back
// what others wait for.
func counts(pattern string) bool {
	return strings.HasPrefix(pattern, "/v1/kv/") || strings.HasPrefix(pattern, "/v1/batch/") || strings.HasPrefix(pattern, "/v1/explain/")
}

// execute runs a handler within the limits. Whatever the request holds of what is
// scarce it gives back with the handler's return: before its refusal, if it is one,
// reads what is left of the body.
func (s *Server) execute(x *exchange, r *http.Request, h handler) error {
	defer x.hold.end()
	switch r.Method {
	case http.MethodGet, http.MethodHead, http.MethodDelete: // no handler of theirs reads a body
		if err := x.skip(); err != nil {
			return err
		}
	}
	if counts(r.Pattern) {
		if err := s.occupy(x); err != nil {
			return err
		}
	}
	return h(x, r)
}

// occupy takes a place of limits.requests, until the handler returns.
func (s *Server) occupy(x *exchange) error {
	if !s.places.take(1) {
		return s.overloaded(place, "%d data requests are being answered, which is limits.requests", s.places.limit)
	}
	x.hold.take(place)
	return nil
}

// overloaded is the refusal of a request for which there is no room now.
func (s *Server) overloaded(what scarce, why string, args ...any) error {
	s.metrics.refused.WithLabelValues(what.String()).Inc()
	p := api.NewProblem(http.StatusTooManyRequests, api.CodeOverloaded, "", why+"; try again", args...)
	p.RetryAfter = 1
	return p
}

// patience is how much of its time a client has left that stands still with what
// others want: none if nobody was refused, or waits, for any of it. Of those who wait
// for memory each may be one that stands still too, so the more there are the less
// time each has; else many of them would hold up who comes behind for minutes.
func (s *Server) patience(has scarce) (divisor int64, wanted bool) {
	d := s.o.Pace.Pressed
	if has&memory != 0 {
		if st := s.store.Load(); st != nil {
			if n := st.MemoryWanted(); n > 0 {
				return 1 + int64(n)/4, true
			}
		}
	}
	return 1, has&place != 0 && s.places.wanted(d) || has&text != 0 && s.texts.wanted(d)
}
