// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/rawblockd/rawblockd/ioengine"
)

// The sample is fio's own report of 50 ms of a 70/30 mix at 256 KiB, without the parts
// that are not read.
func TestParseFio(t *testing.T) {
	out, err := os.ReadFile(filepath.Join("testdata", "fio-randrw.json"))
	if err != nil {
		t.Fatal(err)
	}
	for _, before := range []string{"", "fio: a note in front of it\n"} {
		s, err := parseFio(append([]byte(before), out...))
		if err != nil {
			t.Fatal(err)
		}
		if s.By[ioengine.Read].Bytes != 116916224 || s.By[ioengine.Write].Bytes != 53739520 || s.Took != 51*time.Millisecond {
			t.Errorf("got %d and %d bytes in %v", s.By[ioengine.Read].Bytes, s.By[ioengine.Write].Bytes, s.Took)
		}
		if want := 17 * time.Millisecond; s.CPU != want { // 14 % and 20 % of 50 ms
			t.Errorf("CPU %v, want %v", s.CPU, want)
		}
		lat := pooled([]Sample{s}, ioengine.Read)
		if lat.TotalCount() != 445 {
			t.Errorf("%d latencies, want 445", lat.TotalCount())
		}
		if p99 := quantile(lat, 99); math.Abs(p99/774144-1) > 0.002 { // as fio's own
			t.Errorf("p99 %v ns, want 774144", p99)
		}
	}
}

func TestParseFioRefuses(t *testing.T) {
	for out, want := range map[string]string{
		"fio: failed to open /dev/x: No such device\n": "failed to open",
		"{\"jobs\": [": "cannot be read",
		`{"jobs":[]}`:  "has 0 jobs",
		`{"jobs":[{"error":5,"read":{"io_bytes":1,"runtime":1}}]}`: "errno 5",
		`{"jobs":[{"read":{"io_bytes":0,"runtime":100}}]}`:         "nothing completed",
	} {
		if _, err := parseFio([]byte(out)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%q: got %v, want something with %q", out, err, want)
		}
	}
}

// What decides whether the comparison is fair is in the command line.
func TestFioArguments(t *testing.T) {
	j := job{dir: ioengine.Write, size: 24 << 20, depth: 32, area: 100 << 20, filename: "/dev/disk/by-path/pci-0000:00", seed: 7}
	got := j.args(Protocol{Window: time.Second, Ramp: 100 * time.Millisecond})
	for _, want := range []string{
		"--ioengine=io_uring", "--direct=1", "--rw=randwrite", "--bs=25165824", "--iodepth=32", "--size=100663296", "--norandommap=1",
		"--time_based=1", "--runtime=1000ms", "--ramp_time=100ms", "--lat_percentiles=1", `--filename=/dev/disk/by-path/pci-0000\:00`, "--allow_file_create=0",
	} {
		if !slices.Contains(got, want) {
			t.Errorf("no %s in %v", want, got)
		}
	}
	j.mixed, j.fixed = true, true
	got = j.args(Protocol{})
	for _, want := range []string{"--rw=randrw", "--rwmixread=70", "--fixedbufs=1"} {
		if !slices.Contains(got, want) {
			t.Errorf("no %s in %v", want, got)
		}
	}
}

func TestFindFioSaysWhatToDo(t *testing.T) {
	t.Setenv("PATH", t.TempDir())
	if _, err := FindFio(t.Context()); !errors.Is(err, ErrFio) || !strings.Contains(err.Error(), "install the package fio") {
		t.Errorf("got %v", err)
	}
}
