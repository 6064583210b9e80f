// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"github.com/rawblockd/rawblockd/meta"
)

// ballastEvery is how soon the metadata's ballast is made again after there is
// room for it.
const ballastEvery = 10 * time.Second

// keepBallast makes the metadata's ballast again whenever a full file system
// took it and there is room again, until ctx ends. While there is none the log
// has said so once already.
func (d *daemon) keepBallast(ctx context.Context) {
	tick := time.NewTicker(d.ballastEvery)
	defer tick.Stop()
	for {
		select {
		case <-ctx.Done():
			return
		case <-tick.C:
		}
		before, wanted := d.meta.Ballast()
		if before == wanted {
			continue
		}
		if err := d.meta.RestoreBallast(); err != nil {
			d.log.Debug("no ballast for the metadata yet", "err", err)
			continue
		}
		if now, _ := d.meta.Ballast(); now > 0 {
			d.log.Info("there is room again: the metadata has its ballast back", "path", d.cfg.Meta.Path, "bytes", now)
		}
	}
}

// ballastCollector reports the ballast, so that an operator can act before the
// next full file system ends all changes.
type ballastCollector struct{ db *meta.DB }

func ballastMetric() *prometheus.Desc {
	return prometheus.NewDesc("rawblockd_meta_ballast_bytes",
		"Bytes held back for the metadata on a full file system: 0 when they were given up, which calls for free space.", nil, nil)
}

// Describe implements prometheus.Collector.
func (c *ballastCollector) Describe(ch chan<- *prometheus.Desc) { ch <- ballastMetric() }

// Collect implements prometheus.Collector.
func (c *ballastCollector) Collect(ch chan<- prometheus.Metric) {
	held, _ := c.db.Ballast()
	ch <- prometheus.MustNewConstMetric(ballastMetric(), prometheus.GaugeValue, float64(held))
}
