// SPDX-License-Identifier: Apache-2.0

package main

import (
	"os/exec"
	"strings"
	"testing"
)

// offered is what a shell would offer behind args, and cobra's directive.
func offered(t *testing.T, args ...string) (names []string, directive string) {
	t.Helper()
	r := command(t, append([]string{"__complete"}, args...)...)
	lines := strings.Split(strings.TrimSuffix(r.out, "\n"), "\n")
	if r.code != exitOK || len(lines) == 0 {
		t.Fatalf("__complete %q: %+v", args, r)
	}
	return lines[:len(lines)-1], lines[len(lines)-1]
}

// TestCompletionAsksTheDaemon: names of namespaces, slabs and leases come from
// the daemon that the flags name.
func TestCompletionAsksTheDaemon(t *testing.T) {
	_, addr := serveIn(t, shortDir(t))
	ok(t, "namespace", "set", "other", "--addr", addr)
	if r := commandWith(t.Context(), "x", "put", "k", "--addr", addr); r.code != exitOK {
		t.Fatalf("put: %+v", r)
	}
	ok(t, "pin", "k", "--owner", "me", "--addr", addr)
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"get", "--addr", addr, "-n", ""}, "default,other"},
		{[]string{"get", "--addr", addr, "--namespace", "ot"}, "other"},
		{[]string{"clear", "--addr=" + addr, "-n", "d"}, "default"},
		{[]string{"namespace", "show", "--addr", addr, ""}, "default,other"},
		{[]string{"namespace", "delete", "--addr", addr, "o"}, "other"},
		{[]string{"namespace", "delete", "--addr", addr, "other", ""}, ""},
		{[]string{"drain", "--addr", addr, ""}, "dev"},
		{[]string{"resume", "--addr", addr, "d"}, "dev"},
		{[]string{"resume", "--addr", addr, "x"}, ""},
		{[]string{"scrub", "--addr", addr, ""}, "dev"},
		{[]string{"get", "--addr", addr, ""}, ""},
	} {
		names, directive := offered(t, tt.args...)
		if got := strings.Join(names, ","); got != tt.want || directive != ":4" { // 4: no files
			t.Errorf("%q: got %q, %s, want %q", tt.args, got, directive, tt.want)
		}
	}
	if names, _ := offered(t, "namespace", "set", "n", "--addr", addr, "--slabs", "x,d"); strings.Join(names, "|") != "x,dev" {
		t.Errorf("slabs: got %q", names)
	}
	names, _ := offered(t, "leases", "show", "--addr", addr, "")
	if len(names) != 1 || !strings.HasSuffix(names[0], "\tdefault me") {
		t.Errorf("leases: got %q", names)
	}
	t.Setenv("RAWBLOCKD_ADDR", addr)
	if names, _ := offered(t, "drain", ""); strings.Join(names, ",") != "dev" {
		t.Errorf("$RAWBLOCKD_ADDR: got %q", names)
	}
}

// TestCompletionWithoutADaemon offers nothing, and says nothing.
func TestCompletionWithoutADaemon(t *testing.T) {
	for _, args := range [][]string{
		{"get", "--addr", "unix:/nonexistent/sock", "-n", ""}, {"drain", "--addr", "unix:/nonexistent/sock", ""}, {"drain", "--addr", "ftp://x", ""},
	} {
		names, directive := offered(t, args...)
		if len(names) != 0 || directive != ":4" {
			t.Errorf("%q: got %q, %s", args, names, directive)
		}
	}
}

// TestCompletionOfWords: verbs, and what flags of few words take.
func TestCompletionOfWords(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"na"}, "namespace\tList, show, make, change and delete namespaces"},
		{[]string{"leases", "re"}, "release\tEnd leases, whatever namespace they are in|renew\tLet a lease last for its time from now on"},
		{[]string{"events", "--only", "s"}, "snapshot|stored|synced"},
		{[]string{"events", "--only", "idle,re"}, "idle,removed"},
		{[]string{"init", "--slot-size", "1"}, "16MiB|1MiB"},
		{[]string{"events", "--addr", "http://127.0.0.1:9201"}, "http://127.0.0.1:9201"},
	} {
		names, _ := offered(t, tt.args...)
		if got := strings.Join(names, "|"); got != tt.want {
			t.Errorf("%q: got %q, want %q", tt.args, got, tt.want)
		}
	}
	if _, directive := offered(t, "doctor", "--config", ""); directive != ":8" { // files with these endings
		t.Errorf("--config: got %s", directive)
	}
	if _, directive := offered(t, "put", "k", ""); directive != ":0" { // files
		t.Errorf("put k: got %s", directive)
	}
	if _, directive := offered(t, "serve", "--dev", ""); directive != ":16" { // folders
		t.Errorf("--dev: got %s", directive)
	}
}

// TestCompletionScripts: the shells accept them.
func TestCompletionScripts(t *testing.T) {
	for _, shell := range []string{"bash", "zsh", "fish"} {
		script := ok(t, "completion", shell)
		if !strings.Contains(script, "rawblockd") {
			t.Errorf("%s: got %q", shell, script)
		}
		path, err := exec.LookPath(shell)
		if err != nil {
			t.Logf("%s is not installed: its script was not parsed", shell)
			continue
		}
		cmd := exec.CommandContext(t.Context(), path, "-n")
		cmd.Stdin = strings.NewReader(script)
		if out, err := cmd.CombinedOutput(); err != nil {
			t.Errorf("%s -n: %v: %s", shell, err, out)
		}
	}
}
