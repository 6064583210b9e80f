// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/spf13/cobra"
)

// clientVerbs returns every verb that talks to a daemon, as its words.
func clientVerbs(t *testing.T) map[string]*cobra.Command {
	t.Helper()
	out := map[string]*cobra.Command{}
	var walk func(cmd *cobra.Command)
	walk = func(cmd *cobra.Command) {
		if cmd.Flags().Lookup("addr") != nil {
			_, words, _ := strings.Cut(cmd.CommandPath(), " ")
			out[words] = cmd
		}
		for _, sub := range cmd.Commands() {
			walk(sub)
		}
	}
	walk((&cli{stdin: strings.NewReader(""), stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}}).root())
	return out
}

// arguments are what each verb needs at least.
var arguments = map[string][]string{
	"status": nil, "top": nil, "requests": nil, "ls": nil, "leases": nil, "leases list": nil, "namespace list": nil, "events": nil,
	"clear": {"--yes"}, "put": {"k"}, "get": {"k"}, "rm": {"k"}, "lookup": {"k"}, "touch": {"k"}, "explain": {"k"}, "pin": {"k"}, "unpin": {"id"},
	"leases show": {"id"}, "leases renew": {"id"}, "leases release": {"id"}, "namespace show": {"n"}, "namespace set": {"n"},
	"namespace delete": {"n"}, "drain": {"s"}, "resume": {"s"}, "scrub": {"s"},
}

// TestEveryClientVerb: a wrong flag, a missing or a surplus argument and a wrong
// address are wrong usage; a daemon that is not there is a failure. Each is one
// line that names the verb or the address.
func TestEveryClientVerb(t *testing.T) {
	nowhere := filepath.Join(t.TempDir(), "nobody.sock")
	for words := range clientVerbs(t) {
		args, known := arguments[words]
		if !known {
			t.Errorf("%s is not tested here: give it arguments", words)
			continue
		}
		with := func(more ...string) []string { return append(append(strings.Fields(words), args...), more...) }
		for _, tt := range []struct {
			args []string
			code int
			want string
		}{
			{with("--bogus"), exitUsage, words + ": unknown flag: --bogus"},
			{with("--addr"), exitUsage, words + ": flag needs an argument: --addr"},
			{with("--addr", "ftp://x"), exitUsage, `address "ftp://x": want unix:/path/of/socket`},
			{with("--addr", "unix:"+nowhere), exitFailed, "at unix:" + nowhere + ": dial unix " + nowhere + ": connect: no such file or directory; no daemon listens there: start one with rawblockd serve, or name another with --addr"},
			{with("--addr", "http://127.0.0.1:1"), exitFailed, "connection refused; no daemon listens there"},
		} {
			wantLine(t, commandWith(t.Context(), "x", tt.args...), tt.args, tt.code, tt.want)
		}
		if len(args) > 0 && args[0][0] != '-' {
			wantLine(t, command(t, strings.Fields(words)...), strings.Fields(words), exitUsage, words+": an argument is missing; usage: rawblockd "+words+" ")
		}
		if len(args) == 0 && words != "leases" {
			wantLine(t, command(t, with("surplus")...), with("surplus"), exitUsage, words+`: the argument "surplus" is one too many; usage: rawblockd `+words+" ")
		}
	}
	for words := range arguments {
		if clientVerbs(t)[words] == nil {
			t.Errorf("there is no verb %s", words)
		}
	}
}

// wantLine fails unless the command line ended with code, one line of error that
// says want, and nothing on stdout.
func wantLine(t *testing.T, r result, args []string, code int, want string) {
	t.Helper()
	line, more, _ := strings.Cut(r.errors, "\n")
	if r.code != code || !strings.HasPrefix(line, "rawblockd: ") || !strings.Contains(line, want) || r.out != "" || more != "" {
		t.Errorf("%v: got code %d, stdout %q and\n%s\nwant code %d and %q", args, r.code, r.out, r.errors, code, want)
	}
}

// TestVerbsOfGroups: what is nothing without a verb says which there are.
func TestVerbsOfGroups(t *testing.T) {
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"namespace"}, "namespace: a verb is missing: want one of delete, list, set, show"},
		{[]string{"namespace", "lst"}, `namespace: unknown verb "lst": want one of delete, list, set, show; did you mean list or set?`},
		{[]string{"leases", "relase"}, `leases: unknown verb "relase": want one of list, release, renew, show; did you mean release?`},
		{[]string{"namespace", "set", "n", "--quota", "1Mb"}, `"--quota" flag: "1Mb" has the unknown unit "Mb"`},
		{[]string{"namespace", "set", "n", "--ttl", "5"}, `"--ttl" flag: want a number with one of the units ms, s, m, h, or 0 for none`},
		{[]string{"namespace", "set", "n", "--ttl", "-5s"}, `"--ttl" flag: want whole milliseconds`},
		{[]string{"namespace", "set", "n", "--ttl", "1us"}, `"--ttl" flag: want whole milliseconds`},
		{[]string{"namespace", "show", ""}, "the name is empty"},
		{[]string{"leases", "renew", "id", "--ttl", "0"}, `"--ttl" flag: want more than 0`},
		{[]string{"touch", "k", "--ttl", "0"}, `"--ttl" flag: want more than 0`},
		{[]string{"ls", "--limit", "-3"}, "ls: --limit -3: want 0, for all, or more"},
		{[]string{"events", "--since", "5"}, "events: --since and --instance belong together"},
		{[]string{"events", "--instance", "i"}, "events: --since and --instance belong together"},
		{[]string{"events", "--only", "stored,gone"}, `events: --only "gone": want one or more of snapshot, stored`},
		{[]string{"events", "--since", "x"}, `"--since" flag`},
		{[]string{"top", "--interval", "1ms"}, "top: --interval 1ms: want at least 10ms"},
		{[]string{"top", "--interval", "x"}, `"--interval" flag`},
	} {
		wantLine(t, command(t, tt.args...), tt.args, exitUsage, tt.want)
	}
}

// TestReadmeNamesEveryVerb: the table of verbs is of those there are.
func TestReadmeNamesEveryVerb(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "## The verbs\n")
	section, _, found := strings.Cut(rest, "\n## ")
	if !found {
		t.Fatal("README has no section on the verbs")
	}
	for _, cmd := range (&cli{stdin: strings.NewReader(""), stdout: &bytes.Buffer{}, stderr: &bytes.Buffer{}}).root().Commands() {
		switch cmd.Name() {
		case "help", "version", "completion":
			continue
		}
		if !strings.Contains(section, "`"+cmd.Name()) {
			t.Errorf("README does not say what %s is for", cmd.Name())
		}
	}
}
