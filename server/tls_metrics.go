// SPDX-License-Identifier: Apache-2.0

package server

import "github.com/prometheus/client_golang/prometheus"

// certificateCollector tells when the certificate in use ends, if there is one.
type certificateCollector struct {
	s    *Server
	ends *prometheus.Desc
}

func newCertificateCollector(s *Server) certificateCollector {
	return certificateCollector{s, prometheus.NewDesc("rawblockd_tls_certificate_expiry_timestamp_seconds",
		"When the certificate that new connections are shown ends, in seconds since 1970.", nil, nil)}
}

// Describe implements prometheus.Collector.
func (c certificateCollector) Describe(out chan<- *prometheus.Desc) { out <- c.ends }

// Collect implements prometheus.Collector.
func (c certificateCollector) Collect(out chan<- prometheus.Metric) {
	if cert := c.s.certificate.Load(); cert != nil {
		out <- prometheus.MustNewConstMetric(c.ends, prometheus.GaugeValue, float64(cert.Leaf.NotAfter.Unix()))
	}
}
