// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"io"
	"strconv"
	"strings"

	"github.com/rawblockd/rawblockd/bench"
)

// benchTable prints a row when its figure is known, so its widths are fixed.
type benchTable struct {
	out, err io.Writer
	quiet    bool // no table: standard output is for the report
	live     bool // what is going on is shown on a terminal
	shown    bool
	rows     int
	plan     *bench.Plan
	warned   bool
}

const benchRow = "%-46s %-18s %9s %9s  %-24s %5s %6s  %7s %7s  %7s %7s  %9s %9s  %s\n"

// restOfBench says what the columns do not.
const restOfBench = "MIB/S, FIO: medians of the windows. RATIO: median of the paired ratios, with its 90 % interval;\n" +
	"of mix and beside the ratio of p99s of all rounds pooled, its interval by bootstrap. NOISE: fio ÷ fio, likewise.\n" +
	"CPU/GB: seconds for 10^9 bytes, US/OP: µs for an op of at most 1 MiB; ours is of the whole process, fio's of its job's thread,\n" +
	"and the kernel's own threads, such as a loop device's, are in neither. P50, P99: µs, of ours.\n"

// warn says once that the time is too short for a verdict. Who gave --pairs knows.
func (t *benchTable) warn(r bench.Row) {
	if t.warned || t.plan.Pairs > 0 || r.Pairs == 0 || r.Pairs >= bench.LeastRounds {
		return
	}
	t.warned = true
	fmt.Fprintf(t.err, "bench engine: warning: in --time %v there was time for %d rounds only, and fewer than %d decide nothing: give --time more, or --window (%v) less\n",
		t.plan.Time, r.Pairs, bench.LeastRounds, t.plan.Window)
}

func (t *benchTable) row(r bench.Row) {
	t.clear()
	t.warn(r)
	if t.quiet {
		return
	}
	if t.rows == 0 {
		fmt.Fprintf(t.out, benchRow, "FIGURE", "ENGINE", "MIB/S", "FIO", "RATIO [90 %]", "PAIRS", "NOISE", "CPU/GB", "FIO", "US/OP", "FIO", "P50", "P99", "VERDICT")
	}
	t.rows++
	ratio, verdict := "-", "-"
	if r.Pairs > 0 {
		ratio = fmt.Sprintf("%.3f [%.3f, %.3f]", r.Ratio, r.RatioLo, r.RatioHi)
	}
	if r.Verdict != "" {
		verdict = fmt.Sprintf("%s (%s × %s)", r.Verdict, r.Want, r.Against)
	} else if r.Against != "" {
		verdict = "× " + r.Against
	}
	if r.Claimed > 0 {
		verdict += fmt.Sprintf("; Mooncake's authors claim %.2f of their drive", r.Claimed)
	}
	if r.Note != "" {
		verdict += "; " + oneLineOf(r.Note)
	}
	fmt.Fprintf(t.out, benchRow, benchTitle(r), r.Engine, number(r.MiBs, 0), number(r.FioMiBs, 0), ratio, number(float64(r.Pairs), 0), number(r.Noise, 3),
		number(r.CPUPerGB, 3), number(r.FioCPUPerGB, 3), number(r.CPUPerOp, 1), number(r.FioCPUPerOp, 1), number(r.P50, 0), number(r.P99, 0), verdict)
}

func oneLineOf(s string) string { return strings.Join(strings.Fields(s), " ") }

// benchTitle names what a row is of.
func benchTitle(r bench.Row) string {
	s := fmt.Sprintf("%s %s %s depth %d", r.Name, r.Op, bench.Size(r.Size), r.Depth)
	switch {
	case r.N > 0:
		s += fmt.Sprintf(", %d keys", r.N)
	case r.Name != "throughput" || r.Mode != bench.Rolling:
		s += ", " + r.Mode
	}
	return s
}

func number(v float64, digits int) string {
	if v == 0 {
		return "-"
	}
	return strconv.FormatFloat(v, 'f', digits, 64)
}

func (t *benchTable) figure(what string, i, n int) {
	t.show(fmt.Sprintf("[%d/%d] %s", i+1, n, what))
}

func (t *benchTable) filling(done, total int64) {
	t.show(fmt.Sprintf("writing all that is measured: %s of %s", size(done), size(total)))
}

func (t *benchTable) show(what string) {
	if t.live {
		t.shown = true
		fmt.Fprintf(t.err, "\r%s%s", clip([]byte(what), 79), restOfLine)
	}
}

func (t *benchTable) clear() {
	if t.shown {
		t.shown = false
		fmt.Fprintf(t.err, "\r%s", restOfLine)
	}
}

// close prints what the columns mean, and one closing line.
func (t *benchTable) close(r bench.Report) {
	if t.quiet {
		return
	}
	verdicts := map[string]int{}
	for _, row := range r.Rows {
		verdicts[row.Verdict]++
	}
	fmt.Fprint(t.out, restOfBench)
	fmt.Fprintf(t.out, "bench: %d figures: %d met, %d missed, %d undecided, %d without a target\n",
		len(r.Rows), verdicts[bench.Met], verdicts[bench.Missed], verdicts[bench.Undecided], verdicts[""])
}
