// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// values takes the comments off what config print gives: each says where a
// value comes from, and that changes when it is loaded from there.
func values(printed string) string {
	var b strings.Builder
	for line := range strings.Lines(printed) {
		line, _, _ = strings.Cut(strings.TrimSuffix(line, "\n"), " # ")
		b.WriteString(line + "\n")
	}
	return b.String()
}

// TestConfigPrint: every value with its source; what is printed is the same
// configuration again, in both forms.
func TestConfigPrint(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "c.yaml")
	text := "slabs:\n- {name: a, device: /dev/a}\nlog:\n  level: warn\n"
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	t.Setenv("RAWBLOCKD_LIMITS_REQUESTS", "9")
	printed := ok(t, "config", "print", "--config", path)
	for _, want := range []string{
		"  level: warn # " + path + ":4\n", "  requests: 9 # $RAWBLOCKD_LIMITS_REQUESTS\n", "  slow: 1s # default\n",
		"  - name: a # " + path + ":2\n",
	} {
		if !strings.Contains(printed, want) {
			t.Errorf("no %q in\n%s", want, printed)
		}
	}
	asJSON := ok(t, "config", "print", "--config", path, "--json")
	var v struct {
		Limits struct{ Requests int }
		Log    struct{ Slow string }
	}
	if err := json.Unmarshal([]byte(asJSON), &v); err != nil || v.Limits.Requests != 9 || v.Log.Slow != "1s" {
		t.Errorf("--json: got %+v, %v", v, err)
	}
	t.Setenv("RAWBLOCKD_LIMITS_REQUESTS", "")
	os.Unsetenv("RAWBLOCKD_LIMITS_REQUESTS")
	for name, out := range map[string]string{"again.yaml": printed, "again.json": asJSON} {
		again := filepath.Join(dir, name)
		if err := os.WriteFile(again, []byte(out), 0o600); err != nil {
			t.Fatal(err)
		}
		if got, want := values(ok(t, "config", "print", "--config", again)), values(printed); got != want {
			t.Errorf("print of %s:\n%s\nwant\n%s", name, got, want)
		}
		if got := ok(t, "config", "print", "--config", again, "--json"); got != asJSON {
			t.Errorf("print --json of %s:\n%s\nwant\n%s", name, got, asJSON)
		}
	}
}

// TestConfigOfTheEnvironment: no file is needed where variables say it all.
func TestConfigOfTheEnvironment(t *testing.T) {
	if _, err := os.Stat(defaultConfig); err == nil {
		t.Skip(defaultConfig + " is there")
	}
	for _, verb := range []string{"check", "print"} {
		if r := command(t, "config", verb); r.code != exitUsage || !strings.Contains(r.errors, "slabs: there is none: add one with name and device; there is no "+defaultConfig) {
			t.Errorf("%s without anything: got %+v", verb, r)
		}
	}
	t.Setenv("RAWBLOCKD_SLABS", "[{name: a, device: /dev/a}]")
	if got := ok(t, "config", "print"); !strings.Contains(got, "device: /dev/a # $RAWBLOCKD_SLABS\n") {
		t.Errorf("print: got %s", got)
	}
	if got := ok(t, "config", "check"); !strings.HasSuffix(got, "ok: 1 slabs, 1 namespaces\n") {
		t.Errorf("check: got %q", got)
	}
}
