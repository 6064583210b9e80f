// SPDX-License-Identifier: Apache-2.0

package main

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rawblockd/rawblockd/config"
	"github.com/rawblockd/rawblockd/internal/testdev"
)

// blocks returns the README's code blocks after the mark: all up to the next mark.
func blocks(t *testing.T, mark string) []string {
	t.Helper()
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, found := strings.Cut(string(text), "<!-- test: "+mark+" -->")
	rest, _, _ = strings.Cut(rest, "<!-- test: ")
	var out []string
	for i, part := range strings.Split(rest, "```") {
		if i%2 == 1 {
			_, code, _ := strings.Cut(part, "\n")
			out = append(out, code)
		}
	}
	if !found || len(out) == 0 {
		t.Fatalf("README has no code after the mark %q", mark)
	}
	return out
}

// shell runs a script as a reader of README would, in dir, with rawblockd on the path
// and as bin/rawblockd.
func shell(t *testing.T, dir, script string, env ...string) (string, error) {
	t.Helper()
	cmd := shellCommand(t, dir, script, env...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

func shellCommand(t *testing.T, dir, script string, env ...string) *exec.Cmd {
	t.Helper()
	for _, tool := range []string{"bash", "curl", "jq"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed: what README says cannot be run", tool)
		}
	}
	self, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	bin := filepath.Join(dir, "bin")
	if err := os.MkdirAll(bin, 0o755); err != nil {
		t.Fatal(err)
	}
	if err := os.Symlink(self, filepath.Join(bin, "rawblockd")); err != nil && !errors.Is(err, fs.ErrExist) {
		t.Fatal(err)
	}
	cmd := exec.Command("bash", "-c", script) // not of the test's context: it is ended by a cleanup
	cmd.Dir = dir
	cmd.Env = append(append(os.Environ(), beDaemon+"=1", "PATH="+bin+":"+os.Getenv("PATH")), env...)
	return cmd
}

// README's quick start, as it stands there: what is started in one shell, and what is
// typed in another. Only the folder is the test's own, and the ports.
func TestReadmeTry(t *testing.T) {
	dir := shortDir(t)
	code := blocks(t, "try")
	first, second := code[0], code[1]
	build, serveLine, ok := strings.Cut(first, "\n")
	if !ok || build != "make build" || !strings.HasPrefix(serveLine, "bin/rawblockd serve --dev /tmp/rb ") {
		t.Fatalf("README begins otherwise: %q", first)
	}
	if makefile, err := os.ReadFile("../../Makefile"); err != nil || !strings.Contains(string(makefile), "-o bin/rawblockd ./cmd/rawblockd") {
		t.Errorf("make build does not make bin/rawblockd: %v", err)
	}
	here := strings.NewReplacer("/tmp/rb", filepath.Join(dir, "rb"))

	daemon := shellCommand(t, dir, "exec "+here.Replace(serveLine), "RAWBLOCKD_LISTEN_HTTP=127.0.0.1:0", "RAWBLOCKD_LISTEN_ADMIN=127.0.0.1:0")
	log := newSignalWriter("msg=serving")
	daemon.Stderr = log
	if err := daemon.Start(); err != nil {
		t.Fatal(err)
	}
	exited := make(chan error, 1)
	go func() { exited <- daemon.Wait() }()
	t.Cleanup(func() {
		_ = daemon.Process.Signal(unix.SIGTERM)
		if err := <-exited; err != nil {
			t.Errorf("the daemon ended with %v: %s", err, log)
		}
	})
	select {
	case <-log.seen:
	case err := <-exited:
		exited <- err
		t.Fatalf("serve: %v: %s", err, log)
	}

	out, err := shell(t, dir, "set -e\n"+here.Replace(second)+"! bin/rawblockd get greeting")
	if err != nil || !strings.Contains(out, "\nhello\n") || !strings.Contains(out, "online") || !strings.HasSuffix(out, ": no such key\n") {
		t.Errorf("%v:\n%s", err, out)
	}

	sock := "S=" + filepath.Join(dir, "rb", "rawblockd.sock")
	addr := "RAWBLOCKD_ADDR=unix:" + filepath.Join(dir, "rb", "rawblockd.sock")
	t.Run("objects", func(t *testing.T) { readmeObjects(t, dir, sock) })
	t.Run("verbs", func(t *testing.T) { readmeVerbs(t, dir, addr) })
	t.Run("completion", func(t *testing.T) {
		bash, _, _ := strings.Cut(blocks(t, "completion")[0], "\n")
		out, err := shell(t, dir, "set -e\n"+bash+"\nrawblockd __complete drain ''", addr)
		if err != nil || !strings.Contains(out, "dev") {
			t.Errorf("%v:\n%s", err, out)
		}
	})
}

// Single objects with curl.
func readmeObjects(t *testing.T, dir, sock string) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "README.md"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	out, err := shell(t, dir, "set -e\ncurl() { command curl -sS --fail-with-body \"$@\"; }\n"+blocks(t, "objects")[0], sock)
	if err != nil || !strings.HasPrefix(out, `{"status":"ok",`) || !strings.Contains(out, string(text)) || !strings.HasSuffix(out, `{"status":"ok"}`+"\n") {
		t.Errorf("%v:\n%.2000s", err, out)
	}
}

// Each line of the examples works by itself. That of events has no end by itself.
func readmeVerbs(t *testing.T, dir, addr string) {
	const endless = `rawblockd() { if [ "$1" = events ]; then command rawblockd "$@" --once; else command rawblockd "$@"; fi; }`
	n := 0
	for line := range strings.Lines(blocks(t, "verbs")[0]) {
		n++
		out, err := shell(t, dir, "set -o pipefail\n"+endless+"\n"+line, addr)
		if code := exitCode(err); code != exitOK {
			t.Errorf("%s: exit code %d:\n%s", line, code, out)
		}
	}
	if n < 5 {
		t.Errorf("found %d lines", n)
	}
}

func exitCode(err error) int {
	var exit *exec.ExitError
	switch {
	case err == nil:
		return exitOK
	case errors.As(err, &exit):
		return exit.ExitCode()
	}
	return -1
}

// The configuration that README shows is one.
func TestReadmeConfig(t *testing.T) {
	path := filepath.Join(t.TempDir(), "rawblockd.yaml")
	if err := os.WriteFile(path, []byte(blocks(t, "yaml")[0]), 0o600); err != nil {
		t.Fatal(err)
	}
	if out := ok(t, "config", "check", "--config", path); out == "" {
		t.Error("it says nothing")
	}
}

// Every verb has its row in README, and every row is a verb.
func TestReadmeNamesVerbs(t *testing.T) {
	text, err := os.ReadFile("../../README.md")
	if err != nil {
		t.Fatal(err)
	}
	_, table, _ := strings.Cut(string(text), "## The verbs")
	table, _, _ = strings.Cut(table, "```")
	rows := map[string]bool{}
	for _, m := range regexp.MustCompile("(?m)^\\|(( `[a-z ]+`,?)+) \\|").FindAllStringSubmatch(table, -1) {
		for _, name := range regexp.MustCompile("`([a-z]+)").FindAllStringSubmatch(m[1], -1) {
			rows[name[1]] = true
		}
	}
	help := ok(t, "--help")
	verbs := map[string]bool{"version": true, "help": true, "completion": true} // which the text has, or every program
	for _, m := range regexp.MustCompile(`(?m)^  ([a-z]+)  `).FindAllStringSubmatch(help, -1) {
		if !verbs[m[1]] && !rows[m[1]] {
			t.Errorf("README's table does not have the verb %s", m[1])
		}
		verbs[m[1]] = true
	}
	for name := range rows {
		if !verbs[name] {
			t.Errorf("README's table has %s, which is no verb", name)
		}
	}
	if len(rows) < 20 {
		t.Errorf("found %d rows", len(rows))
	}
}

// The README's main job, through curl alone, on 4 GiB devices with sectors of
// 512 and of 4096 bytes. README says what it prints.
func TestReadmeCurl(t *testing.T) {
	for _, tool := range []string{"bash", "curl", "jq", "cmp"} {
		if _, err := exec.LookPath(tool); err != nil {
			t.Skipf("%s is not installed: the README's curl block cannot run", tool)
		}
	}
	main := blocks(t, "curl")
	code, want := main[0], main[1]
	for _, sector := range []int{512, 4096} {
		t.Run(fmt.Sprint(sector), func(t *testing.T) {
			device := testdev.Loop(t, 4<<30, sector)
			ok(t, "init", device)
			dir := shortDir(t)
			c := config.Dev(dir)
			c.Listen.HTTP, c.Listen.Admin = "", ""
			c.Meta.MinFree = config.MiB
			c.Slabs[0].Device = device
			serve(t, "--config", write(t, c))

			cmd := exec.CommandContext(t.Context(), "bash", "-c", code)
			cmd.Env = append(os.Environ(), "S="+filepath.Join(dir, "rawblockd.sock"), "TMPDIR="+t.TempDir())
			got, err := cmd.CombinedOutput()
			if err != nil || string(got) != want {
				t.Errorf("%v: printed\n%s\nREADME says\n%s", err, got, want)
			}
		})
	}
}
