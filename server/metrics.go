// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rawblockd/rawblockd/store"
)

// metrics are the server's own.
type metrics struct {
	duration *prometheus.HistogramVec // by route, method, code
	keys     *prometheus.HistogramVec // by op
	bytes    *prometheus.CounterVec   // by direction
	inFlight prometheus.Gauge
	conns    prometheus.Collector   // a gauge
	refused  *prometheus.CounterVec // by limit
	cut      *prometheus.CounterVec // by direction, why

	connsClosed prometheus.Counter
}

func newMetrics() *metrics {
	m := &metrics{
		duration: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "rawblockd_request_duration_seconds", Help: "Time from a request's header to the end of its answer.",
			Buckets: prometheus.ExponentialBuckets(50e-6, 2, 21),
		}, []string{"route", "method", "code"}),
		keys: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Name: "rawblockd_batch_keys", Help: "Keys in one batch request.",
			Buckets: prometheus.ExponentialBuckets(1, 4, 8),
		}, []string{"op"}),
		bytes: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rawblockd_request_body_bytes_total", Help: "Bytes of request bodies (in) and of answers (out).",
		}, []string{"direction"}),
		inFlight: prometheus.NewGauge(prometheus.GaugeOpts{
			Name: "rawblockd_requests_in_flight", Help: "Requests being answered.",
		}),
		connsClosed: prometheus.NewCounter(prometheus.CounterOpts{
			Name: "rawblockd_connections_closed_total", Help: "Connections closed because there were too many: the longest idle, or a new one.",
		}),
		refused: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rawblockd_requests_refused_total", Help: "Requests refused because there was none left of a limit: of requests or json_bytes with 429, of stream_bytes as busy.",
		}, []string{"limit"}),
		cut: prometheus.NewCounterVec(prometheus.CounterOpts{
			Name: "rawblockd_clients_cut_off_total",
			Help: "Clients cut off in mid-body (in) or mid-answer (out): they were slower than the pace, or stood still while others wanted what they held.",
		}, []string{"direction", "why"}),
	}
	// Of a counter that is not there yet nobody can see that it grew.
	for _, what := range []scarce{place, text, memory} {
		m.refused.WithLabelValues(what.String())
	}
	for _, direction := range []string{"in", "out"} {
		m.cut.WithLabelValues(direction, "pace")
		m.cut.WithLabelValues(direction, "wanted")
	}
	return m
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.duration, m.keys, m.bytes, m.inFlight, m.conns, m.connsClosed, m.refused, m.cut}
}

// done counts a finished request. Labels come from a fixed set: the route is the
// pattern, never the path.
func (m *metrics) done(r *http.Request, x *exchange, aborted bool) {
	route, method, code := routeLabel(r), r.Method, strconv.Itoa(x.code)
	switch method {
	case http.MethodGet, http.MethodHead, http.MethodPut, http.MethodPost, http.MethodDelete:
	default:
		method = "other"
	}
	if aborted {
		code = "aborted"
	}
	m.duration.WithLabelValues(route, method, code).Observe(time.Since(x.began).Seconds())
	m.bytes.WithLabelValues("in").Add(float64(x.body.got.Load()))
	m.bytes.WithLabelValues("out").Add(float64(x.bytes.Load()))
}

// routeLabel names the route of a request.
func routeLabel(r *http.Request) string {
	switch r.Pattern {
	case "":
		return "refused"
	case "/":
		return "unknown"
	}
	return r.Pattern
}

func (m *metrics) batch(op string, keys int) { m.keys.WithLabelValues(op).Observe(float64(keys)) }

// outOfMemory counts a request that got no memory, if that is what err says.
func (m *metrics) outOfMemory(err error) {
	if errors.Is(err, store.ErrNoMemory) {
		m.refused.WithLabelValues(memory.String()).Inc()
	}
}

// cutOff counts a client that was cut off: because others wanted what it held, or
// because it did not keep the pace.
func (m *metrics) cutOff(t turn, wanted bool) {
	direction, why := "in", "pace"
	if t == takes {
		direction = "out"
	}
	if wanted {
		why = "wanted"
	}
	m.cut.WithLabelValues(direction, why).Inc()
}
