// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"errors"
	"fmt"
	"os"
	"slices"
	"strings"

	"github.com/spf13/cobra"

	"github.com/rawblockd/rawblockd/bench"
	"github.com/rawblockd/rawblockd/config"
	"github.com/rawblockd/rawblockd/slab"
)

func (c *cli) benchVerb() *cobra.Command {
	cmd := &cobra.Command{Use: "bench", Short: "Measure a device, with fio beside"}
	cmd.AddCommand(c.benchEngineVerb())
	return cmd
}

func (c *cli) benchEngineVerb() *cobra.Command {
	b := benchEngine{cli: c}
	cmd := &cobra.Command{
		Use:   "engine --device DEVICE",
		Short: "Measure what an engine makes of a device, with fio beside",
		Long: "Measure what an engine makes of a device, in windows that alternate with fio's on the same device.\n" +
			"Overwrites DEVICE, unless only reads are measured without --fill; asks before, and without a terminal wants --yes.\n" +
			"Without --batched, --layouts, --batches, --mix, --beside or --preset it measures throughput.\n" +
			"A missed target is a figure like any other: the exit code stays 0.",
		Example: "  rawblockd bench engine --device /dev/nvme1n1 --fio --sizes 4KiB,1MiB --json out.json --svg out.svg\n" +
			"  rawblockd bench engine --device /dev/nvme1n1 --fio --preset lmcache",
		Args: cobra.NoArgs,
	}
	cmd.RunE = func(cmd *cobra.Command, _ []string) error { return b.run(cmd) }
	b.flags(cmd)
	return cmd
}

// benchEngine is one bench of engines.
type benchEngine struct {
	cli      *cli
	plan     bench.Plan
	text     benchText
	withFio  bool
	yes      bool
	jsonFile string
	svgFile  string
	table    benchTable
}

func (b *benchEngine) run(cmd *cobra.Command) error {
	if err := b.prepare(cmd); err != nil {
		return fmt.Errorf("bench engine: %w", err)
	}
	if err := b.askFirst(cmd); err != nil {
		return err
	}
	report, err := bench.Run(cmd.Context(), b.plan)
	b.table.clear()
	if len(report.Rows) == 0 && err != nil {
		return b.explain(err)
	}
	report.Tool, report.Version, report.Interrupted = "rawblockd bench engine", versionLine(), err != nil
	return errors.Join(b.explain(err), b.write(report))
}

func (b *benchEngine) explain(err error) error {
	if errors.Is(err, bench.ErrPlan) {
		return usagef("bench engine: %w", err)
	}
	if err != nil {
		return fmt.Errorf("bench engine: %w", err)
	}
	return nil
}

// prepare finds out, before anything is touched, what can be wrong.
func (b *benchEngine) prepare(cmd *cobra.Command) error {
	if b.plan.Device == "" {
		return usagef("--device is missing: which device is to be measured?")
	}
	if b.withFio {
		fio, err := bench.FindFio(cmd.Context())
		if err != nil {
			return err
		}
		b.plan.Fio = fio
	}
	b.plan.Engines = benchEngines()
	if err := b.settle(cmd); err != nil {
		return usageError{err}
	}
	if err := b.plan.Check(); err != nil {
		return usageError{err}
	}
	for _, path := range []string{b.jsonFile, b.svgFile} {
		if err := canWrite(path); err != nil {
			return usageError{err}
		}
	}
	b.table = benchTable{out: b.cli.stdout, err: b.cli.stderr, quiet: b.jsonFile == "-", live: isTerminal(b.cli.stderr), plan: &b.plan}
	b.plan.Row, b.plan.Figure, b.plan.Filling = b.table.row, b.table.figure, b.table.filling
	return nil
}

// canWrite tells whether a report can be written to path: rather now than after an
// hour.
func canWrite(path string) error {
	if path == "" || path == "-" {
		return nil
	}
	_, before := os.Lstat(path)
	f, err := os.OpenFile(path, os.O_CREATE|os.O_WRONLY, 0o644)
	if err != nil {
		return err
	}
	if err := f.Close(); err != nil || before == nil {
		return err
	}
	return os.Remove(path)
}

// askFirst has the loss of what is on the device confirmed, also where nothing is seen:
// only a device's start is looked at. Reads of a device on which there is nothing are
// refused: they would not reach the media.
func (b *benchEngine) askFirst(cmd *cobra.Command) error {
	if b.plan.Writes() && b.yes {
		return nil
	}
	r, err := slab.Survey(b.plan.Device)
	if r.RealPath == "" || r.Geometry.Size == 0 {
		return err
	}
	held := holdings(r, err)
	switch {
	case len(held) == 0 && !b.plan.Writes() && !cmd.Flags().Changed("fill"):
		return usagef("bench engine: nothing was found on %q, and what was never written is not read from the media: give --fill, which writes it first, or --fill=false", b.plan.Device)
	case !b.plan.Writes():
		return nil
	}
	holds := "which holds: " + strings.Join(held, "; ")
	if len(held) == 0 {
		holds = "at whose start nothing was found"
	}
	area := b.plan.Area
	if area == 0 {
		area = min(bench.DefaultArea, r.Geometry.Size)
	}
	what := fmt.Sprintf("overwrites the first %s of %s, %s", size(area), b.plan.Device, holds)
	return b.cli.confirm(cmd.Context(), "bench engine", what)
}

// write writes the files that were asked for.
func (b *benchEngine) write(report bench.Report) error {
	b.table.close(report)
	if b.jsonFile != "" {
		if err := b.writeJSON(report); err != nil {
			return err
		}
	}
	if b.svgFile == "" {
		return nil
	}
	var picture bytes.Buffer // a drawing that fails leaves no file
	if err := bench.WriteSVG(&picture, report); err != nil {
		return err
	}
	return os.WriteFile(b.svgFile, picture.Bytes(), 0o644)
}

func (b *benchEngine) writeJSON(report bench.Report) error {
	if b.jsonFile == "-" {
		return b.cli.printJSON(report)
	}
	f, err := os.Create(b.jsonFile)
	if err != nil {
		return err
	}
	to := *b.cli
	to.stdout = f
	return errors.Join(to.printJSON(report), f.Close())
}

func versionLine() string {
	v := readVersion()
	s := v.Version
	if v.Commit != "" && !strings.Contains(s, v.Commit[:min(12, len(v.Commit))]) {
		s += " " + v.Commit
	}
	if v.Dirty && !strings.Contains(s, "dirty") {
		s += " dirty"
	}
	return s
}

// parseSizes reads a list of sizes as the configuration has them.
func parseSizes(list []string) ([]int64, error) {
	out := make([]int64, len(list))
	for i, s := range list {
		n, err := config.ParseSize(s)
		if err != nil {
			return nil, fmt.Errorf("size %q: %w", s, err)
		}
		out[i] = int64(n)
	}
	slices.Sort(out)
	return slices.Compact(out), nil
}
