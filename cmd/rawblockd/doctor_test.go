// SPDX-License-Identifier: Apache-2.0

package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/rawblockd/rawblockd/config"
	"github.com/rawblockd/rawblockd/internal/testdev"
	"github.com/rawblockd/rawblockd/slab"
)

// examined is what doctor says of a configuration.
type examined struct {
	doctorReport
	code   int
	errors string
}

func examine(t *testing.T, c *config.Config) examined {
	t.Helper()
	r := command(t, "doctor", "--config", write(t, c), "--json")
	e := examined{code: r.code, errors: r.errors}
	if err := json.Unmarshal([]byte(r.out), &e.doctorReport); err != nil {
		t.Fatalf("doctor --json: %v: %+v", err, r)
	}
	return e
}

// finding returns what a check found; slab "": a check of the host.
func (e examined) finding(t *testing.T, slab, check string) finding {
	t.Helper()
	for _, f := range e.Checks {
		if f.Slab == slab && f.Check == check {
			return f
		}
	}
	t.Fatalf("no check %q of slab %q in %+v", check, slab, e.Checks)
	return finding{}
}

// wants fails unless the finding has the verdict and says all of words.
func (f finding) wants(t *testing.T, verdict string, words ...string) {
	t.Helper()
	text := f.Detail + "; to do: " + f.Remedy
	if f.Verdict != verdict {
		t.Errorf("%s: got %s (%s), want %s", f.Check, f.Verdict, text, verdict)
	}
	if verdict != verdictOK && f.Remedy == "" {
		t.Errorf("%s: says nothing of what to do: %s", f.Check, text)
	}
	for _, w := range words {
		if !strings.Contains(text, w) {
			t.Errorf("%s: does not say %q: %s", f.Check, w, text)
		}
	}
}

// TestDoctorOfAFitHost: before the first start, while the daemon serves, and
// after it; never is anything written.
func TestDoctorOfAFitHost(t *testing.T) {
	dir := shortDir(t)
	c := testConfig(t, dir)
	c.Listen.HTTP, c.Listen.Admin = freePort(t), freePort(t)
	path := write(t, c)
	before, slabBefore := below(t, dir), bytesOf(t, c.Slabs[0].Device)
	e := examine(t, c)
	if e.code != exitOK || !e.Fit || e.Failures != 0 || e.errors != "" || e.Config != path {
		t.Fatalf("got %+v", e)
	}
	if below(t, dir) != before || bytesOf(t, c.Slabs[0].Device) != slabBefore {
		t.Error("doctor wrote something")
	}
	e.finding(t, "dev", "device").wants(t, verdictOK, c.Slabs[0].Device, "regular file of 64 MiB")
	e.finding(t, "dev", "label").wants(t, verdictOK, `slab "test"`, "slots of 2MiB")
	e.finding(t, "dev", "holder").wants(t, verdictOK, "free; mounted 0 times")
	e.finding(t, "", "metadata").wants(t, verdictOK, "none yet")
	e.finding(t, "", "listen.http").wants(t, verdictOK, c.Listen.HTTP+" is free")

	s := serve(t, "--config", path)
	pid := fmt.Sprintf("pid %d", os.Getpid())
	e = examine(t, c)
	if e.code != exitOK || !e.Fit {
		t.Errorf("beside the daemon: got %+v", e)
	}
	e.finding(t, "dev", "holder").wants(t, verdictOK, "the daemon of this configuration ("+pid+") serves it")
	e.finding(t, "", "metadata").wants(t, verdictOK, "in use by the daemon of this configuration")
	for _, check := range []string{"listen.unix", "listen.http", "listen.admin"} {
		e.finding(t, "", check).wants(t, verdictOK, "the daemon of this configuration ("+pid+") answers")
	}
	ok(t, "status", "--addr", "unix:"+c.Listen.Unix) // the lock on its metadata and its claim were left alone
	other := testConfig(t, shortDir(t))
	other.Meta.Path = c.Meta.Path
	refused(t, exitFailed, write(t, other), "in use", "change meta.path")
	s.end()
	e = examine(t, c)
	e.finding(t, "dev", "holder").wants(t, verdictOK, "free; mounted 1 times")
	e.finding(t, "", "metadata").wants(t, verdictOK, ": there")
}

// TestDoctorBesideTokensAndTLS: whose daemon it is can be told without a token
// and whatever its certificate is of.
func TestDoctorBesideTokensAndTLS(t *testing.T) {
	c := testConfig(t, shortDir(t))
	c.Listen.HTTP, c.Listen.Admin = freePort(t), freePort(t)
	c.TLS.CertFile, c.TLS.KeyFile = certificate(t, time.Now().Add(-time.Hour), time.Now().Add(90*24*time.Hour))
	c.Auth.TokenFile = filepath.Join(t.TempDir(), "tokens")
	if err := os.WriteFile(c.Auth.TokenFile, []byte(`[{name: a, token: "0123456789abcdef", namespaces: ["*"]}]`), 0o600); err != nil {
		t.Fatal(err)
	}
	serve(t, "--config", write(t, c))
	e := examine(t, c)
	for _, check := range []string{"listen.http", "listen.admin"} {
		e.finding(t, "", check).wants(t, verdictOK, "the daemon of this configuration")
	}
	e.finding(t, "", "auth.token_file").wants(t, verdictOK, "mode 0600")
	e.finding(t, "", "tls").wants(t, verdictOK, "is valid until")
	if e.code != exitOK {
		t.Errorf("got %+v", e)
	}
}

// freePort is an address that nobody listens on.
func freePort(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	return l.Addr().String()
}

// TestDoctorOfADevice: what it says of a block device, held or not, and that a
// claim to look ends with the look.
func TestDoctorOfADevice(t *testing.T) {
	dev := testdev.Loop(t, testSlab, 4096)
	if _, err := slab.Init(dev, slab.InitOptions{Name: "loop"}); err != nil {
		t.Fatal(err)
	}
	c := testConfig(t, shortDir(t))
	c.Slabs[0].Device = dev
	e := examine(t, c)
	e.finding(t, "dev", "device").wants(t, verdictOK, "block device of 64 MiB")
	e.finding(t, "dev", "direct I/O").wants(t, verdictOK, "O_DIRECT in effect", "blocks of 4096 bytes")
	e.finding(t, "dev", "holder").wants(t, verdictOK, "free")
	e.finding(t, "dev", "queue").wants(t, verdictOK, "scheduler")
	serve(t, "--config", write(t, c))

	if out, err := exec.CommandContext(t.Context(), "blockdev", "--setro", dev).CombinedOutput(); err == nil {
		examine(t, c).finding(t, "dev", "device").wants(t, verdictFail, "read-only", "blockdev --setrw")
		if out, err := exec.CommandContext(t.Context(), "blockdev", "--setrw", dev).CombinedOutput(); err != nil {
			t.Fatalf("%v: %s", err, out)
		}
	} else {
		t.Logf("not tested read-only: %v: %s", err, out)
	}
}

// TestDoctorWarns: what it serves with.
func TestDoctorWarns(t *testing.T) {
	c := testConfig(t, shortDir(t))
	c.Listen.UnixMode = 0o666
	c.Meta.Path = filepath.Join("/dev/shm", filepath.Base(filepath.Dir(c.Slabs[0].Device)), "meta")
	if err := os.MkdirAll(filepath.Dir(c.Meta.Path), 0o755); err != nil {
		t.Skipf("no /dev/shm: %v", err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(filepath.Dir(c.Meta.Path)) })
	moved := filepath.Join(filepath.Dir(c.Meta.Path), "slab.img")
	if err := os.WriteFile(moved, []byte(bytesOf(t, c.Slabs[0].Device)), 0o600); err != nil {
		t.Fatal(err)
	}
	damage(t, moved)
	c.Slabs[0].Device = moved
	e := examine(t, c)
	if e.code != exitOK || !e.Fit || e.Warnings < 4 || e.errors != "" {
		t.Errorf("warnings are no failure: got code %d, %+v", e.code, e)
	}
	e.finding(t, "", "socket access").wants(t, verdictWarn, "unix_mode 0666 lets every user", `unix_mode: "0660"`)
	e.finding(t, "", "metadata space").wants(t, verdictWarn, "is in memory", "a directory on a disk")
	e.finding(t, "dev", "direct I/O").wants(t, verdictWarn, "O_DIRECT is not in effect", "use a block device")
	e.finding(t, "dev", "label").wants(t, verdictWarn, "1 of its 3 copies are bad")
}

// damage spoils the first label copy.
func damage(t *testing.T, path string) {
	t.Helper()
	f, err := os.OpenFile(path, os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := f.WriteAt([]byte("spoilt"), 64); err != nil {
		t.Fatal(err)
	}
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
}

// TestDoctorText: a line for each check that begins with its verdict.
func TestDoctorText(t *testing.T) {
	c := testConfig(t, shortDir(t))
	c.Slabs[0].SlotSize = 4 * config.MiB
	r := command(t, "doctor", "--config", write(t, c))
	lines := strings.Split(strings.TrimSuffix(r.out, "\n"), "\n")
	var label string
	for _, l := range lines[:len(lines)-1] {
		if verdict, _, _ := strings.Cut(l, " "); verdict != verdictOK && verdict != verdictWarn && verdict != verdictFail {
			t.Errorf("got the line %q", l)
		}
		if strings.Contains(l, "slab dev: label") {
			label = l
		}
	}
	if !strings.HasPrefix(label, "fail  slab dev: label ") || !strings.Contains(label, "; to do: set slot_size: 2MiB") {
		t.Errorf("got %q", label)
	}
	if last := lines[len(lines)-1]; !strings.HasSuffix(last, "1 failures") || !strings.HasPrefix(last, fmt.Sprintf("%d checks: ", len(lines)-1)) {
		t.Errorf("closing line: got %q", last)
	}
}

func TestDoctorUsage(t *testing.T) {
	bad := filepath.Join(t.TempDir(), "bad.yaml")
	if err := os.WriteFile(bad, []byte("slabs: [{name: a, device: x}]\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, tt := range []struct {
		args []string
		want string
	}{
		{[]string{"doctor", "x"}, `doctor: the argument "x" is one too many; usage: rawblockd doctor [flags]`},
		{[]string{"doctor", "--addr", "x"}, "doctor: unknown flag: --addr"},
		{[]string{"doctor", "--config", "/nonexistent.yaml"}, "/nonexistent.yaml: no such file"},
		{[]string{"doctor", "--config", bad}, `slabs[0].device: "x" is relative`},
	} {
		if r := command(t, tt.args...); r.code != exitUsage || !strings.Contains(r.errors, tt.want) || r.out != "" {
			t.Errorf("%v: got %+v, want 2 and %q", tt.args, r, tt.want)
		}
	}
}

// TestDoctorOfAnotherUser: what a user without rights cannot do is said, each
// with what to do.
func TestDoctorOfAnotherUser(t *testing.T) {
	if os.Geteuid() != 0 {
		t.Skip("only root can become somebody else")
	}
	dir := shortDir(t)
	c := testConfig(t, dir)
	serve(t, "--config", write(t, c)).end() // makes what the other may not read
	c.Listen.Unix = filepath.Join(dir, "sub", "s")
	c.Listen.UnixGroup = "0"
	path := write(t, c)
	binary := filepath.Join(dir, "rawblockd")
	self, err := os.ReadFile("/proc/self/exe")
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(binary, self, 0o755); err != nil {
		t.Fatal(err)
	}
	for _, p := range []string{dir, path} {
		if err := os.Chmod(p, 0o755); err != nil {
			t.Fatal(err)
		}
	}
	cmd := exec.CommandContext(t.Context(), binary, "doctor", "--config", path, "--json")
	cmd.Env = []string{beDaemon + "=1"}
	cmd.SysProcAttr = &syscall.SysProcAttr{Credential: &syscall.Credential{Uid: 65534, Gid: 65534}}
	out, err := cmd.Output()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != exitFailed {
		t.Fatalf("got %v: %s", err, out)
	}
	var e examined
	if err := json.Unmarshal(out, &e.doctorReport); err != nil {
		t.Fatal(err)
	}
	e.finding(t, "", "configuration").wants(t, verdictOK, "looked at as uid 65534")
	e.finding(t, "dev", "device").wants(t, verdictFail, "permission denied", "let that user use it")
	e.finding(t, "", "metadata").wants(t, verdictFail, "permission denied", "chown -R USER "+c.Meta.Path)
	e.finding(t, "", "socket folder").wants(t, verdictFail, "cannot be made in "+dir, "install -d -o USER "+filepath.Dir(c.Listen.Unix))
	e.finding(t, "", "socket access").wants(t, verdictFail, "no member of the group 0", "usermod -aG")
}

// TestDoctorWithoutConfiguration looks at the host alone.
func TestDoctorWithoutConfiguration(t *testing.T) {
	if _, err := os.Stat(defaultConfig); err == nil {
		t.Skip(defaultConfig + " is there")
	}
	t.Setenv("RAWBLOCKD_META_PATH", filepath.Join(t.TempDir(), "m"))
	out := command(t, "doctor").out
	if !strings.Contains(out, "warn  configuration ") || !strings.Contains(out, "\nok    io_uring ") && !strings.Contains(out, "\nwarn  io_uring ") {
		t.Errorf("got %s", out)
	}
	if !strings.Contains(out, os.Getenv("RAWBLOCKD_META_PATH")) {
		t.Errorf("the environment does not count: %s", out)
	}
}
