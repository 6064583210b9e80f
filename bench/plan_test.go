// SPDX-License-Identifier: Apache-2.0

package bench

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/rawblockd/rawblockd/ioengine"
)

func goodPlan() Plan {
	return Plan{
		Device: "/dev/x", Sizes: []int64{4 << 10}, LayoutSize: 24 << 20, Depths: []int{32}, Ops: []ioengine.Dir{ioengine.Read},
		Names: []string{"pread"}, Throughput: true, Modes: []string{Rolling}, Protocol: Protocol{Window: time.Second, Time: time.Minute},
		Engines: map[string]MakeEngine{"pread": func(dev *ioengine.File, depth int, _ [][]byte) (ioengine.Engine, string, error) {
			return ioengine.NewPread(dev, ioengine.PreadOptions{Workers: depth}), "", nil
		}},
	}
}

func TestPlanRefuses(t *testing.T) {
	good := goodPlan()
	if err := good.Check(); err != nil {
		t.Fatal(err)
	}
	for want, spoil := range map[string]func(p *Plan){
		"size 2KiB":                       func(p *Plan) { p.Sizes = []int64{2 << 10} },
		"size 6KiB":                       func(p *Plan) { p.Sizes = []int64{6 << 10} },
		"size 84MiB":                      func(p *Plan) { p.LayoutSize = 84 << 20 },
		"depth 257":                       func(p *Plan) { p.Depths = []int{257} },
		"depth 0":                         func(p *Plan) { p.Depths = []int{0} },
		"a batch of 0":                    func(p *Plan) { p.Batches = []int{0} },
		`engine "uring"`:                  func(p *Plan) { p.Names = []string{"uring"} },
		"give --fio too":                  func(p *Plan) { p.Names = []string{FioFixed} },
		"window of 1ms":                   func(p *Plan) { p.Window = time.Millisecond },
		"nothing to measure":              func(p *Plan) { p.Ops = nil },
		"-1 pairs for a figure":           func(p *Plan) { p.Pairs = -1 },
		"beside of 24MiB takes 12312 MiB": func(p *Plan) { p.Beside, p.Sizes = true, []int64{24 << 20} },
		"mix of 80MiB":                    func(p *Plan) { p.Mix, p.Sizes, p.Depths = true, []int64{80 << 20}, []int{64} },
		"layout 32x16":                    func(p *Plan) { p.Layouts = []Layout{{32, 16}} },
		`mode "barrier"`:                  func(p *Plan) { p.Modes = []string{"barrier"} },
		"there is no figure":              func(p *Plan) { p.Throughput = false },
		"want a mode of throughput":       func(p *Plan) { p.Modes = nil },
		"no figure but rolling":           func(p *Plan) { p.Fio, p.Names, p.Modes = &Fio{}, []string{"pread", FioFixed}, []string{Queued} },
		"leave it out, or measure that":   func(p *Plan) { p.Fio, p.Names, p.Throughput, p.Mix = &Fio{}, []string{FioFixed}, false, true },
	} {
		p := goodPlan()
		spoil(&p)
		if err := p.Check(); !errors.Is(err, ErrPlan) || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want something with %q", err, want)
		}
	}
}

func TestPlanFitsTheDevice(t *testing.T) {
	p := goodPlan()
	if err := p.fit(ioengine.Geometry{Size: 16<<30 + 512, Block: 512}); err != nil || p.Area != DefaultArea {
		t.Errorf("large device: %v, area %d", err, p.Area)
	}
	p.Area = 0
	if err := p.fit(ioengine.Geometry{Size: 64<<20 + 512, Block: 512}); err != nil || p.Area != 64<<20 {
		t.Errorf("small device: %v, area %d, want whole MiB", err, p.Area)
	}
	p.Layouts, p.LayoutSize = []Layout{{1, 1}}, 40<<20
	if err := p.fit(ioengine.Geometry{Size: 64 << 20, Block: 512}); !errors.Is(err, ErrPlan) {
		t.Errorf("two payloads of 40 MiB in 64: %v", err)
	}
	p.Layouts = nil
	for size, area := range map[int64]int64{
		64 << 20:   512 << 10, // less than a MiB
		1<<20 - 1:  0,
		64<<20 + 1: 1<<20 - 1,
	} {
		p := p
		p.Area = area
		if err := p.fit(ioengine.Geometry{Size: size, Block: 512}); !errors.Is(err, ErrPlan) || !strings.Contains(err.Error(), "want room for two") {
			t.Errorf("%s of %s: %v, used %d", Size(area), Size(size), err, p.Area)
		}
	}
	// Two payloads fit the area, but not what is left of it when it is rounded down.
	p.Sizes, p.Area = []int64{768 << 10}, 3<<19
	if err := p.fit(ioengine.Geometry{Size: 64 << 20, Block: 512}); !errors.Is(err, ErrPlan) {
		t.Errorf("two payloads of 768 KiB in 1.5 MiB: %v, used %d", err, p.Area)
	}
	p.Sizes, p.Area = []int64{512 << 10}, 3<<19
	if err := p.fit(ioengine.Geometry{Size: 64 << 20, Block: 512}); err != nil || p.Area != 1<<20 {
		t.Errorf("two payloads of 512 KiB in 1.5 MiB: %v, area %d", err, p.Area)
	}
	p.Area = 1 << 40
	if err := p.fit(ioengine.Geometry{Size: 64 << 20, Block: 512}); !errors.Is(err, ErrPlan) {
		t.Errorf("an area larger than the device: %v", err)
	}
}

func TestParseLayout(t *testing.T) {
	if l, err := ParseLayout("8x4"); err != nil || l != (Layout{8, 4}) {
		t.Errorf("8x4: %v, %v", l, err)
	}
	for _, bad := range []string{"", "8", "8x", "x4", "0x4", "8x-4", "8x4x2", "1000x1000"} {
		if _, err := ParseLayout(bad); err == nil {
			t.Errorf("%q was taken for a layout", bad)
		}
	}
}

// As many payloads as keep the depth up: of small ones one op each, of large ones at
// least twice the depth in MiB.
func TestPayloadsFor(t *testing.T) {
	for _, tc := range []struct {
		size        int64
		depth, want int
	}{
		{4 << 10, 32, 32},
		{1 << 20, 256, 256},
		{24 << 20, 1, 1},
		{24 << 20, 32, 4},
		{80 << 20, 32, 2},
		{2 << 20, 4, 4},
	} {
		if got := payloadsFor(shape{size: tc.size, depth: tc.depth}); got != tc.want {
			t.Errorf("%s at depth %d: %d payloads, want %d", Size(tc.size), tc.depth, got, tc.want)
		}
	}
}
