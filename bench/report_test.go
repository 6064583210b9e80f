// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"bytes"
	"encoding/xml"
	"errors"
	"io"
	"strings"
	"testing"
	"time"

	"github.com/rawblockd/rawblockd/ioengine"
)

// sampleOf is a window of a second with one latency for each direction.
func sampleOf(bytes int64, lat time.Duration) Sample {
	s := Sample{Took: time.Second, CPU: time.Second / 2}
	s.By[ioengine.Read].Bytes = bytes
	s.By[ioengine.Read].record(int64(lat), 1)
	return s
}

func TestRowOfOurs(t *testing.T) {
	row := shape{"pread", ioengine.Read, 24 << 20, 32}.row("throughput", Rolling)
	row.ours([]Sample{sampleOf(100<<20, time.Millisecond), sampleOf(300<<20, 2*time.Millisecond), sampleOf(200<<20, 3*time.Millisecond)}, ioengine.Read)
	if row.MiBs != 200 || row.IOPS != 200.0/24 {
		t.Errorf("%v MiB/s, %v a second; want the medians 200 and 8.33", row.MiBs, row.IOPS)
	}
	if want := 1.5 / (600 << 20) * 1e9; row.CPUPerGB != want {
		t.Errorf("%v CPU seconds a GB, want %v", row.CPUPerGB, want)
	}
	if want := 1.5 / 600 * 1e6; row.CPUPerOp != want { // of a MiB
		t.Errorf("%v µs an op, want %v", row.CPUPerOp, want)
	}
	if row.P50 < 2000 || row.P50 > 2002 || row.P99 < 3000 || row.P99 > 3003 {
		t.Errorf("p50 %v µs, p99 %v µs; want 2000 and 3000", row.P50, row.P99)
	}
}

// The bound of a batch is the time of one key for every turn of the depth, or what
// fio's rate needs for the bytes: whichever is more.
func TestBatchBound(t *testing.T) {
	b := batchSweep{s: shape{op: ioengine.Read, size: 256 << 10, depth: 4}, sizes: []int{1, 4, 5, 64}, withFio: true}
	one, fio := sampleOf(0, time.Millisecond), sampleOf(16<<20, time.Millisecond) // 64 keys a second
	round := []Sample{one, one, one, one, fio}
	for i, want := range []float64{1.0 / 64, 4.0 / 64, 5.0 / 64, 1} {
		if got := b.bound(round, i) / 1e9; got < want*0.999 || got > want*1.001 {
			t.Errorf("%d keys: bound %v s, want fio's %v", b.sizes[i], got, want)
		}
	}
	round[4] = sampleOf(1<<40, time.Millisecond)
	for i, want := range []float64{1, 1, 2, 16} {
		if got := b.bound(round, i) / 1e6; got < want*0.999 || got > want*1.002 {
			t.Errorf("%d keys: bound %v ms, want %v turns", b.sizes[i], got, want)
		}
	}
}

// What one key takes is half of every bound, and so has no target of its own.
func TestBatchOfOneHasNoTarget(t *testing.T) {
	b := batchSweep{s: shape{op: ioengine.Read, size: 256 << 10, depth: 4}, sizes: []int{1, 8}, withFio: true}
	one, eight, fio := sampleOf(0, time.Millisecond), sampleOf(0, 5*time.Millisecond), sampleOf(1<<40, time.Millisecond)
	all := [][]Sample{}
	for range LeastRounds {
		all = append(all, []Sample{one, eight, fio, fio})
	}
	if r := b.row(all, 0, ""); r.Verdict != "" || r.Ratio != 0 || r.MedianUS < 999 || r.BoundUS < 999 {
		t.Errorf("one key: %+v", r)
	}
	if r := b.row(all, 1, ""); r.Verdict != Missed || r.Ratio < 2.4 || r.Ratio > 2.6 || r.Statistic != StatisticPairs {
		t.Errorf("eight keys: %+v, want 5 ÷ 2 ms", r)
	}
}

func TestBesideBound(t *testing.T) {
	s := shape{op: ioengine.Read, size: 256 << 10, depth: 32}
	var all [][]Sample
	for range 6 {
		all = append(all, []Sample{sampleOf(1, 2*time.Millisecond), sampleOf(1, 8*time.Millisecond), sampleOf(2<<30, time.Millisecond)})
	}
	// 8 MiB in flight at 2 GiB/s are 3.906 ms, and half as much again.
	if got := newBesideTail(all, s).bound([]int{0, 3}) / 1e6; got < 7.85 || got > 7.87 {
		t.Errorf("bound %v ms, want 2 + 5.86", got)
	}
	if i := newBesideTail(all, s).interval(1); i.Median < 1.01 || i.Median > 1.02 || !i.Enough {
		t.Errorf("ratio %+v, want 8 ÷ 7.86", i)
	}
}

// Every kind of row is in the picture, ours and theirs.
func TestSVG(t *testing.T) {
	base := Row{Op: "read", Size: 1 << 20, Depth: 32, MiBs: 900, FioMiBs: 1000, Ratio: 0.9, RatioLo: 0.8, RatioHi: 0.95, P99: 1200, FioP99: 1000, BoundUS: 1000, MedianUS: 900, IdleP99: 100, N: 8, Keys: 8}
	var rows []Row
	for _, kind := range []struct{ name, engine, mode string }{
		{"throughput", "engine-one", Rolling},
		{"throughput", "engine-one", Queued},
		{"gain", "engine-two", "barrier"},
		{"gain", "fio", Rolling},
		{"layout", "engine-three", "8x4"},
		{"batch", "engine-four", "barrier"},
		{"beside", "engine-five", ""},
		{"mix", "engine-six", "70/30"},
	} {
		r := base
		r.Name, r.Engine, r.Mode = kind.name, kind.engine, kind.mode
		r.Claimed = 5.54
		rows = append(rows, r)
	}
	var out bytes.Buffer
	if err := WriteSVG(&out, Report{Tool: "rawblockd bench engine", Rows: rows}); err != nil {
		t.Fatal(err)
	}
	var texts []string
	for dec := xml.NewDecoder(&out); ; {
		tok, err := dec.Token()
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			t.Fatalf("no well-formed XML: %v", err)
		}
		if c, ok := tok.(xml.CharData); ok {
			texts = append(texts, string(c))
		}
	}
	all := strings.Join(texts, "\n")
	for _, want := range []string{"engine-one\n", "engine-one, queued", "engine-two, barrier", "Mooncake's authors", "engine-three", "8x4", "engine-four", "the bound", "engine-five idle", "fio, its own 70/30 mix", "engine-six, 70/30"} {
		if !strings.Contains(all+"\n", want) {
			t.Errorf("the picture does not have %q", want)
		}
	}
	if err := WriteSVG(io.Discard, Report{}); err == nil {
		t.Error("a report without figures was drawn")
	}
}
