// SPDX-License-Identifier: Apache-2.0

package server

import (
	"crypto/tls"
	"log/slog"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/store"
	"github.com/rawblockd/rawblockd/tokens"
)

// Limits bound what one request may ask for.
type Limits struct {
	BatchKeys       int           // keys in one batch
	Payload         int64         // bytes of the longest payload
	StreamBytes     int64         // memory for payloads on their way, reported in /v1/info
	JSONBytes       int64         // memory of all JSON and text bodies together; 0: no limit
	Requests        int           // data requests executing at once; 0: no limit
	RequestDeadline time.Duration // for requests that name none
}

// Pace is how fast a client must send and take bodies. The zero value means
// DefaultPace.
type Pace struct {
	Grace time.Duration // for any piece, however small
	Rate  int64         // bytes per second beyond that
	// Pressed is how long a client may move nothing while others wait for what its
	// request holds; 0: as long as it keeps the rest.
	Pressed time.Duration
}

// DefaultPace gives a piece of 1 MiB fourteen seconds, and a client that holds
// what others wait for three for its next byte: less than the time after which
// those who wait are refused.
func DefaultPace() Pace {
	return Pace{Grace: 10 * time.Second, Rate: 256 << 10, Pressed: DefaultMemoryWait * 3 / 5}
}

// Options are what New needs.
type Options struct {
	Limits Limits
	Pace   Pace
	// MemoryWait is how long a request waits for its first memory of the stream
	// budget, while nothing moves in what others hold, before it is answered busy; 0
	// means DefaultMemoryWait.
	MemoryWait time.Duration

	// Conns is the number of connections that there may be at once; 0: any. Beyond
	// it the longest idle one is closed.
	Conns int

	// Slow is from how long on a request is logged with its stages; 0: never.
	Slow time.Duration

	Instance string   // changes with every start; on every response
	Version  string   // of the program
	Hosts    []string // host names that TCP requests may name beside localhost and addresses
	Log      *slog.Logger
	// Engine reports a slab's engine by the slab's name; nil leaves it out of
	// the reports.
	Engine   func(slab string) *api.EngineStats
	Registry *prometheus.Registry // what /metrics serves; nil: a new one
}

// Kind is a kind of data listener.
type Kind uint8

// Unix sockets are reached by programs only, and by those alone whom their mode
// lets in; TCP can be reached by browsers, so Host and Origin are checked there,
// and by anybody, so there may have to be a token.
const (
	Unix Kind = iota
	TCP
	adminKind // TCP, for administrators
	leaseKind // TCP, for allowed addresses
)

// Server is the HTTP side of the daemon.
type Server struct {
	o        Options
	hosts    map[string]bool
	registry *prometheus.Registry
	metrics  *metrics
	store    atomic.Pointer[store.Store]
	done     atomic.Uint64 // rows recovered
	total    atomic.Uint64 // rows to recover

	requests requestTable
	places   budget // limits.requests
	texts    budget // limits.json_bytes
	conns    connTable
	streams  streams
	slow     atomic.Int64 // time.Duration from which a request is logged; 0: never

	registered atomic.Bool // the store's metrics are in the registry
	stopping   atomic.Bool

	tokens      atomic.Pointer[tokens.Set] // nil: none are needed
	certificate atomic.Pointer[tls.Certificate]

	failed atomic.Pointer[string] // why the metadata is out of service; nil while it is not
}

// New makes a server that is not ready yet.
func New(o Options) *Server {
	if o.Pace == (Pace{}) {
		o.Pace = DefaultPace()
	}
	if o.MemoryWait == 0 {
		o.MemoryWait = DefaultMemoryWait
	}
	if o.Log == nil {
		o.Log = slog.New(slog.DiscardHandler)
	}
	s := &Server{o: o, registry: o.Registry, metrics: newMetrics(), hosts: hostSet(o.Hosts)}
	s.SetSlow(o.Slow)
	s.conns.most, s.conns.log, s.conns.closed = o.Conns, o.Log, s.metrics.connsClosed
	s.metrics.conns = prometheus.NewGaugeFunc(prometheus.GaugeOpts{
		Name: "rawblockd_connections", Help: "Connections of all listeners.",
	}, func() float64 { return float64(s.conns.count()) })
	s.places.limit, s.texts.limit = int64(o.Limits.Requests), o.Limits.JSONBytes
	if s.registry == nil {
		s.registry = prometheus.NewRegistry()
	}
	s.registry.MustRegister(s.Collectors()...)
	return s
}

// Collectors returns the server's own metrics. They are registered already.
func (s *Server) Collectors() []prometheus.Collector {
	return append(s.metrics.collectors(), newCertificateCollector(s))
}

// Registry returns what /metrics serves, for metrics of the process.
func (s *Server) Registry() *prometheus.Registry { return s.registry }

// HTTPServer returns an http.Server for h with this server's time limits. Serve
// it on a listener made by Listener.
//
// There are no ReadTimeout and WriteTimeout: bodies may be large and take long.
// Each piece of them has a deadline of its own instead.
func (s *Server) HTTPServer(h http.Handler) *http.Server {
	return &http.Server{
		Handler:           h,
		ReadHeaderTimeout: s.o.Pace.Grace,
		IdleTimeout:       5 * time.Minute,
		MaxHeaderBytes:    32 << 10, // the longest key is 3 KiB escaped
		ErrorLog:          slog.NewLogLogger(s.o.Log.Handler(), slog.LevelDebug),
		ConnContext:       connContext,

		DisableGeneralOptionsHandler: true, // it would answer past every check
		ConnState:                    connState,
	}
}

func (s *Server) metricsHandler() http.Handler {
	return promhttp.HandlerFor(s.registry, promhttp.HandlerOpts{
		ErrorLog: slog.NewLogLogger(s.o.Log.Handler(), slog.LevelError),
	})
}
