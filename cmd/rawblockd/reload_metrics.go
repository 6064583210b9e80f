// SPDX-License-Identifier: Apache-2.0

package main

import "github.com/prometheus/client_golang/prometheus"

// reloadMetrics count what SIGHUP did.
type reloadMetrics struct{ applied, refused prometheus.Counter }

func newReloadMetrics() reloadMetrics {
	outcome := func(word string) prometheus.Counter {
		return prometheus.NewCounter(prometheus.CounterOpts{
			Name: "rawblockd_config_reloads_total", Help: "Times the configuration was read anew, by outcome.",
			ConstLabels: prometheus.Labels{"outcome": word},
		})
	}
	return reloadMetrics{outcome("applied"), outcome("refused")}
}

func (m reloadMetrics) register(reg *prometheus.Registry) error {
	if err := reg.Register(m.applied); err != nil {
		return err
	}
	return reg.Register(m.refused)
}
