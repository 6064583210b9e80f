// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"slices"
	"strings"
	"time"

	"github.com/rawblockd/rawblockd/api"
)

// topSample is what the daemon says at one moment.
type topSample struct {
	at time.Time
	api.StatusReport
	requests api.RequestsResponse
}

// topReport is a sample with what changed since the one before. With --json it
// is a line. Rates are for one second.
type topReport struct {
	At          time.Time             `json:"at"`
	Seconds     float64               `json:"seconds"` // that rates are over; 0: there are none yet
	Instance    string                `json:"instance"`
	Version     string                `json:"version"`
	Ready       bool                  `json:"ready"`
	MetaFailed  string                `json:"meta_failed,omitempty"`
	Refused     string                `json:"stores_refused,omitempty"`
	Entries     uint64                `json:"entries"`
	Leases      int                   `json:"leases"`
	Pins        int64                 `json:"pins"`
	PinnedBytes int64                 `json:"pinned_bytes"`
	Queued      uint64                `json:"queued"`
	Requests    int                   `json:"requests"`   // in flight, without this one
	Hits        float64               `json:"hits_per_s"` // keys of lookups and loads
	Misses      float64               `json:"misses_per_s"`
	Oldest      []api.RequestStatus   `json:"oldest"`
	Slabs       []topSlab             `json:"slabs"`
	Ops         []topOp               `json:"ops"`
	Namespaces  []api.NamespaceStatus `json:"namespaces"`
}

type topSlab struct {
	api.SlabStatus
	Reads        float64 `json:"reads_per_s"`
	Writes       float64 `json:"writes_per_s"`
	ReadBytes    float64 `json:"read_bytes_per_s"`
	WrittenBytes float64 `json:"written_bytes_per_s"`
	Flushes      float64 `json:"flushes_per_s"`
}

// topOp is how keys are answered: ok counts as a hit.
type topOp struct {
	Op     string  `json:"op"`
	Hits   float64 `json:"ok_per_s"`
	Misses float64 `json:"other_per_s"` // every other status
	OK     uint64  `json:"ok"`          // since the start
	Other  uint64  `json:"other"`
}

// oldestShown is how many requests a screen has room for.
const oldestShown = 5

// rates compares two samples. Of another instance, or of the same moment, there
// are none.
func rates(before, now topSample) topReport {
	r := topReport{
		At: now.at, Instance: now.Instance, Version: now.Version, Ready: now.Ready, MetaFailed: now.MetaFailed, Refused: now.StoresRefused, Entries: now.Entries,
		Leases: now.Leases, Pins: now.Pins, PinnedBytes: now.PinnedBytes, Queued: now.Queued, Namespaces: now.Namespaces,
		Requests: max(now.requests.Total-1, 0), Oldest: []api.RequestStatus{}, Slabs: []topSlab{}, Ops: []topOp{},
	}
	if before.Instance == now.Instance {
		r.Seconds = now.at.Sub(before.at).Seconds()
	}
	for _, q := range now.requests.Requests {
		if q.Route != "/v1/requests" && len(r.Oldest) < oldestShown {
			r.Oldest = append(r.Oldest, q)
		}
	}
	for _, s := range now.Slabs {
		r.Slabs = append(r.Slabs, r.slab(before.Slabs, s))
	}
	for op, by := range now.Results {
		o := r.op(op, before.Results[op], by)
		r.Ops = append(r.Ops, o)
		if op == "lookup" || op == "load" {
			r.Hits, r.Misses = r.Hits+o.Hits, r.Misses+o.Misses
		}
	}
	slices.SortFunc(r.Ops, func(a, b topOp) int { return strings.Compare(a.Op, b.Op) })
	return r
}

// per is a counter's growth in a second. One that has shrunk was begun anew.
func (r *topReport) per(before, now uint64) float64 {
	if r.Seconds <= 0 || now < before {
		return 0
	}
	return float64(now-before) / r.Seconds
}

func (r *topReport) slab(before []api.SlabStatus, now api.SlabStatus) topSlab {
	out := topSlab{SlabStatus: now}
	i := slices.IndexFunc(before, func(s api.SlabStatus) bool { return s.Name == now.Name })
	if i < 0 || before[i].Engine == nil || now.Engine == nil {
		return out
	}
	was, is := before[i].Engine, now.Engine
	out.Reads, out.Writes = r.per(was.Reads, is.Reads), r.per(was.Writes, is.Writes)
	out.ReadBytes, out.WrittenBytes = r.per(was.ReadBytes, is.ReadBytes), r.per(was.WrittenBytes, is.WrittenBytes)
	out.Flushes = r.per(was.Flushes, is.Flushes)
	return out
}

func (r *topReport) op(op string, before, now map[api.Status]uint64) topOp {
	was, is := tally(before), tally(now)
	return topOp{Op: op, OK: is[0], Other: is[1], Hits: r.per(was[0], is[0]), Misses: r.per(was[1], is[1])}
}

// tally returns the number of keys that were ok, and of the others.
func tally(by map[api.Status]uint64) (n [2]uint64) {
	for status, k := range by {
		if status == api.StatusOK {
			n[0] += k
		} else {
			n[1] += k
		}
	}
	return n
}

// write prints the report as a screen has it.
func (r topReport) write(w io.Writer) error {
	state := "serving"
	switch {
	case r.MetaFailed != "":
		state = "metadata failed: " + r.MetaFailed
	case r.Refused != "":
		state = "serving, but stores are refused"
	case !r.Ready:
		state = "not ready"
	}
	fmt.Fprintf(w, "rawblockd %s, instance %s: %s, %s\n%s entries, %s leases, %s pins (%s), %s requests, %s changes queued\n%s hits/s, %s misses/s\n",
		r.Version, r.Instance, state, r.At.Local().Format(time.DateTime),
		count(r.Entries), count(r.Leases), count(r.Pins), size(r.PinnedBytes), count(r.Requests), count(r.Queued), rate(r.Hits), rate(r.Misses))
	if r.Refused != "" {
		fmt.Fprintf(w, "stores are refused: %s\n", r.Refused)
	}
	for _, s := range r.Slabs {
		if s.Scrub != nil && s.Scrub.Running {
			fmt.Fprintf(w, "%s: %s\n", s.Name, scrubText(s.Scrub))
		}
	}
	fmt.Fprintln(w)
	tables := [][][]string{r.slabRows(), r.opRows(), r.namespaceRows()}
	if len(r.Oldest) > 0 {
		tables = append(tables, requestRows(r.Oldest))
	}
	for i, rows := range tables {
		if i > 0 {
			fmt.Fprintln(w)
		}
		if err := columns(w, rows); err != nil {
			return err
		}
		if i > 0 {
			continue
		}
		for _, s := range r.Slabs {
			writeReason(w, s.SlabStatus)
		}
	}
	return nil
}

func (r topReport) slabRows() [][]string {
	rows := [][]string{{"SLAB", "HEALTH", "USED", "FREE", "TOTAL", "IN FLIGHT", "BYTES", "QUEUED", "READ/S", "WRITE/S", "OPS/S", "FLUSHES/S", "ERRORS"}}
	for _, s := range r.Slabs {
		row := []string{s.Name, s.Health, count(s.Slots.Used), count(s.Slots.Free), count(s.Slots.Total)}
		if e := s.Engine; e != nil {
			row = append(row, count(e.InFlightOps), size(e.InFlightBytes), count(e.QueuedOps), size(int64(s.ReadBytes)), size(int64(s.WrittenBytes)),
				rate(s.Reads+s.Writes), rate(s.Flushes), count(e.ReadErrors+e.WriteErrors))
		} else {
			row = append(row, "-", "-", "-", "-", "-", "-", "-", "-")
		}
		rows = append(rows, row)
	}
	return rows
}

func (r topReport) opRows() [][]string {
	rows := [][]string{{"KEYS", "OK/S", "OTHER/S", "OK %", "OK", "OTHER"}}
	for _, o := range r.Ops {
		share := "-"
		if all := o.Hits + o.Misses; all > 0 {
			share = fmt.Sprintf("%.0f", 100*o.Hits/all)
		}
		rows = append(rows, []string{o.Op, rate(o.Hits), rate(o.Misses), share, count(o.OK), count(o.Other)})
	}
	return rows
}

func (r topReport) namespaceRows() [][]string {
	rows := [][]string{{"NAMESPACE", "ENTRIES", "SLOT BYTES", "QUOTA", "PINNED"}}
	for _, n := range r.Namespaces {
		rows = append(rows, []string{n.Name, count(n.Entries), size(n.SlotBytes), quotaText(n.Quota), size(n.PinnedBytes)})
	}
	return rows
}

func rate(perSecond float64) string {
	if perSecond > 0 && perSecond < 10 {
		return fmt.Sprintf("%.1f", perSecond)
	}
	return count(int64(perSecond))
}
