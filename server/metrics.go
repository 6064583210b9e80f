// SPDX-License-Identifier: Apache-2.0

package server

import (
	"net/http"
	"strconv"
	"time"

	"github.com/prometheus/client_golang/prometheus"
)

// metrics are the server's own.
type metrics struct {
	duration *prometheus.HistogramVec // by route, method, code
	keys     *prometheus.HistogramVec // by op
	bytes    *prometheus.CounterVec   // by direction
	inFlight prometheus.Gauge
}

func newMetrics() *metrics {
	return &metrics{
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
	}
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{m.duration, m.keys, m.bytes, m.inFlight}
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
