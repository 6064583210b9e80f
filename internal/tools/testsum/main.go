// SPDX-License-Identifier: Apache-2.0

// Testsum runs passes of "go test -json", shows a line per package and the whole
// output of what failed, and closes with one line "N passed, N failed".
//
// Its arguments are those of go test; "--" begins another pass. A test counts
// once per pass. A package that fails without a failing test (it does not
// build, panics, runs out of time) counts as one failure, and so does a pass
// whose go command fails without naming anything.
//
// Concurrency: one goroutine reads, one child process writes.
//
// Errors: any failure ends the program with exit code 1 after all passes ran.
package main

import (
	"bufio"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"strings"
)

func main() {
	if !run(os.Args[1:], os.Stdout, os.Stderr) {
		os.Exit(1)
	}
}

// run reports whether everything passed.
func run(args []string, stdout, stderr io.Writer) bool {
	var total summary
	for _, pass := range split(args) {
		fmt.Fprintf(stdout, "== go test %s\n", strings.Join(flagsOf(pass), " "))
		total.add(runPass(pass, stdout, stderr))
	}
	if total.skipped > 0 {
		fmt.Fprintf(stdout, "%d skipped\n", total.skipped)
	}
	fmt.Fprintf(stdout, "%d passed, %d failed\n", total.passed, total.failed)
	return total.failed == 0 && total.passed > 0
}

// split cuts args at "--".
func split(args []string) [][]string {
	passes := [][]string{nil}
	for _, a := range args {
		if a == "--" {
			passes = append(passes, nil)
			continue
		}
		passes[len(passes)-1] = append(passes[len(passes)-1], a)
	}
	return passes
}

// flagsOf leaves the list of packages out of a pass's title.
func flagsOf(pass []string) []string {
	for i, a := range pass {
		if strings.Contains(a, "/") {
			return append(append([]string(nil), pass[:i]...), fmt.Sprintf("(%d packages)", len(pass)-i))
		}
	}
	return pass
}

func runPass(pass []string, stdout, stderr io.Writer) summary {
	cmd := exec.Command("go", append([]string{"test", "-json"}, pass...)...)
	cmd.Stderr = stderr
	out, err := cmd.StdoutPipe()
	if err != nil {
		fmt.Fprintln(stderr, "testsum:", err)
		return summary{failed: 1}
	}
	if err := cmd.Start(); err != nil {
		fmt.Fprintln(stderr, "testsum:", err)
		return summary{failed: 1}
	}
	s := summarize(out, stdout)
	if err := cmd.Wait(); err != nil && s.failed == 0 {
		fmt.Fprintln(stdout, "testsum: go test:", err)
		s.failed++
	}
	return s
}

// summary counts tests.
type summary struct{ passed, failed, skipped int }

func (s *summary) add(o summary) {
	s.passed += o.passed
	s.failed += o.failed
	s.skipped += o.skipped
}

// event is one line of go test -json.
type event struct {
	Action, Package, ImportPath, Test, Output string
	Elapsed                                   float64
}

// summarize reads one pass. Output is kept until a test's verdict is known and
// shown only for what failed.
func summarize(r io.Reader, stdout io.Writer) summary {
	var s summary
	kept := make(map[string]*strings.Builder) // by package and test; build output by import path
	failedIn := make(map[string]int)
	keep := func(key, text string) {
		b := kept[key]
		if b == nil {
			b = new(strings.Builder)
			kept[key] = b
		}
		b.WriteString(text)
	}
	show := func(key string) {
		if b := kept[key]; b != nil {
			fmt.Fprint(stdout, b.String())
			delete(kept, key)
		}
	}
	lines := bufio.NewReaderSize(r, 1<<20)
	for {
		line, err := lines.ReadBytes('\n')
		if len(line) > 0 {
			var e event
			if json.Unmarshal(line, &e) != nil {
				stdout.Write(line) // not JSON: a word of the go command itself
			} else {
				handle(&s, e, failedIn, keep, show, stdout)
			}
		}
		if err != nil {
			return s
		}
	}
}

func handle(s *summary, e event, failedIn map[string]int, keep func(key, text string), show func(key string), stdout io.Writer) {
	key := e.Package + "\x00" + e.Test
	switch e.Action {
	case "build-output":
		keep("build", e.Output)
	case "build-fail":
		show("build")
	case "output":
		keep(key, e.Output)
		if isCounts(e.Output) {
			fmt.Fprint(stdout, "      "+e.Output)
		}
	case "pass", "skip", "fail":
		if e.Test == "" {
			packageDone(s, e, key, failedIn, show, stdout)
			return
		}
		testDone(s, e, key, failedIn, show)
	}
}

// isCounts recognises the closing line of a campaign, which is worth seeing when
// all is well too.
func isCounts(line string) bool {
	name, rest, ok := strings.Cut(line, ": ")
	return ok && (name == "crash" || name == "mutants" || name == "kill") && strings.Contains(rest, "=")
}

func testDone(s *summary, e event, key string, failedIn map[string]int, show func(key string)) {
	switch e.Action {
	case "pass":
		s.passed++
	case "skip":
		s.skipped++
		show(key)
	case "fail":
		s.failed++
		failedIn[e.Package]++
		show(key)
	}
}

func packageDone(s *summary, e event, key string, failedIn map[string]int, show func(key string), stdout io.Writer) {
	if e.Action == "skip" {
		return // a package without tests
	}
	if e.Action == "pass" {
		fmt.Fprintf(stdout, "ok    %s %.1fs\n", e.Package, e.Elapsed)
		return
	}
	show("build")
	show(key)
	if failedIn[e.Package] == 0 {
		s.failed++
	}
	fmt.Fprintf(stdout, "FAIL  %s %.1fs\n", e.Package, e.Elapsed)
}
