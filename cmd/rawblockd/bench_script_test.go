// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// benchScript runs scripts/bench.sh with commands in the place of the real ones, and
// returns the command lines of the benches and what was said.
func benchScript(t *testing.T, losetup string) (lines []string, said string) {
	t.Helper()
	root := t.TempDir()
	script, err := os.ReadFile("../../scripts/bench.sh")
	if err != nil {
		t.Fatal(err)
	}
	for path, text := range map[string]string{
		"scripts/bench.sh": string(script),
		"bin/rawblockd":    "#!/bin/sh\necho \"$*\" >>calls\necho 'bench: 3 figures: 1 met, 1 missed, 1 undecided, 0 without a target'\n",
		"path/losetup":     "#!/bin/sh\n" + losetup,
		"path/fallocate":   "#!/bin/sh\n: >\"$3\"\n",
		"path/fio":         "#!/bin/sh\n",
	} {
		path = filepath.Join(root, path)
		if err := os.MkdirAll(filepath.Dir(path), 0o755); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), "bash", filepath.Join(root, "scripts/bench.sh"))
	cmd.Env = []string{"PATH=" + filepath.Join(root, "path") + ":" + os.Getenv("PATH"), "TMPDIR=" + root}
	var out, errs bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &errs
	if err := cmd.Run(); err != nil {
		t.Fatalf("%v: %s", err, &errs)
	}
	if want := "bench: 9 figures: 3 met, 3 missed, 3 undecided, 0 without a target\n"; !strings.HasSuffix(out.String(), want) {
		t.Errorf("closes with %q, want %q", out.String(), want)
	}
	calls, err := os.ReadFile(filepath.Join(root, "calls"))
	if err != nil {
		t.Fatal(err)
	}
	return strings.Split(strings.TrimSpace(string(calls)), "\n"), errs.String()
}

// Each of its benches has time for enough rounds, and its own device needs no question.
// Where root has no loop device the file itself is measured.
func TestBenchScript(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root is given loop devices")
	}
	for losetup, device := range map[string]string{
		"case \"$*\" in *--find*) echo /dev/loop99;; esac\n":              "--device /dev/loop99 ",
		"echo 'losetup: cannot find an unused loop device' >&2; exit 1\n": "/bench.img ",
	} {
		lines, said := benchScript(t, losetup)
		if len(lines) != 3 {
			t.Fatalf("benches %q", lines)
		}
		for _, line := range lines {
			if !strings.Contains(line, device) || !strings.Contains(line, " --window 200ms ") || !strings.Contains(line, " --time 20s ") || !strings.Contains(line, " --yes ") {
				t.Errorf("bench %q, want one of %s", line, device)
			}
		}
		if got := strings.Contains(said, "the file itself is measured"); got != strings.Contains(losetup, "exit 1") {
			t.Errorf("said %q", said)
		}
	}
}
