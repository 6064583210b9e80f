// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/internal/testdev"
)

// TestVerbs is the main job on the command line, across a restart.
func TestVerbs(t *testing.T) {
	dir := shortDir(t)
	s, addr := serveIn(t, dir)
	at := func(args ...string) []string { return append(args, "--addr", addr) }
	payload := bytes.Repeat([]byte("rawblockd"), 300_000) // two slots, no multiple of a block
	file := filepath.Join(t.TempDir(), "in")
	if err := os.WriteFile(file, payload, 0o600); err != nil {
		t.Fatal(err)
	}

	if got := ok(t, at("put", "big", file)...); got != "big: 2,700,000 bytes in 4.0 MiB of slots\n" {
		t.Errorf("put: got %q", got)
	}
	if r := commandWith(t.Context(), "hello", at("put", "small")...); r.code != exitOK {
		t.Errorf("put from stdin: %+v", r)
	}
	if r := command(t, at("put", "small", file)...); r.code != exitFailed || !strings.Contains(r.errors, "stored already; to replace it, give --overwrite") {
		t.Errorf("put again: got %+v", r)
	}
	if r := commandWith(t.Context(), "hallo", at("put", "small", "--overwrite", "--json")...); r.code != exitOK || !strings.Contains(r.out, `"slot_bytes": 2097152`) {
		t.Errorf("overwrite: got %+v", r)
	}
	if r := command(t, at("put", "dir", dir)...); r.code != exitFailed || !strings.Contains(r.errors, "not a regular file") {
		t.Errorf("put a directory: got %+v", r)
	}

	s.end()
	s, _ = serveIn(t, dir)
	if got := ok(t, at("get", "small")...); got != "hallo" {
		t.Errorf("get: got %q", got)
	}
	out := filepath.Join(t.TempDir(), "out")
	ok(t, at("get", "big", "-o", out)...)
	if got, err := os.ReadFile(out); err != nil || !bytes.Equal(got, payload) {
		t.Errorf("get -o: got %d bytes, %v", len(got), err)
	}
	if got := ok(t, at("get", "big", "--json")...); !strings.Contains(got, `"bytes": 2700000`) {
		t.Errorf("get --json: got %q", got)
	}
	if r := command(t, at("get", "none", "-o", out+"2")...); r.code != exitFailed || !strings.Contains(r.errors, "no such key") {
		t.Errorf("get of nothing: got %+v", r)
	}
	if names, _ := filepath.Glob(filepath.Dir(out) + "/*"); len(names) != 1 {
		t.Errorf("a failed get left %v", names)
	}

	if got, want := ok(t, at("ls")...), "big\nsmall\n"; !sameLines(got, want) {
		t.Errorf("ls: got %q, want %q", got, want)
	}
	if got := ok(t, at("ls", "-l", "--limit", "1")...); !regexp.MustCompile(`^ +[\d,]+  \d{4}-\d\d-\d\d \d\d:\d\d:\d\d  never +-       (big|small)\n$`).MatchString(got) {
		t.Errorf("ls -l: got %q", got)
	}
	testLeaseVerbs(t, at)

	var st api.StatusReport
	if err := json.Unmarshal([]byte(ok(t, at("status", "--json")...)), &st); err != nil || st.Entries != 0 || len(st.Slabs) != 1 {
		t.Errorf("status --json: got %+v, %v", st, err)
	}
	if n := st.Slabs[0].Slots; n.Free != n.Total {
		t.Errorf("after all was removed %d of %d slots are free", n.Free, n.Total)
	}
	if got := ok(t, at("status")...); !strings.Contains(got, ": serving\n0 entries") || !strings.Contains(got, "pread") {
		t.Errorf("status: got %s", got)
	}
	s.end()
	if r := command(t, at("status")...); r.code != exitFailed || !strings.Contains(r.errors, "no daemon listens there: start one with rawblockd serve") {
		t.Errorf("nobody there: got %+v", r)
	}
}

func sameLines(a, b string) bool {
	x, y := strings.Split(a, "\n"), strings.Split(b, "\n")
	if len(x) != len(y) {
		return false
	}
	for _, l := range x {
		if !strings.Contains("\n"+b, "\n"+l+"\n") && l != "" {
			return false
		}
	}
	return true
}

// testLeaseVerbs pins, shows that pins protect, and removes everything.
func testLeaseVerbs(t *testing.T, at func(...string) []string) {
	t.Helper()
	if got, want := ok(t, at("lookup", "big", "none")...), "ok       2,700,000  big   \nmissing  0          none  \n1 hits, leading run 1\n"; got != want {
		t.Errorf("lookup: got %q, want %q", got, want)
	}
	r := commandWith(t.Context(), "none\nbig\r\n\n", at("lookup", "-", "--prefix", "--json")...)
	if !strings.Contains(r.out, `"hits": 0`) {
		t.Errorf("lookup from stdin with --prefix: got %+v", r)
	}
	out := ok(t, at("lookup", "big", "small", "--lease", "--owner", "me", "--ttl", "1m")...)
	m := regexp.MustCompile(`lease ([0-9a-f]{32}): 2 entries until .* \(1m0s\)`).FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("lookup --lease: got %q", out)
	}
	if got := ok(t, at("leases")...); !strings.Contains(got, m[1]) || !strings.Contains(got, "me") {
		t.Errorf("leases: got %q", got)
	}
	if got := ok(t, at("leases", "--json")...); !strings.Contains(got, m[1]) {
		t.Errorf("leases --json: got %q", got)
	}
	if r := command(t, at("rm", "big", "none")...); r.code != exitFailed || !strings.Contains(r.out, "pinned") || !strings.Contains(r.errors, "1 of 2 keys failed") ||
		!strings.Contains(r.errors, "waits for its leases to end (rawblockd leases shows them") || !strings.Contains(r.errors, "or give --force") {
		t.Errorf("rm of a pinned key: got %+v", r)
	}
	if r := commandWith(t.Context(), "x", at("put", "big", "--overwrite")...); r.code != exitFailed || !strings.Contains(r.errors, "waits for its leases to end (rawblockd leases shows them") {
		t.Errorf("put of a pinned key: got %+v", r)
	}
	if r := commandWith(t.Context(), "x", at("put", "big")...); r.code != exitFailed || !strings.Contains(r.errors, "to replace it, give --overwrite") {
		t.Errorf("put of a key that is there: got %+v", r)
	}
	if got := ok(t, at("unpin", m[1], "big")...); got != "1 released, 0 stale\n" {
		t.Errorf("unpin one: got %q", got)
	}
	if got := ok(t, at("unpin", m[1])...); got != "1 released, 0 stale\n" {
		t.Errorf("unpin the rest: got %q", got)
	}
	if r := command(t, at("unpin", m[1])...); r.code != exitFailed || !strings.Contains(r.errors, "unknown lease") {
		t.Errorf("unpin again: got %+v", r)
	}
	if r := command(t, at("pin", "big", "none")...); r.code != exitFailed || !strings.Contains(r.out, "1 of 2 pinned\nlease ") {
		t.Errorf("pin: got %+v", r)
	}
	if got := ok(t, at("rm", "big", "small", "big", "--force", "--json")...); !strings.Contains(got, `"removed": 2`) {
		t.Errorf("rm --force did not remove both, once each: %s", got)
	}
}

// TestPlaces: what cannot be read or written is named as the user named it.
func TestPlaces(t *testing.T) {
	_, addr := serveIn(t, shortDir(t))
	dir := t.TempDir()
	empty, none := filepath.Join(dir, "empty"), filepath.Join(dir, "none")
	if err := os.WriteFile(empty, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if r := commandWith(t.Context(), "x", "put", "k", "--addr", addr); r.code != exitOK {
		t.Fatalf("put: %+v", r)
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"put", "n", none}, `put "n": read ` + none + `: no such file or directory`},
		{[]string{"put", "n", dir}, `put "n": ` + dir + ` is not a regular file`},
		{[]string{"put", "n", empty}, `put "n": ` + empty + ` is empty: a payload has at least one byte`},
		{[]string{"put", "n"}, `put "n": stdin is empty: a payload has at least one byte`},
		{[]string{"get", "k", "-o", dir}, `get "k": -o ` + dir + ` is a directory: name a file in it`},
		{[]string{"get", "k", "-o", "/nodir/x"}, `get "k": -o /nodir/x: write in the directory /nodir: no such file or directory`},
	} {
		r := command(t, append(tt.args, "--addr", addr)...)
		if r.code != exitFailed || !strings.HasPrefix(r.errors, "rawblockd: "+tt.want) || strings.Count(r.errors, "\n") != 1 {
			t.Errorf("%v: got %+v, want %s", tt.args, r, tt.want)
		}
	}
}

func TestInitAndInspect(t *testing.T) {
	path := filepath.Join(t.TempDir(), "slab.img")
	if r := command(t, "init", path); r.code != exitFailed || !strings.Contains(r.errors, "no such file") || !strings.Contains(r.errors, "--size") {
		t.Errorf("init of nothing: got %+v", r)
	}
	if got := ok(t, "init", path, "--size", "32MiB", "--slot-size", "1MiB", "--name", "first"); !strings.Contains(got, "is a slab now: incarnation ") || !strings.Contains(got, "slots of 1MiB") {
		t.Errorf("init: got %q", got)
	}
	if got := ok(t, "inspect", path); !strings.Contains(got, "first") || !strings.Contains(got, "nobody yet") {
		t.Errorf("inspect: got %q", got)
	}
	if got := ok(t, "inspect", path, "--json"); !strings.Contains(got, `"slot_size": 1048576`) || !json.Valid([]byte(got)) {
		t.Errorf("inspect --json: got %q", got)
	}
	if r := command(t, "init", path); r.code != exitFailed || !strings.Contains(r.errors, `a rawblockd slab already: name first`) {
		t.Errorf("init again: got %+v", r)
	}
	for _, answer := range []string{"", "y\n", "no\n"} {
		r := commandWith(t.Context(), answer, "init", path, "--wipe")
		if r.code != exitFailed || !strings.Contains(r.errors, "rawblockd slab: name first") || !strings.Contains(r.errors, "not confirmed, nothing was changed") {
			t.Errorf("answer %q: got %+v", answer, r)
		}
	}
	if got := ok(t, "inspect", path); !strings.Contains(got, "first") {
		t.Errorf("a wipe that was not confirmed changed the label: %s", got)
	}
	if r := commandWith(t.Context(), "yes\n", "init", path, "--wipe", "--name", "second"); r.code != exitOK || !strings.Contains(r.errors, "32 MiB (33,554,432 bytes)") {
		t.Errorf("confirmed: got %+v", r)
	}
	if r := command(t, "init", path, "--wipe", "--yes", "--name", "third"); r.code != exitOK || !strings.Contains(r.errors, "name second") ||
		!strings.Contains(r.errors, `msg=audit audit=true what=wipe who="uid `) || !strings.Contains(r.errors, "device="+path) ||
		!strings.Contains(r.errors, "last owner  nobody yet") || strings.Contains(r.errors, "Type yes") {
		t.Errorf("--yes: got %+v", r)
	}
	if got := ok(t, "inspect", path); !strings.Contains(got, "third") {
		t.Errorf("inspect after wipes: %s", got)
	}

	blank := filepath.Join(t.TempDir(), "blank")
	if err := os.WriteFile(blank, make([]byte, 8<<20), 0o600); err != nil {
		t.Fatal(err)
	}
	if r := command(t, "inspect", blank); r.code != exitFailed || !strings.Contains(r.out, "8.0 MiB") || !strings.Contains(r.errors, "make a slab of it: rawblockd init "+blank) {
		t.Errorf("inspect without a label: got %+v", r)
	}
}

// TestInitOptions: options that no device could make right are wrong usage,
// before anything is asked or made.
func TestInitOptions(t *testing.T) {
	dir := t.TempDir()
	made := filepath.Join(dir, "made")
	ok(t, "init", made, "--size", "32MiB")
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"--slot-size", "5KiB"}, "slot size 5 KiB: must be 4 KiB to 64 MiB"},
		{[]string{"--slot-size", "128MiB"}, "slot size 128 MiB: must be"},
		{[]string{"--slot-size", "0"}, "--slot-size 0: must be more than 0"},
		{[]string{"--name", strings.Repeat("n", 65)}, "is 65 bytes long, must be at most 64"},
		{[]string{"--name", "a\nb"}, "without control characters"},
		{[]string{"--size", "0"}, "--size 0: must be more than 0"},
		{[]string{"--size", "4KiB"}, "size: too small"},
		{[]string{"--serial", "s"}, "--serial says which device --wipe may wipe"},
	} {
		for _, path := range []string{made, filepath.Join(dir, "new")} {
			for _, wipe := range []bool{false, true} {
				args := append([]string{"init", path}, tt.args...)
				if wipe && tt.args[0] != "--serial" {
					args = append(args, "--wipe")
				}
				r := commandWith(t.Context(), "yes\n", args...)
				if r.code != exitUsage || !strings.HasPrefix(r.errors, "rawblockd: init ") || !strings.Contains(r.errors, tt.want) {
					t.Errorf("%q: got %+v, want 2 and %q", args, r, tt.want)
				}
			}
		}
	}
	if names, _ := filepath.Glob(filepath.Join(dir, "*")); len(names) != 1 {
		t.Errorf("wrong options made %v", names)
	}
}

// TestWipeNamesForeignData: what others keep on a device is named, asked or not.
func TestWipeNamesForeignData(t *testing.T) {
	if _, err := exec.LookPath("mkfs.ext4"); err != nil {
		t.Skip("mkfs.ext4 is not installed")
	}
	if _, err := exec.LookPath("blkid"); err != nil {
		t.Skip("blkid is not installed")
	}
	for _, args := range [][]string{{"--wipe"}, {"--wipe", "--yes"}} {
		path := testdev.File(t, 16<<20)
		if out, err := exec.CommandContext(t.Context(), "mkfs.ext4", "-q", "-L", "precious", path).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
		r := commandWith(t.Context(), "yes\n", append([]string{"init", path, "--slot-size", "1MiB"}, args...)...)
		if r.code != exitOK {
			t.Errorf("%v: got %+v", args, r)
		}
		for _, want := range []string{"model", "serial", "16 MiB (16,777,216 bytes)", "ext4", "precious", "last owner  not known"} {
			if !strings.Contains(r.errors, want) {
				t.Errorf("%v: does not say %s: %s", args, want, r.errors)
			}
		}
	}
}

func TestDefaultAddress(t *testing.T) {
	if got, want := defaultAddr("get", "/nonexistent/sock"), "http://127.0.0.1:9200"; got != want {
		t.Errorf("without a socket: got %q, want %q", got, want)
	}
	for _, verb := range []string{"status", "top", "requests", "drain", "resume", "scrub"} {
		if got, want := defaultAddr(verb, "/nonexistent/sock"), "http://127.0.0.1:9201"; got != want {
			t.Errorf("%s without a socket: got %q, want %q", verb, got, want)
		}
	}
	dir := shortDir(t)
	_, addr := serveIn(t, dir)
	path := strings.TrimPrefix(addr, "unix:")
	if got := defaultAddr("get", path); got != addr {
		t.Errorf("with a socket: got %q, want %q", got, addr)
	}
	t.Setenv("RAWBLOCKD_ADDR", addr)
	if r := commandWith(t.Context(), "x", "put", "k"); r.code != exitOK {
		t.Errorf("$RAWBLOCKD_ADDR: got %+v", r)
	}
	t.Setenv("RAWBLOCKD_NAMESPACE", "other")
	if r := command(t, "get", "k"); r.code != exitFailed || !strings.Contains(r.errors, "unknown namespace") {
		t.Errorf("$RAWBLOCKD_NAMESPACE: got %+v", r)
	}
	if got := ok(t, "get", "k", "-n", "default"); got != "x" {
		t.Errorf("--namespace over the environment: got %q", got)
	}
}
