// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"slices"
	"time"

	"github.com/spf13/cobra"

	"github.com/rawblockd/rawblockd/bench"
	"github.com/rawblockd/rawblockd/config"
	"github.com/rawblockd/rawblockd/ioengine"
)

// benchText is what flags give as text and settle turns into a plan.
type benchText struct {
	preset                       string
	sizes, ops, engines, layouts []string
	depths, batches              []int
	size, area                   sizeFlag
	fill                         bool
}

// Presets of bench engine.
const (
	presetMooncake = "mooncake"
	presetLMCache  = "lmcache"
)

func (b *benchEngine) flags(cmd *cobra.Command) {
	f, t, p := cmd.Flags(), &b.text, &b.plan
	t.size = sizeFlag{24 * config.MiB}
	f.StringVar(&p.Device, "device", "", "block device, or file, to measure; overwritten")
	f.StringSliceVar(&t.sizes, "sizes", []string{"4KiB", "64KiB", "256KiB", "1MiB", "24MiB"}, "of payloads, 4KiB to 80MiB; moved a MiB at a time (256KiB, if not for throughput)")
	f.IntSliceVar(&t.depths, "depths", []int{32}, "ops at once, 1 to 256")
	f.StringSliceVar(&t.ops, "ops", []string{"read", "write"}, "read, write or both (read, if not for throughput)")
	f.StringSliceVar(&t.engines, "engines", []string{"pread", "uring"}, "pread, uring, uring-unregistered; fio-fixedbufs is fio with registered buffers")
	f.StringSliceVar(&p.Modes, "modes", []string{bench.Rolling}, "of throughput: rolling (the depth in flight, resubmitted one by one), queued (batches wait in the engine)")
	f.StringVar(&t.preset, "preset", "", "what others published: mooncake (batched at 4KiB,64KiB,1MiB) or lmcache (layouts and batches)")
	f.BoolVar(&p.Batched, "batched", false, "measure a batch of as many as the depth against one at a time")
	f.StringSliceVar(&t.layouts, "layouts", nil, "measure layouts against each other, BATCHESxKEYS: 1x32,8x4,32x1")
	f.Var(&t.size, "size", "of the payloads of --layouts")
	f.IntSliceVar(&t.batches, "batches", nil, "measure how long one batch of so many keys takes: 1,2,4,8,16,32,64,128")
	f.BoolVar(&p.Mix, "mix", false, "measure loads while stores run, against fio's own 70/30 mix")
	f.BoolVar(&p.Beside, "beside", false, "measure single loads while a batch of 512 keys runs")
	f.BoolVar(&b.withFio, "fio", false, "run fio in turn, and print ratios")
	f.StringVar(&b.jsonFile, "json", "", "write a report to this file; -: to standard output instead of the table")
	f.StringVar(&b.svgFile, "svg", "", "draw the report into this file")
	f.Var(&t.area, "area", "bytes from the device's start to use (default 4GiB, or the device)")
	f.BoolVar(&t.fill, "fill", false, "write the area once first (default, where anything is written)")
	f.IntVar(&p.Pairs, "pairs", 0, "rounds for a figure at most (default as many as --time allows)")
	f.DurationVar(&p.Time, "time", time.Minute, "for a figure at most; it ends earlier when its interval is within ±2 %")
	f.DurationVar(&p.Window, "window", time.Second, "of one side in one round")
	f.Uint64Var(&p.Seed, "seed", 1, "of the places that are read and written")
	f.BoolVar(&b.yes, "yes", false, "overwrite whatever is on the device without asking")
	for flag, all := range map[string][]string{
		"ops": {"read", "write"}, "engines": append(benchNames(), bench.FioFixed), "sizes": {"1MiB", "24MiB", "256KiB", "4KiB", "64KiB"},
	} {
		registered(cmd.RegisterFlagCompletionFunc(flag, listOf(words(all...))))
	}
	registered(cmd.RegisterFlagCompletionFunc("modes", listOf(words(bench.Queued, bench.Rolling))))
	registered(cmd.RegisterFlagCompletionFunc("preset", words(presetLMCache, presetMooncake)))
}

// settle turns flags into the plan.
func (b *benchEngine) settle(cmd *cobra.Command) error {
	t, p := &b.text, &b.plan
	given := cmd.Flags().Changed
	if err := t.applyPreset(p, given); err != nil {
		return err
	}
	p.Throughput = !p.Batched && !p.Mix && !p.Beside && len(t.layouts) == 0 && len(t.batches) == 0
	if err := t.refuseUseless(p, given); err != nil {
		return err
	}
	if !p.Throughput && !given("sizes") && t.preset != presetMooncake {
		t.sizes = []string{"256KiB"}
	}
	if !p.Throughput && !given("ops") {
		t.ops = []string{"read"}
	}
	var err error
	if p.Sizes, err = parseSizes(t.sizes); err != nil {
		return fmt.Errorf("--sizes: %w", err)
	}
	for _, l := range distinct(t.layouts) {
		layout, err := bench.ParseLayout(l)
		if err != nil {
			return fmt.Errorf("--layouts: %w", err)
		}
		p.Layouts = append(p.Layouts, layout)
	}
	for _, op := range distinct(t.ops) {
		dir, ok := map[string]ioengine.Dir{"read": ioengine.Read, "write": ioengine.Write}[op]
		if !ok {
			return fmt.Errorf("--ops: %q: want read or write", op)
		}
		p.Ops = append(p.Ops, dir)
	}
	p.Modes = distinct(p.Modes)
	p.Depths, p.Batches, p.LayoutSize, p.Area = distinct(t.depths), t.batches, int64(t.size.bytes), int64(t.area.bytes)
	p.Names = b.engineNames(given("engines"))
	p.Ramp = p.Window / 10
	p.Fill = t.fill || !given("fill") && p.Writes()
	return nil
}

// distinct leaves out what was there before: it would be measured twice.
func distinct[T comparable](list []T) []T {
	var out []T
	for _, v := range list {
		if !slices.Contains(out, v) {
			out = append(out, v)
		}
	}
	return out
}

// refuseUseless refuses flags that change nothing of what is measured.
func (t *benchText) refuseUseless(p *bench.Plan, given func(string) bool) error {
	sized := p.Throughput || p.Batched || p.Mix || p.Beside || len(t.batches) > 0
	for _, u := range []struct {
		flag string
		used bool
		is   string
	}{
		{"modes", p.Throughput, "of throughput, which is measured where nothing else is asked for"},
		{"size", len(t.layouts) > 0, "of the payloads of --layouts: the others have --sizes"},
		{"sizes", sized, "not of --layouts: they have --size"},
		{"ops", p.Throughput || p.Batched || p.Beside || len(t.batches)+len(t.layouts) > 0, "not of --mix, which reads and writes"},
	} {
		if given(u.flag) && !u.used {
			return fmt.Errorf("--%s is %s; leave it out", u.flag, u.is)
		}
	}
	return nil
}

func (t *benchText) applyPreset(p *bench.Plan, given func(string) bool) error {
	switch t.preset {
	case "":
	case presetMooncake:
		p.Batched = true
		if !given("sizes") {
			t.sizes = []string{"4KiB", "64KiB", "1MiB"}
		}
	case presetLMCache:
		if !given("layouts") {
			t.layouts = []string{"1x32", "8x4", "32x1"}
		}
		if !given("batches") {
			t.batches = []int{1, 2, 4, 8, 16, 32, 64, 128}
		}
	default:
		return fmt.Errorf("--preset %q: want %s or %s", t.preset, presetMooncake, presetLMCache)
	}
	return nil
}

// engineNames leaves out, of those that nobody asked for, what this host does not let
// us have.
func (b *benchEngine) engineNames(asked bool) []string {
	names := distinct(b.text.engines)
	if asked {
		return names
	}
	if err := ioengine.ProbeUring(1); err != nil {
		fmt.Fprintf(b.cli.stderr, "without uring: %s\n", oneLine(err))
		names = slices.DeleteFunc(names, func(n string) bool { return n != "pread" })
	}
	return names
}
