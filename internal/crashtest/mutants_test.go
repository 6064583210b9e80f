// SPDX-License-Identifier: Apache-2.0

//go:build mutants

package crashtest

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
	"testing"
	"time"

	"github.com/rawblockd/rawblockd/internal/mutant"
)

var (
	mutantFlag = flag.String("mutant", "", "of TestHunt: the cure that is off")
	boundFlag  = flag.Int64("bound", 60_000, "crash points after which a mutant counts as not found")
)

// foundLine is what a hunt prints; the table's numbers come from it.
const foundLine = "hunt: points=%d kind=%s\n"

// progressLine is printed after each point, for the case that a panic is the end.
const progressLine = "hunt: at=%d\n"

// TestMutants switches each cure off in turn and wants the campaign to notice.
// Each hunt is a process of its own: a mutant may panic or wedge the store, and
// the switch is one for the whole process.
func TestMutants(t *testing.T) {
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	var table strings.Builder
	fmt.Fprintf(&table, "%-8s %-24s %s\n", "mutant", "crash points until found", "as")
	found := 0
	for _, id := range mutant.All() {
		points, as, err := hunt(self, id.String())
		if err != nil {
			t.Errorf("%v: %v", id, err)
			fmt.Fprintf(&table, "%-8s %-24s %s\n", id, "not found", as)
			continue
		}
		found++
		fmt.Fprintf(&table, "%-8s %-24s %s\n", id, points, as)
	}
	fmt.Print(table.String())
	fmt.Printf("mutants: found=%d of=%d\n", found, len(mutant.All()))
}

// hunt runs TestHunt in a child process.
func hunt(self, name string) (points, as string, err error) {
	cmd := exec.Command(self, "-test.run", "^TestHunt$", "-test.timeout", "10m", "-mutant", name,
		"-bound", fmt.Sprint(*boundFlag), "-seed", fmt.Sprint(*seedFlag))
	out, runErr := cmd.CombinedOutput()
	var n int64
	for line := range strings.Lines(string(out)) {
		if _, err := fmt.Sscanf(line, foundLine, &n, &as); err == nil {
			return fmt.Sprint(n), as, nil
		}
		fmt.Sscanf(line, progressLine, &n) //nolint:errcheck // other lines are no progress
	}
	if exit := new(exec.ExitError); errors.As(runErr, &exit) && strings.Contains(string(out), "panic: ") {
		_, text, _ := strings.Cut(string(out), "panic: ")
		text, _, _ = strings.Cut(text, "\n")
		return fmt.Sprint(n), "panic: " + text, nil
	}
	return "", "", fmt.Errorf("not found: %w\n%s", errors.Join(runErr), tail(string(out)))
}

// tail is the end of a child's output.
func tail(s string) string { return s[max(0, len(s)-2000):] }

// TestHunt runs the campaign until the first finding, with one cure off.
func TestHunt(t *testing.T) {
	if *mutantFlag == "" {
		t.Skip("TestMutants runs it, one process per mutant")
	}
	for _, id := range mutant.All() {
		if id.String() == *mutantFlag {
			mutant.Set(id)
		}
	}
	cfg := Config{
		Points: *boundFlag, Seed: *seedFlag, FaultShare: 12, Stride: *strideFlag, MaxFinding: 1,
		Log: io.Discard, Hang: 2 * time.Minute, Progress: func(n int64) { fmt.Printf(progressLine, n) },
	}
	if *mutantFlag == mutant.H34.String() {
		// The cure matters only where a commit meets the failure.
		cfg.FaultShare, cfg.LogFaults = 100, true
	}
	report, err := Run(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if report.Findings() == 0 {
		t.Fatalf("%v", &report)
	}
	as, _, _ := strings.Cut(report.First, "\n")
	fmt.Println(as)
	for _, k := range kinds() {
		if report.Found[string(k)] > 0 {
			fmt.Printf(foundLine, report.Points, k)
			return
		}
	}
}
