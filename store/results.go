// SPDX-License-Identifier: Apache-2.0

package store

import (
	"github.com/prometheus/client_golang/prometheus"
	dto "github.com/prometheus/client_model/go"
)

// resultCounts returns how many keys were answered, by op and status word, since
// the start. The metric is the one place that counts them.
func (m *metrics) resultCounts() map[string]map[string]uint64 {
	all := make(chan prometheus.Metric)
	go func() {
		defer close(all)
		m.results.Collect(all)
	}()
	out := map[string]map[string]uint64{}
	for c := range all {
		var d dto.Metric
		if c.Write(&d) != nil {
			continue // only a metric that is none cannot be written
		}
		var op, status string
		for _, l := range d.GetLabel() {
			switch l.GetName() {
			case "op":
				op = l.GetValue()
			case "status":
				status = l.GetValue()
			}
		}
		if out[op] == nil {
			out[op] = map[string]uint64{}
		}
		out[op][status] = uint64(d.GetCounter().GetValue())
	}
	return out
}
