// SPDX-License-Identifier: Apache-2.0

package store

import (
	"github.com/prometheus/client_golang/prometheus"

	"github.com/rawblockd/rawblockd/ioengine"
	"github.com/rawblockd/rawblockd/slab"
)

// metrics are the store's own counters. Labels never carry keys.
type metrics struct {
	lockHoldVec       *prometheus.HistogramVec
	lockHold          [lockOps]prometheus.Observer // its count is the number of acquisitions
	commit            prometheus.Histogram
	results           *prometheus.CounterVec
	corrupt           *prometheus.CounterVec
	scrubBad          *prometheus.CounterVec
	generationChanged prometheus.Counter
	stalePins         prometheus.Counter
	leasesExpired     prometheus.Counter
	expirations       prometheus.Counter
	recoveryFaults    prometheus.Counter
	missesVec         *prometheus.CounterVec
	misses            map[Reason]prometheus.Counter
}

func newMetrics() *metrics {
	counter := func(name, help string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{Namespace: "rawblockd", Name: name, Help: help})
	}
	vec := func(name, help string, labels ...string) *prometheus.CounterVec {
		return prometheus.NewCounterVec(prometheus.CounterOpts{Namespace: "rawblockd", Name: name, Help: help}, labels)
	}
	m := &metrics{
		lockHoldVec: prometheus.NewHistogramVec(prometheus.HistogramOpts{
			Namespace: "rawblockd", Name: "lock_hold_seconds",
			Help:    "Time the pin lock was held, by what for; the count is the number of acquisitions.",
			Buckets: prometheus.ExponentialBuckets(1e-6, 4, 10),
		}, []string{"op"}),
		commit: prometheus.NewHistogram(prometheus.HistogramOpts{
			Namespace: "rawblockd", Name: "commit_seconds",
			Help:    "Time of one commit of rows, shared by all changes queued meanwhile.",
			Buckets: prometheus.ExponentialBuckets(50e-6, 3, 12),
		}),
		results:           vec("key_results_total", "Answers for single keys.", "op", "status"),
		corrupt:           vec("checksum_failures_total", "Entries whose bytes did not match their checksum.", "slab"),
		scrubBad:          vec("scrub_bad_entries_total", "Entries that scrubs found bad or unreadable.", "slab"),
		generationChanged: counter("generation_changed_total", "Reads whose slots were given away under them; never expected."),
		stalePins:         counter("stale_pins_total", "Pins given back whose entry had been removed by force."),
		leasesExpired:     counter("leases_expired_total", "Leases that ended by themselves."),
		expirations:       counter("expirations_total", "Entries removed because their time to live was over."),
		recoveryFaults:    counter("recovery_faults_total", "Rows that recovery could not accept."),
	}
	m.missesVec = vec("misses_total", "Keys that a lookup or load did not get, by why. never_stored: nothing is known of the key since this process started; unknown: it may have left earlier than what is remembered.", "reason")
	m.misses = map[Reason]prometheus.Counter{}
	for _, r := range missReasons() {
		m.misses[r] = m.missesVec.WithLabelValues(r.String())
	}
	for op := range lockOps {
		m.lockHold[op] = m.lockHoldVec.WithLabelValues(lockNames[op])
	}
	return m
}

func (m *metrics) collectors() []prometheus.Collector {
	return []prometheus.Collector{
		m.lockHoldVec, m.commit, m.results, m.corrupt, m.generationChanged, m.stalePins, m.leasesExpired, m.expirations, m.recoveryFaults,
		m.missesVec, m.scrubBad,
	}
}

// begin makes a slab's counters zero: of one that is not there yet nobody can see
// that it grew.
func (m *metrics) begin(slab string) {
	m.corrupt.WithLabelValues(slab)
	m.scrubBad.WithLabelValues(slab)
}

// countResults counts the answers of one batch, one metric call per status.
func (m *metrics) countResults(op string, results []KeyResult) {
	var n [len(statusWords)]int
	for i := range results {
		n[results[i].Status]++
	}
	for st, k := range n {
		if k > 0 {
			m.results.WithLabelValues(op, Status(st).String()).Add(float64(k))
		}
	}
}

// reporter exports the state of the store as gauges when it is asked.
type reporter struct{ s *Store }

type gauge struct {
	name, help string
	labels     []string
}

func (g gauge) desc() *prometheus.Desc {
	return prometheus.NewDesc("rawblockd_"+g.name, g.help, g.labels, nil)
}

func gauges() map[string]gauge {
	all := []gauge{
		{"slots", "Slots by state.", []string{"slab", "state"}},
		{"entries", "Stored entries.", []string{"namespace"}},
		{"namespace_used_bytes", "Bytes of slots a namespace uses.", []string{"namespace"}},
		{"namespace_quota_bytes", "Bytes of slots a namespace may use; 0 is no limit.", []string{"namespace"}},
		{"pinned_bytes", "Bytes of slots that leases protect.", []string{"namespace"}},
		{"slot_wasted_bytes", "Bytes of slots beyond the payloads in them.", []string{"namespace"}},
		{"pins", "Pins in force.", nil},
		{"leases", "Leases in force.", nil},
		{"slab_read_only", "1 while a slab refuses stores for good.", []string{"slab"}},
		{"slab_health", "1 for the state that a slab is in.", []string{"slab", "state"}},
		{"scrub_running", "1 while a scrub reads a slab.", []string{"slab"}},
		{"scrub_done_slots", "Slots that are behind the last scrub of a slab since the start; 0 without one.", []string{"slab"}},
		{"slab_buffer_bytes", "Stream memory that transfers of a slab hold.", []string{"slab", "op"}},
		{"meta_failed", "1 once the metadata store has failed; changes are refused.", nil},
		{"stores_refused", "1 while the metadata's file system is short of space: stores are refused, loads and removes go on.", nil},
		{"commit_queue", "Groups of changes waiting for the committer.", nil},
		{"buffer_bytes", "Stream memory in use.", nil},
	}
	m := make(map[string]gauge, len(all))
	for _, g := range all {
		m[g.name] = g
	}
	return m
}

// Describe implements prometheus.Collector.
func (r *reporter) Describe(ch chan<- *prometheus.Desc) {
	for _, g := range gauges() {
		ch <- g.desc()
	}
}

// Collect implements prometheus.Collector.
func (r *reporter) Collect(ch chan<- prometheus.Metric) {
	all := gauges()
	put := func(name string, v float64, labels ...string) {
		ch <- prometheus.MustNewConstMetric(all[name].desc(), prometheus.GaugeValue, v, labels...)
	}
	st := r.s.Status()
	for _, sl := range st.Slabs {
		for state, n := range map[slab.State]uint32{
			slab.Free: sl.Counts.Free, slab.Reserved: sl.Counts.Reserved, slab.Used: sl.Counts.Used,
			slab.Deleting: sl.Counts.Deleting, slab.Retired: sl.Counts.Retired, slab.Quarantined: sl.Counts.Quarantined,
		} {
			put("slots", float64(n), sl.Name, state.String())
		}
		put("slab_read_only", truth(sl.ReadOnly != ""), sl.Name)
		for _, state := range Healths() {
			put("slab_health", truth(sl.Health == state), sl.Name, state)
		}
		var scrub ScrubProgress
		if sl.Scrub != nil {
			scrub = *sl.Scrub
		}
		put("scrub_running", truth(scrub.Running), sl.Name)
		put("scrub_done_slots", float64(scrub.Done), sl.Name)
	}
	for _, v := range r.s.volumes {
		loads, stores := v.share.inUse()
		put("slab_buffer_bytes", float64(loads), v.slab.Name(), ioengine.Read.String())
		put("slab_buffer_bytes", float64(stores), v.slab.Name(), ioengine.Write.String())
	}
	for _, n := range st.Namespaces {
		put("entries", float64(n.Entries), n.Name)
		put("namespace_used_bytes", float64(n.Used), n.Name)
		put("namespace_quota_bytes", float64(n.Quota), n.Name)
		put("pinned_bytes", float64(n.Pinned), n.Name)
		put("slot_wasted_bytes", float64(n.Wasted), n.Name)
	}
	put("pins", float64(st.Pins))
	put("leases", float64(st.Leases))
	put("meta_failed", truth(st.MetaFailed != ""))
	put("stores_refused", truth(st.StoresRefused != ""))
	put("commit_queue", float64(st.Queued))
	put("buffer_bytes", float64(r.s.o.Buffers.InUse()))
}

func truth(b bool) float64 {
	if b {
		return 1
	}
	return 0
}
