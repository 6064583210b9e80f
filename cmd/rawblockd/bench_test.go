// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/rawblockd/rawblockd/bench"
	"github.com/rawblockd/rawblockd/internal/testdev"
	"github.com/rawblockd/rawblockd/ioengine"
	"github.com/rawblockd/rawblockd/slab"
)

// benchArgs is a bench so short that its figures mean nothing.
func benchArgs(device string, more ...string) []string {
	args := []string{"bench", "engine", "--device", device, "--window", "20ms", "--pairs", "1", "--depths", "4"}
	if !slices.Contains(more, "--engines") {
		args = append(args, "--engines", "pread")
	}
	return append(args, more...)
}

func readReport(t *testing.T, path string) bench.Report {
	t.Helper()
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	var r bench.Report
	if err := json.Unmarshal(b, &r); err != nil {
		t.Fatalf("%s: %v", path, err)
	}
	return r
}

// A blank device is measured, in a table, a file and a picture; what it then holds is
// named before it is overwritten again.
func TestBenchEngine(t *testing.T) {
	device := testdev.Loop(t, 64<<20, 512)
	dir := t.TempDir()
	report, picture := filepath.Join(dir, "out.json"), filepath.Join(dir, "out.svg")
	out := ok(t, benchArgs(device, "--yes", "--sizes", "4KiB,2MiB", "--modes", "rolling,queued", "--json", report, "--svg", picture)...)
	if !strings.HasSuffix(out, "bench: 8 figures: 0 met, 0 missed, 0 undecided, 8 without a target\n") {
		t.Errorf("the closing line is not as expected: %s", out)
	}
	r := readReport(t, report)
	if r.Tool != "rawblockd bench engine" || r.Machine.CPUs == 0 || r.Machine.Kernel == "" || !r.Device.LoopDirect || r.Device.Area != 64<<20 || r.Interrupted {
		t.Errorf("report of %+v on %+v", r.Device, r.Machine)
	}
	seen := map[string]bool{}
	for _, row := range r.Rows {
		seen[row.Op+" "+bench.Size(row.Size).String()+" "+row.Mode] = true
		if row.MiBs <= 0 || row.IOPS <= 0 || row.P50 <= 0 || row.P99 < row.P50 || row.P999 < row.P99 || row.Ratio != 0 || row.Verdict != "" || row.Depth != 4 || row.Path != "inproc" {
			t.Errorf("row %+v", row)
		}
	}
	if len(seen) != 8 || !seen["read 4KiB rolling"] || !seen["write 2MiB queued"] {
		t.Errorf("rows of %v", seen)
	}
	svg, err := os.ReadFile(picture)
	if err != nil || !strings.Contains(string(svg), "pread, queued") || !strings.HasSuffix(strings.TrimSpace(string(svg)), "</svg>") {
		t.Errorf("the picture of %d bytes: %v", len(svg), err)
	}

	again := command(t, benchArgs(device, "--sizes", "4KiB")...)
	if again.code != exitUsage || !strings.Contains(again.errors, "which holds: something unknown") || !strings.Contains(again.errors, "give --yes") {
		t.Errorf("on its own leavings: code %d, %s", again.code, again.errors)
	}
	ok(t, benchArgs(device, "--sizes", "4KiB", "--ops", "write", "--yes")...)
}

// What is on a device is named, and stays, unless --yes is given or only reads are
// measured.
func TestBenchEngineRefuses(t *testing.T) {
	device := testdev.Loop(t, 64<<20, 512)
	if r := command(t, benchArgs(device, "--ops", "read")...); r.code != exitUsage || !strings.Contains(r.errors, "give --fill, which writes it first") {
		t.Errorf("reads of a blank device: code %d, %s", r.code, r.errors)
	}
	ok(t, benchArgs(device, "--ops", "read", "--sizes", "4KiB", "--fill=false")...)
	ok(t, "init", device, "--slot-size", "1MiB", "--name", "precious")
	for name, tc := range map[string]struct {
		device string
		more   []string
		code   int
		want   string
	}{
		"a slab":          {device, nil, exitUsage, "precious"},
		"filling":         {device, []string{"--ops", "read", "--fill"}, exitUsage, "precious"},
		"a mix":           {device, []string{"--mix"}, exitUsage, "precious"},
		"no direct I/O":   {testdev.FileIn(t, testdev.Tmpfs(t), 64<<20), []string{"--yes"}, exitFailed, "direct I/O is not in effect"},
		"too small":       {device, []string{"--yes", "--sizes", "40MiB"}, exitUsage, "want room for two"},
		"too large":       {device, []string{"--yes", "--area", "1GiB"}, exitUsage, "which has 64MiB"},
		"too much memory": {device, []string{"--beside", "--sizes", "24MiB"}, exitUsage, "of memory, more than"},
		"nothing there":   {filepath.Join(t.TempDir(), "none"), nil, exitFailed, "no such file"},
	} {
		r := command(t, benchArgs(tc.device, tc.more...)...)
		if r.code != tc.code || !strings.Contains(r.errors, tc.want) {
			t.Errorf("%s: code %d, %q; want %d and %q", name, r.code, r.errors, tc.code, tc.want)
		}
	}
	ok(t, benchArgs(device, "--sizes", "4KiB", "--ops", "read")...)
	if r, err := slab.Inspect(device); err != nil || r.Label.Name != "precious" {
		t.Errorf("the slab is gone: %v", err)
	}
}

// Of a device only the start is looked at, so that there is a question even where
// nothing was found there.
func TestBenchEngineAsks(t *testing.T) {
	device := testdev.Loop(t, 64<<20, 512)
	f, err := os.OpenFile(device, os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = f.Close() })
	const middle = 32 << 20
	if _, err := f.WriteAt([]byte("precious"), middle); err != nil {
		t.Fatal(err)
	}
	kept := func() bool {
		got := make([]byte, len("precious"))
		if _, err := f.ReadAt(got, middle); err != nil {
			t.Fatal(err)
		}
		return string(got) == "precious"
	}
	args := benchArgs(device, "--sizes", "4KiB", "--ops", "read", "--fill")
	r := command(t, args...)
	if r.code != exitUsage || !strings.Contains(r.errors, "overwrites the first 64 MiB") || !strings.Contains(r.errors, "give --yes") || !kept() {
		t.Errorf("without a terminal: code %d, %s; kept %v", r.code, r.errors, kept())
	}
	for _, answer := range []string{"no", "yes"} {
		want := map[string]int{"no": exitFailed, "yes": exitOK}[answer]
		w := newTerminal(t)
		w.types(answer + "\n")
		var out, errs bytes.Buffer
		code := run(t.Context(), args, w.end, &out, &errs)
		if code != want || !strings.Contains(errs.String(), "at whose start nothing was found") {
			t.Errorf("%s: code %d, %s", answer, code, &errs)
		}
		if answer == "no" && !kept() {
			t.Error("overwritten in spite of no")
		}
	}
}

// What is asked for twice is measured once, and a flag that changes nothing is refused.
func TestBenchEngineFlags(t *testing.T) {
	device := testdev.Loop(t, 64<<20, 512)
	out := ok(t, benchArgs(device, "--engines", "pread,pread", "--depths", "4,2,4", "--ops", "read,read", "--modes", "queued,queued", "--sizes", "4KiB,4KiB", "--fill=false")...)
	if !strings.Contains(out, "bench: 2 figures: ") {
		t.Errorf("two depths, all else twice the same: %s", out)
	}
	for want, more := range map[string][]string{
		"--modes is of throughput":               {"--mix", "--modes", "queued"},
		"--size is of the payloads of --layouts": {"--batched", "--size", "1MiB"},
		"--sizes is not of --layouts":            {"--layouts", "1x2,2x1", "--sizes", "4KiB"},
		"--ops is not of --mix":                  {"--mix", "--ops", "read"},
	} {
		if r := command(t, benchArgs(device, more...)...); r.code != exitUsage || !strings.Contains(r.errors, want) {
			t.Errorf("%v: code %d, %s; want %s", more, r.code, r.errors, want)
		}
	}
}

// There is no picture of what has only rows that no chart shows, and no empty one.
func TestBenchEngineDrawsNothing(t *testing.T) {
	device := testdev.Loop(t, 64<<20, 512)
	picture := filepath.Join(t.TempDir(), "out.svg")
	r := command(t, benchArgs(device, "--batched", "--sizes", "4KiB", "--fill=false", "--svg", picture)...)
	if r.code != exitFailed || !strings.Contains(r.errors, "no figure to draw") {
		t.Errorf("code %d, %s", r.code, r.errors)
	}
	if _, err := os.Stat(picture); !os.IsNotExist(err) {
		t.Errorf("left %s (%v)", picture, err)
	}
}

// A time that has no room for a verdict is said, once; not to who asked for few rounds.
func TestBenchEngineWarnsOfFewRounds(t *testing.T) {
	device := testdev.Loop(t, 64<<20, 512)
	args := benchArgs(device, "--layouts", "1x2,2x1", "--size", "4KiB", "--fill=false", "--time", "1ms")
	if r := command(t, args...); r.code != exitOK || r.errors != "" {
		t.Errorf("--pairs 1: code %d, %s", r.code, r.errors)
	}
	r := command(t, append(args, "--pairs", "0")...)
	if r.code != exitOK || strings.Count(r.errors, "there was time for 1 rounds only, and fewer than 5 decide nothing") != 1 {
		t.Errorf("code %d, %s", r.code, r.errors)
	}
}

func TestBenchEngineWithoutFio(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	r := command(t, benchArgs("/dev/null", "--fio")...)
	if r.code != exitFailed || !strings.Contains(r.errors, "install the package fio, or leave --fio out") {
		t.Errorf("code %d, %s", r.code, r.errors)
	}
}

// Everything that can be measured, each with fio beside it and its ratio.
func TestBenchEngineBesideFio(t *testing.T) {
	needFio(t)
	device := testdev.Loop(t, 64<<20, 512)
	report := filepath.Join(t.TempDir(), "out.json")
	ok(t, benchArgs(device, "--fio", "--yes", "--sizes", "64KiB", "--ops", "read", "--fill", "--json", report)...)
	r := readReport(t, report)
	if row := r.Rows[0]; len(r.Rows) != 1 || row.FioMiBs <= 0 || row.Ratio <= 0 || row.Noise <= 0 || row.FioP99 <= 0 || row.Pairs != 1 || row.Against != "fio 64KiB×4" {
		t.Errorf("throughput: %+v", row)
	}
	ok(t, benchArgs(device, "--fio", "--yes", "--preset", "lmcache", "--layouts", "1x4,2x2", "--size", "1MiB", "--sizes", "64KiB",
		"--batches", "2,8", "--batched", "--mix", "--beside", "--json", report)...)
	var names []string
	for _, row := range readReport(t, report).Rows {
		names = append(names, row.Name)
		statistic := bench.StatisticPairs
		switch {
		case row.Name == "mix" || row.Name == "beside":
			statistic = bench.StatisticPooled
		case row.Ratio == 1 && row.Name == "layout":
			statistic = "" // the best, against itself
		}
		if row.Statistic != statistic {
			t.Errorf("statistic %q, want %q: %+v", row.Statistic, statistic, row)
		}
		if row.Ratio <= 0 || row.RatioLo > row.Ratio || row.RatioHi < row.Ratio || row.Against == "" {
			t.Errorf("no ratio: %+v", row)
		}
		if row.Verdict == bench.Missed || row.Verdict == bench.Met && row.Ratio != 1 {
			t.Errorf("a verdict from one pair: %+v", row)
		}
	}
	want := []string{"batched", "gain", "batched", "gain", "batched", "gain", "layout", "layout", "batch", "batch", "beside", "mix", "mix"}
	if !slices.Equal(names, want) {
		t.Errorf("rows %v, want %v", names, want)
	}
}

// Both kinds of uring engine, and fio with registered buffers.
func TestBenchEngineUring(t *testing.T) {
	needFio(t)
	if err := ioengine.ProbeUring(1); err != nil {
		t.Skipf("no io_uring here: %v", err)
	}
	device := testdev.Loop(t, 64<<20, 512)
	report := filepath.Join(t.TempDir(), "out.json")
	ok(t, benchArgs(device, "--fio", "--yes", "--sizes", "64KiB", "--ops", "read", "--fill", "--engines", "uring,uring-unregistered,fio-fixedbufs", "--json", report)...)
	rows := readReport(t, report).Rows
	if len(rows) != 3 || rows[0].Engine != "uring" || rows[1].Engine != "uring-unregistered" || rows[2].Engine != bench.FioFixed {
		t.Fatalf("rows %+v", rows)
	}
	for _, row := range rows {
		if row.Ratio <= 0 || row.CPUPerOp < 0 {
			t.Errorf("row %+v", row)
		}
	}
}

// Ctrl-C ends the bench and its fio; what was measured until then is kept.
func TestBenchEngineInterrupted(t *testing.T) {
	needFio(t)
	device := testdev.Loop(t, 64<<20, 512)
	report := filepath.Join(t.TempDir(), "out.json")
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	out, errs := newSignalWriter("throughput"), newSignalWriter("rawblockd:")
	first := out.await("throughput")
	go func() {
		<-first
		cancel()
	}()
	args := benchArgs(device, "--fio", "--yes", "--sizes", "4KiB,8KiB,16KiB,32KiB", "--json", report)
	if code := run(ctx, args, strings.NewReader(""), out, errs); code != exitFailed {
		t.Errorf("code %d, want 1: %s", code, errs)
	}
	if got := errs.String(); !strings.Contains(got, "rawblockd: interrupted\n") {
		t.Errorf("said %q", got)
	}
	r := readReport(t, report)
	if !r.Interrupted || len(r.Rows) == 0 || len(r.Rows) == 8 {
		t.Errorf("interrupted %v, with %d rows", r.Interrupted, len(r.Rows))
	}
	if fios := children(t); len(fios) > 0 {
		t.Errorf("left running: %v", fios)
	}
}

func needFio(t *testing.T) {
	t.Helper()
	if testing.Short() {
		t.Skip("fio starts many times")
	}
	if _, err := exec.LookPath("fio"); err != nil {
		t.Skip("fio is not installed")
	}
}

// children names the child processes of this one that are fio.
func children(t *testing.T) []string {
	t.Helper()
	var out []string
	tasks, err := filepath.Glob("/proc/self/task/*/children")
	if err != nil {
		t.Fatal(err)
	}
	for _, task := range tasks {
		pids, _ := os.ReadFile(task) // a thread that has ended has none
		for _, pid := range strings.Fields(string(pids)) {
			if name, _ := os.ReadFile("/proc/" + pid + "/comm"); strings.TrimSpace(string(name)) == "fio" {
				out = append(out, pid)
			}
		}
	}
	return out
}
