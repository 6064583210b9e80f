// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"fmt"
	"math"
	"slices"
	"strconv"
)

// chart is one picture of several in a report's: lines over places in a row.
type chart struct {
	title, x, y string
	places      []string // names on the x axis, in order
	lines       []line
}

// line is one series.
type line struct {
	name   string
	theirs bool // fio, a bound or others' claims
	at     []int
	y      []float64
	lo, hi []float64 // of the interval; equal to y where there is none
	dashed bool
}

// place returns the index of a name on the x axis.
func (c *chart) place(name string) int {
	if i := slices.Index(c.places, name); i >= 0 {
		return i
	}
	c.places = append(c.places, name)
	return len(c.places) - 1
}

// add puts a point on a line. Each place has one point of a line: of several, which are
// the same thing measured beside different engines, the middle of them.
func (c *chart) add(name string, theirs, dashed bool, place string, y, lo, hi float64) {
	if !(y > 0) || math.IsInf(y, 0) {
		return
	}
	if !(lo > 0) || hi < lo {
		lo, hi = y, y
	}
	i := slices.IndexFunc(c.lines, func(l line) bool { return l.name == name })
	if i < 0 {
		c.lines = append(c.lines, line{name: name, theirs: theirs, dashed: dashed})
		i = len(c.lines) - 1
	}
	l, at := &c.lines[i], c.place(place)
	if j := slices.Index(l.at, at); j >= 0 {
		l.y[j], l.lo[j], l.hi[j] = (l.y[j]+y)/2, min(l.lo[j], lo), max(l.hi[j], hi)
		return
	}
	l.at, l.y, l.lo, l.hi = append(l.at, at), append(l.y, y), append(l.lo, lo), append(l.hi, hi)
}

// charts turns a report into pictures, one for each thing that was measured.
func charts(rows []Row) []*chart {
	var out []*chart
	by := map[string]*chart{}
	get := func(title, x, y string) *chart {
		if by[title] == nil {
			by[title] = &chart{title: title, x: x, y: y}
			out = append(out, by[title])
		}
		return by[title]
	}
	sizes := distinct(rows, func(r Row) int64 { return r.Size })
	for _, r := range rows {
		at := Size(r.Size).String()
		switch r.Name {
		case "throughput":
			title, x, place := fmt.Sprintf("%s, depth %d", r.Op, r.Depth), "payload", at
			if sizes == 1 {
				title, x, place = r.Op+", "+at, "depth", strconv.Itoa(r.Depth)
			}
			c := get(title, x, "MiB/s")
			c.add("fio", true, false, place, r.FioMiBs, 0, 0)
			name := r.Engine
			if r.Mode != Rolling {
				name += ", " + r.Mode
			}
			c.add(name, false, false, place, r.MiBs, r.RatioLo*r.FioMiBs, r.RatioHi*r.FioMiBs)
		case "gain":
			c := get(fmt.Sprintf("%s: %d in flight against fio, one at a time", r.Op, r.Depth), "payload", "times as fast")
			name := r.Engine
			if r.Engine != "fio" {
				name += ", " + r.Mode
			}
			c.add(name, r.Engine == "fio", false, at, r.Ratio, r.RatioLo, r.RatioHi)
			c.add("Mooncake's authors, of their drive", true, true, at, r.Claimed, 0, 0)
		case "layout":
			c := get(fmt.Sprintf("%s, %s: batches × keys, depth %d", r.Op, at, r.Depth), "layout", "MiB/s")
			c.add("fio", true, false, r.Mode, r.FioMiBs, 0, 0)
			c.add(r.Engine, false, false, r.Mode, r.MiBs, r.MiBs*r.RatioLo/r.Ratio, r.MiBs*r.RatioHi/r.Ratio)
		case "batch":
			c := get(fmt.Sprintf("%s, %s: one batch, depth %d", r.Op, at, r.Depth), "keys in the batch", "ms")
			c.add("the bound (fio's rate, one key's time), "+r.Engine, true, true, strconv.Itoa(r.N), r.BoundUS/1e3, 0, 0)
			c.add(r.Engine, false, false, strconv.Itoa(r.N), r.MedianUS/1e3, r.RatioLo*r.BoundUS/1e3, r.RatioHi*r.BoundUS/1e3)
		case "beside":
			c := get(fmt.Sprintf("1 load beside a batch of %d (%s), depth %d", r.Keys, r.Op, r.Depth), "payload", "p99, ms")
			c.add("the bound", true, true, at, r.BoundUS/1e3, 0, 0)
			c.add(r.Engine, false, false, at, r.P99/1e3, r.RatioLo*r.BoundUS/1e3, r.RatioHi*r.BoundUS/1e3)
			c.add(r.Engine+" idle", false, false, at, r.IdleP99/1e3, 0, 0)
		case "mix":
			c := get(fmt.Sprintf("loads while stores run, depth %d", r.Depth), "payload", "p99, ms")
			c.add("fio, its own 70/30 mix", true, false, at, r.FioP99/1e3, 0, 0)
			c.add(r.Engine+", "+r.Mode, false, false, at, r.P99/1e3, r.RatioLo*r.FioP99/1e3, r.RatioHi*r.FioP99/1e3)
		}
	}
	return slices.DeleteFunc(out, func(c *chart) bool { return len(c.places) == 0 })
}

func distinct(rows []Row, of func(Row) int64) int {
	seen := map[int64]bool{}
	for _, r := range rows {
		if r.Name == "throughput" {
			seen[of(r)] = true
		}
	}
	return len(seen)
}
