// SPDX-License-Identifier: Apache-2.0

package crashtest

import (
	"fmt"
	"io"
	"runtime"
	"runtime/debug"
	"sync"
	"time"

	"github.com/rawblockd/rawblockd/ioengine"
)

// Config is a campaign.
type Config struct {
	Points     int64  // crashes to judge, at least
	Seed       uint64 // of the first run; the next ones count up
	Point      uint64 // only this hook of only this seed; 0: all
	Relaxed    bool
	FaultShare int    // percentage of runs with a fault of Pebble's files
	LogFaults  bool   // only those of the log, which every commit meets
	Fault      string // only this one
	Faulty     int64  // runs that must have hit their fault, at least
	Stride     int    // one hook in so many is a crash
	MaxFinding int    // the campaign ends after so many
	Log        io.Writer
	Progress   func(points int64) // after each point; may be nil
	// Hang is how long one run may take before the campaign ends the process
	// with every goroutine's stack.
	Hang time.Duration
}

// faults lists the faults a run may draw.
func (c *Config) faults() []fault {
	var out []fault
	for _, f := range faults() {
		if (!c.LogFaults || !f.rare) && (c.Fault == "" || c.Fault == f.name) {
			out = append(out, f)
		}
	}
	return out
}

// Report is what a campaign found.
type Report struct {
	Relaxed bool
	Points  int64
	Nested  int64 // of them crashes during recovery
	Seeds   int64
	Faulty  int64 // runs whose fault was hit
	Found   map[string]int64
	First   string // the first finding

	Answers map[string]int64 // of the living store, by operation and status
}

// Findings returns the number of findings of all kinds.
func (r *Report) Findings() int64 {
	var n int64
	for _, k := range r.Found {
		n += k
	}
	return n
}

// String is the closing line.
func (r *Report) String() string {
	line := fmt.Sprintf("crash: points=%d", r.Points)
	for _, k := range kinds() {
		line += fmt.Sprintf(" %s=%d", k, r.Found[string(k)])
	}
	return line + fmt.Sprintf(" mode=%s runs=%d faults=%d nested=%d", mode(r.Relaxed), r.Seeds, r.Faulty, r.Nested)
}

// mode names a durability mode.
func mode(relaxed bool) string {
	if relaxed {
		return "relaxed"
	}
	return "sync"
}

// campaign shares the work of one Config.
type campaign struct {
	cfg    Config
	points chan point

	mu sync.Mutex
	// +checklocks:mu
	seeds uint64 // handed out
	// +checklocks:mu
	report Report
	// +checklocks:mu
	err error
}

// Run carries a campaign out.
func Run(cfg Config) (Report, error) {
	c := &campaign{cfg: cfg, points: make(chan point, 2)}
	c.report = Report{Relaxed: cfg.Relaxed, Found: make(map[string]int64), Answers: make(map[string]int64)}
	var runners, verifiers sync.WaitGroup
	for range runtime.GOMAXPROCS(0) {
		runners.Go(c.runs)
		verifiers.Go(c.verify)
	}
	runners.Wait()
	close(c.points)
	verifiers.Wait()
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.report, c.err
}

// next hands out a seed while the campaign goes on.
func (c *campaign) next() (uint64, bool) {
	c.mu.Lock()
	defer c.mu.Unlock()
	enough := c.report.Points >= c.cfg.Points && c.report.Faulty >= c.cfg.Faulty
	over := enough || c.report.Findings() >= int64(c.cfg.MaxFinding) || c.err != nil
	if over || c.cfg.Point > 0 && c.seeds > 0 {
		return 0, false
	}
	c.seeds++
	return c.cfg.Seed + c.seeds - 1, true
}

// runs carries out one seed after the other.
func (c *campaign) runs() {
	buffers, err := ioengine.NewArena(arenaSize)
	if err != nil {
		c.fail(err)
		return
	}
	for seed, ok := c.next(); ok; seed, ok = c.next() {
		if err := c.run(seed, buffers); err != nil {
			c.fail(fmt.Errorf("seed %d: %w", seed, err))
			return
		}
	}
	if err := buffers.Close(); err != nil {
		c.found(nil, finding{kindBroken, "buffers were not given back: " + err.Error()})
	}
}

func (c *campaign) run(seed uint64, buffers *ioengine.Arena) error {
	s := newSetup(seed, c.cfg.Relaxed, c.cfg.FaultShare, c.cfg.faults())
	watchdog := time.AfterFunc(c.cfg.Hang, func() { c.hang(s) })
	defer watchdog.Stop()
	r := &run{
		setup: s, buffers: buffers,
		chosen: func(n uint64) bool {
			if c.cfg.Point > 0 {
				return n == c.cfg.Point
			}
			return mix(seed^mix(n))%uint64(c.cfg.Stride) == 0
		},
		take:   func(p point) { c.points <- p },
		report: func(p *point, f finding) { c.found(p, f) },
		tally: func(op, word string) {
			c.mu.Lock()
			defer c.mu.Unlock()
			c.report.Answers[op+" "+word]++
		},
	}
	err := r.do()
	c.mu.Lock()
	c.report.Seeds++
	if r.faulty {
		c.report.Faulty++
	}
	c.mu.Unlock()
	return err
}

// hang reports a run that does not end, which no test could survive.
func (c *campaign) hang(s *setup) {
	debug.SetTraceback("all")
	panic(fmt.Sprintf("crash campaign: seed %d (relaxed: %v, fault %q) does not end", s.seed, s.relaxed, s.fault.name))
}

// verify judges points.
func (c *campaign) verify() {
	buffers, err := ioengine.NewArena(arenaSize)
	if err != nil {
		c.fail(err)
		return
	}
	v := &verifier{buffers: buffers}
	for p := range c.points {
		watchdog := time.AfterFunc(c.cfg.Hang, func() { c.hang(p.setup) })
		findings := v.check(p, 0)
		watchdog.Stop()
		for _, f := range findings {
			c.found(&p, f)
		}
		c.mu.Lock()
		c.report.Points++
		if c.cfg.Progress != nil {
			c.cfg.Progress(c.report.Points)
		}
		c.mu.Unlock()
	}
	c.mu.Lock()
	c.report.Nested += v.nested.Load()
	c.report.Points += v.nested.Load()
	c.mu.Unlock()
	if err := buffers.Close(); err != nil {
		c.found(nil, finding{kindBroken, "buffers were not given back: " + err.Error()})
	}
}

func (c *campaign) found(p *point, f finding) {
	text := string(f.kind) + ": " + f.text
	if p != nil {
		text = fmt.Sprintf("%s: %s\n\trepeat with -mode %s -seed %d -point %d", p, text, mode(c.cfg.Relaxed), p.setup.seed, p.number)
	}
	c.mu.Lock()
	defer c.mu.Unlock()
	c.report.Found[string(f.kind)]++
	if c.report.First == "" {
		c.report.First = text
	}
	if c.report.Findings() <= int64(c.cfg.MaxFinding) {
		fmt.Fprintln(c.cfg.Log, text)
	}
}

// fail ends the campaign: it could not go on.
func (c *campaign) fail(err error) {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.err == nil {
		c.err = err
	}
}
