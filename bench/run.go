// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"

	"github.com/rawblockd/rawblockd/ioengine"
)

// ErrNotDirect is a device without direct I/O: what would be measured is memory.
var ErrNotDirect = errors.New("direct I/O is not in effect")

// run is a plan being carried out.
type run struct {
	plan  *Plan
	dev   *ioengine.File
	rows  []Row
	turns uint64
}

// turn numbers what draws random offsets, so that no two draw the same.
func (r *run) turn() uint64 {
	r.turns++
	return r.turns
}

// figure is something to measure that gives one or more rows.
type figure struct {
	what string
	run  func(ctx context.Context) error
}

// Run carries out a plan. When it fails, or ctx ends, it returns the rows it has with
// the error.
func Run(ctx context.Context, p Plan) (_ Report, err error) {
	report := Report{Protocol: p.Protocol.String(), Rows: []Row{}} // no null in its JSON
	if err := p.Check(); err != nil {
		return report, err
	}
	dev, err := ioengine.Open(p.Device, ioengine.OpenOptions{ReadOnly: !p.Writes(), Exclusive: true})
	if err != nil {
		return report, err
	}
	defer func() { err = errors.Join(err, dev.Close()) }()
	report.Machine, report.Device = thisMachine(p.Fio), describe(dev)
	if err := direct(report.Device, dev.Geometry()); err != nil {
		return report, err
	}
	if err := p.fit(dev.Geometry()); err != nil {
		return report, err
	}
	report.Device.Area = p.Area
	r := &run{plan: &p, dev: dev}
	err = r.all(ctx)
	report.Rows = append(report.Rows, r.rows...)
	return report, err
}

func direct(d Device, geo ioengine.Geometry) error {
	if !geo.Direct {
		return fmt.Errorf("%w on %q: want a block device, or a file on a file system that has it", ErrNotDirect, d.Path)
	}
	if d.Loop != "" && !d.LoopDirect {
		return fmt.Errorf("%w under %q: it is a loop device over %q without it; switch it on: losetup --direct-io=on %s", ErrNotDirect, d.Path, d.Loop, d.RealPath)
	}
	return nil
}

// tryOut has every engine, and fio, start once: what this host does not let us have is
// found before anything is overwritten.
func (r *run) tryOut(ctx context.Context) error {
	deepest := slices.Max(r.plan.Depths)
	for _, name := range r.plan.Names {
		if name == FioFixed {
			continue
		}
		e, _, err := r.plan.Engines[name](r.dev, deepest, nil)
		if err == nil {
			err = e.Close()
		}
		if err != nil {
			return fmt.Errorf("engine %s: %w", name, err)
		}
	}
	if r.plan.Fio == nil {
		return nil
	}
	j := r.job(ioengine.Read, MinSize, deepest)
	if err := r.plan.Fio.tryOut(ctx, j, "has no io_uring here: leave --fio out"); err != nil {
		return err
	}
	if !slices.Contains(r.plan.Names, FioFixed) {
		return nil
	}
	j.fixed = true
	return r.plan.Fio.tryOut(ctx, j, "cannot register buffers here: leave "+FioFixed+" out")
}

func (r *run) all(ctx context.Context) error {
	if err := r.tryOut(ctx); err != nil {
		return err
	}
	if r.plan.Fill {
		if err := r.fill(ctx); err != nil {
			return err
		}
	}
	figures := r.figures()
	for i, f := range figures {
		if r.plan.Figure != nil {
			r.plan.Figure(f.what, i, len(figures))
		}
		if err := f.run(ctx); err != nil {
			return fmt.Errorf("%s: %w", f.what, err)
		}
	}
	return nil
}

// figures lists what the plan asks for, in the order in which it is measured.
func (r *run) figures() []figure {
	var out []figure
	p := r.plan
	each := func(sizes []int64, what string, measure func(context.Context, shape) error) {
		for _, op := range p.Ops {
			for _, size := range sizes {
				for _, depth := range p.Depths {
					for _, name := range p.Names {
						s := shape{name, op, size, depth}
						out = append(out, figure{what + " " + s.String(), func(ctx context.Context) error { return measure(ctx, s) }})
					}
				}
			}
		}
	}
	if p.Throughput {
		each(p.Sizes, "throughput", r.throughput)
	}
	if p.Batched {
		each(p.Sizes, "batched", r.batched)
	}
	if len(p.Layouts) > 0 {
		each([]int64{p.LayoutSize}, "layouts", r.layouts)
	}
	if len(p.Batches) > 0 {
		each(p.Sizes, "batches", r.batches)
	}
	if p.Beside {
		each(p.Sizes, "beside", r.beside)
	}
	if p.Mix {
		ops := p.Ops
		p.Ops = []ioengine.Dir{ioengine.Read} // it has both
		each(p.Sizes, "mix", r.mix)
		p.Ops = ops
	}
	return out
}

// shape is what a figure is of.
type shape struct {
	engine string
	op     ioengine.Dir
	size   int64
	depth  int
}

func (s shape) String() string {
	return fmt.Sprintf("%s %s depth %d %s", s.op, Size(s.size), s.depth, s.engine)
}

func (s shape) row(name, mode string) Row {
	return Row{Name: name, Engine: s.engine, Op: s.op.String(), Size: s.size, Depth: s.depth, Mode: mode, Path: "inproc"}
}

// loads is the probability that an op of the figure reads.
func (s shape) loads() float64 {
	if s.op == ioengine.Read {
		return 1
	}
	return 0
}

func (r *run) add(row Row) {
	r.rows = append(r.rows, row)
	if r.plan.Row != nil {
		r.plan.Row(row)
	}
}

// job returns fio's job for a payload size and a depth.
func (r *run) job(op ioengine.Dir, size int64, depth int) job {
	return job{dir: op, size: size, depth: depth, area: r.plan.Area, filename: r.dev.RealPath()}
}

// fioSide is a side that runs a job, each time with other offsets.
func (r *run) fioSide(j job) side {
	return side{run: func(ctx context.Context) (Sample, error) {
		j.seed = rand.New(rand.NewPCG(r.plan.Seed, r.turn())).Uint64()
		return r.plan.Fio.run(ctx, j, r.plan.Protocol)
	}}
}

// fillOps is how many MiB are written at once before the measuring.
const fillOps = 32

// fill writes the area once: what was never written is not read from the media either.
func (r *run) fill(ctx context.Context) error {
	e := ioengine.NewPread(r.dev, ioengine.PreadOptions{Workers: fillOps})
	defer func() { _ = e.Close() }() // nothing is under way
	arena, err := ioengine.NewArena(fillOps * ioengine.PieceSize)
	if err != nil {
		return err
	}
	buf, err := arena.Get(ctx, fillOps*ioengine.PieceSize)
	if err != nil {
		return errors.Join(err, arena.Close())
	}
	noise := rand.NewChaCha8([32]byte{byte(r.plan.Seed)})
	for _, c := range buf.Chunks() {
		_, _ = noise.Read(c) // never fails
	}
	err = r.write(ctx, e, buf.Chunks())
	buf.Release()
	return errors.Join(err, arena.Close())
}

func (r *run) write(ctx context.Context, e ioengine.Engine, chunks [][]byte) error {
	for at := int64(0); at < r.plan.Area; {
		if ctx.Err() != nil {
			return context.Cause(ctx)
		}
		var ops []ioengine.Op
		for _, c := range chunks {
			if at < r.plan.Area {
				ops = append(ops, ioengine.Op{Dir: ioengine.Write, Off: at, Vec: [][]byte{c}})
				at += int64(len(c))
			}
		}
		for _, res := range ioengine.Do(context.WithoutCancel(ctx), e, ops) {
			if res.Err != nil {
				return fmt.Errorf("write all of what is measured first: %w", res.Err)
			}
		}
		if r.plan.Filling != nil {
			r.plan.Filling(at, r.plan.Area)
		}
	}
	return e.Flush()
}
