// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/rawblockd/rawblockd/ioengine"
)

// ErrPlan is a plan that cannot work.
var ErrPlan = errors.New("cannot be measured")

// Bounds of a plan.
const (
	MinSize, MaxSize = 4 << 10, 80 << 20 // of a payload, bytes
	MaxDepth         = 256
	MaxBatch         = 1024 // payloads in a batch
	maxMemory        = 8 << 30
	besideKeys       = 512 // in the batches that small loads run beside
)

// FioFixed is the name of what is no engine of ours: fio with registered buffers.
const FioFixed = "fio-fixedbufs"

// Layout is a way to ask for the same payloads: so many batches in flight of so many
// keys each.
type Layout struct{ Batches, Keys int }

// ParseLayout reads BATCHESxKEYS.
func ParseLayout(s string) (Layout, error) {
	b, k, ok := strings.Cut(s, "x")
	batches, err := strconv.Atoi(b)
	keys, err2 := strconv.Atoi(k)
	if !ok || err != nil || err2 != nil || batches < 1 || keys < 1 || batches*keys > MaxBatch {
		return Layout{}, fmt.Errorf("layout %q: want BATCHESxKEYS, such as 8x4, at most %d keys in all", s, MaxBatch)
	}
	return Layout{batches, keys}, nil
}

// String is BATCHESxKEYS.
func (l Layout) String() string { return fmt.Sprintf("%dx%d", l.Batches, l.Keys) }

// Plan is what to measure, and how.
type Plan struct {
	Device string
	Sizes  []int64 // of payloads, bytes
	Depths []int   // ops at once
	Ops    []ioengine.Dir
	Names  []string // of engines, and FioFixed

	// What is measured; for each size, depth, op and engine that applies.
	Throughput bool     // as many ops as the depth, all the time
	Modes      []string // of throughput: Rolling, Queued
	Batched    bool     // a batch of as many ops as the depth, against one at a time
	Layouts    []Layout // against the best of them
	LayoutSize int64    // of their payloads
	Batches    []int    // how long a batch of so many keys takes
	Mix        bool     // loads while stores run
	Beside     bool     // single loads beside large batches

	Area int64 // bytes from the start of the device that are used; 0: DefaultArea, or the device
	Fill bool  // write all of the area first

	Protocol
	Seed    uint64
	Fio     *Fio // nil: no ratios
	Engines map[string]MakeEngine

	Filling func(done, total int64)     // hears how far the first writing is
	Figure  func(what string, i, n int) // hears which figure of how many begins
	Row     func(r Row)                 // hears of each row when it is known
}

// DefaultArea is how much of a device is used where nothing else is said.
const DefaultArea = 4 << 30

// Writes tells whether the plan overwrites the device.
func (p *Plan) Writes() bool {
	return p.Fill || p.Mix || slices.Contains(p.Ops, ioengine.Write)
}

// Check reports what is wrong whatever the device is.
func (p *Plan) Check() error {
	for _, size := range append(slices.Clone(p.Sizes), p.LayoutSize) {
		if size < MinSize || size > MaxSize || size%MinSize != 0 {
			return fmt.Errorf("%w: size %s: want %s to %s in whole %s", ErrPlan, Size(size), Size(MinSize), Size(MaxSize), Size(MinSize))
		}
	}
	for _, depth := range p.Depths {
		if depth < 1 || depth > MaxDepth {
			return fmt.Errorf("%w: depth %d: want 1 to %d", ErrPlan, depth, MaxDepth)
		}
	}
	for _, n := range p.Batches {
		if n < 1 || n > MaxBatch {
			return fmt.Errorf("%w: a batch of %d: want 1 to %d", ErrPlan, n, MaxBatch)
		}
	}
	for _, name := range p.Names {
		if name == FioFixed && p.Fio == nil {
			return fmt.Errorf("%w: %s is fio's: give --fio too", ErrPlan, FioFixed)
		}
		if name != FioFixed && p.Engines[name] == nil {
			return fmt.Errorf("%w: engine %q: want one of %s, or %s", ErrPlan, name, strings.Join(p.engineNames(), ", "), FioFixed)
		}
	}
	for _, m := range p.Modes {
		if m != Rolling && m != Queued {
			return fmt.Errorf("%w: mode %q: want %s or %s", ErrPlan, m, Rolling, Queued)
		}
	}
	if err := p.checkTimes(); err != nil {
		return err
	}
	if err := p.checkFigures(); err != nil {
		return err
	}
	return p.checkMemory()
}

// checkFigures refuses to overwrite a device for nothing.
func (p *Plan) checkFigures() error {
	if slices.Contains(p.Names, FioFixed) && !(p.Throughput && slices.Contains(p.Modes, Rolling)) {
		return fmt.Errorf("%w: %s has no figure but %s throughput: leave it out, or measure that", ErrPlan, FioFixed, Rolling)
	}
	if p.Throughput && len(p.Modes) > 0 || p.Batched || p.Mix || p.Beside || len(p.Layouts) > 0 || len(p.Batches) > 0 {
		return nil
	}
	return fmt.Errorf("%w: there is no figure in it: want a mode of throughput, or something else to measure", ErrPlan)
}

// checkMemory finds the figure that takes too much before the first one is measured.
func (p *Plan) checkMemory() error {
	for _, depth := range p.Depths {
		for _, size := range p.Sizes {
			for what, payloads := range p.payloads(size, depth) {
				if err := fitsMemory(what, size, payloads); err != nil {
					return err
				}
			}
		}
	}
	for _, l := range p.Layouts {
		if err := fitsMemory("layout "+l.String(), p.LayoutSize, l.Batches*l.Keys); err != nil {
			return err
		}
	}
	return nil
}

// payloads is how many payloads each kind of figure has memory for.
func (p *Plan) payloads(size int64, depth int) map[string]int {
	out := map[string]int{}
	if p.Throughput {
		out["throughput"] = payloadsFor(shape{size: size, depth: depth})
	}
	if p.Batched {
		out["batched"] = batchedPayloads(shape{size: size, depth: depth})
	}
	if p.Mix {
		out["mix"] = mixPayloads(depth)
	}
	if p.Beside {
		out["beside"] = besideKeys + 1
	}
	for _, n := range p.Batches {
		out["batches"] = max(out["batches"], n)
	}
	return out
}

func fitsMemory(what string, size int64, payloads int) error {
	opSize, perKey := opOf(size)
	if need := opSize * int64(perKey) * int64(payloads); need > maxMemory {
		return fmt.Errorf("%w: %s of %s takes %d MiB of memory, more than %s: make payloads, depth or batches smaller", ErrPlan, what, Size(size), need>>20, Size(maxMemory))
	}
	return nil
}

func (p *Plan) checkTimes() error {
	switch {
	case len(p.Sizes) == 0 || len(p.Depths) == 0 || len(p.Ops) == 0 || len(p.Names) == 0:
		return fmt.Errorf("%w: without a size, a depth, an op and an engine there is nothing to measure", ErrPlan)
	case p.Window < 10*time.Millisecond || p.Window > time.Minute:
		return fmt.Errorf("%w: a window of %v: want 10ms to 1m", ErrPlan, p.Window)
	case p.Time <= 0 || p.Pairs < 0 || p.Ramp < 0:
		return fmt.Errorf("%w: %v and %d pairs for a figure: want more than 0", ErrPlan, p.Time, p.Pairs)
	}
	return nil
}

func (p *Plan) engineNames() []string {
	var out []string
	for name := range p.Engines {
		out = append(out, name)
	}
	slices.Sort(out)
	return out
}

// fit settles what depends on the device.
func (p *Plan) fit(geo ioengine.Geometry) error {
	if p.Area == 0 {
		p.Area = min(DefaultArea, geo.Size)
	}
	rounded := p.Area - p.Area%ioengine.PieceSize // it is filled by the piece
	largest := slices.Max(p.Sizes)
	if len(p.Layouts) > 0 {
		largest = max(largest, p.LayoutSize)
	}
	switch {
	case p.Area > geo.Size:
		return fmt.Errorf("%w: %s of %q, which has %s", ErrPlan, Size(p.Area), p.Device, Size(geo.Size))
	case rounded < max(2*largest, ioengine.PieceSize):
		return fmt.Errorf("%w: payloads of %s within %s, of which whole %s are used: want room for two at least; give a larger device or --area", ErrPlan, Size(largest), Size(p.Area), Size(ioengine.PieceSize))
	case geo.Block > MinSize:
		return fmt.Errorf("%w: %q has blocks of %s, larger than %s", ErrPlan, p.Device, Size(int64(geo.Block)), Size(MinSize))
	}
	p.Area = rounded
	return nil
}

// Size is a number of bytes for people: 4KiB, 24MiB.
type Size int64

// String is in the largest unit that divides it.
func (s Size) String() string {
	for _, u := range []struct {
		bytes Size
		name  string
	}{{1 << 40, "TiB"}, {1 << 30, "GiB"}, {1 << 20, "MiB"}, {1 << 10, "KiB"}} {
		if s >= u.bytes && s%u.bytes == 0 {
			return fmt.Sprintf("%d%s", s/u.bytes, u.name)
		}
	}
	return fmt.Sprintf("%dB", int64(s))
}
