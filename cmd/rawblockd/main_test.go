// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"
	"golang.org/x/sys/unix"

	"github.com/rawblockd/rawblockd/config"
	"github.com/rawblockd/rawblockd/slab"
)

// beDaemon makes the test binary the real one, for tests that kill it.
const beDaemon = "TEST_BINARY_IS_RAWBLOCKD"

func TestMain(m *testing.M) {
	if os.Getenv(beDaemon) != "" {
		os.Exit(start())
	}
	goleak.VerifyTestMain(m)
}

// result is what one command line did.
type result struct {
	code        int
	out, errors string
}

func command(t *testing.T, args ...string) result {
	t.Helper()
	return commandWith(t.Context(), "", args...)
}

func commandWith(ctx context.Context, stdin string, args ...string) result {
	var out, errs bytes.Buffer
	code := run(ctx, args, strings.NewReader(stdin), &out, &errs)
	return result{code, out.String(), errs.String()}
}

// ok fails the test unless the command line succeeded, and returns its output.
func ok(t *testing.T, args ...string) string {
	t.Helper()
	r := command(t, args...)
	if r.code != exitOK {
		t.Fatalf("%v: exit code %d: %s", args, r.code, r.errors)
	}
	return r.out
}

// shortDir is a temporary directory whose path leaves room for a socket.
func shortDir(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "rb")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = os.RemoveAll(dir) })
	return dir
}

const testSlab = 64 << 20

// testConfig is a daemon's configuration in dir, without TCP, over a slab that
// exists.
func testConfig(t *testing.T, dir string) *config.Config {
	t.Helper()
	c := config.Dev(dir)
	c.Listen.HTTP, c.Listen.Admin = "", ""
	c.Meta.MinFree = config.MiB
	c.Limits.Payload, c.Limits.StreamBytes = 8*config.MiB, 16*config.MiB
	if _, err := os.Stat(c.Slabs[0].Device); err != nil {
		if _, err := slab.Init(c.Slabs[0].Device, slab.InitOptions{SlotSize: int64(c.Slabs[0].SlotSize), Name: "test", Size: testSlab}); err != nil {
			t.Fatal(err)
		}
	}
	return c
}

// write writes a configuration beside its metadata and returns the path.
func write(t *testing.T, c *config.Config) string {
	t.Helper()
	text, err := c.YAML()
	if err != nil {
		t.Fatal(err)
	}
	path := c.Meta.Path + ".yaml"
	if err := os.WriteFile(path, text, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// signalWriter is a log that tells when a word came by.
type signalWriter struct {
	word string
	seen chan struct{}

	mu sync.Mutex
	// +checklocks:mu
	text bytes.Buffer
	// +checklocks:mu
	told bool
}

func newSignalWriter(word string) *signalWriter {
	return &signalWriter{word: word, seen: make(chan struct{})}
}

// Write implements io.Writer.
func (w *signalWriter) Write(p []byte) (int, error) {
	word := []byte(w.word)
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Write(p)
	if !w.told && bytes.Contains(w.text.Bytes(), word) {
		w.told = true
		close(w.seen)
	}
	return len(p), nil
}

// String returns everything written.
func (w *signalWriter) String() string {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.text.String()
}

// serving is a daemon that runs in this process.
type serving struct {
	t    *testing.T
	log  *signalWriter
	out  *signalWriter
	code chan int
	stop context.CancelFunc
	done bool
}

// serve runs "serve args" until stop, and returns when it serves.
func serve(t *testing.T, args ...string) *serving {
	t.Helper()
	ctx, cancel := context.WithCancel(context.Background())
	s := &serving{t: t, log: newSignalWriter("msg=serving"), out: newSignalWriter("curl --unix-socket"), code: make(chan int, 1), stop: cancel}
	go func() { s.code <- run(ctx, append([]string{"serve"}, args...), strings.NewReader(""), s.out, s.log) }()
	t.Cleanup(func() { s.end() })
	select {
	case <-s.log.seen:
	case code := <-s.code:
		s.done = true
		t.Fatalf("serve %v: exit code %d: %s", args, code, s.log)
	}
	return s
}

// end stops the daemon as SIGTERM would.
func (s *serving) end() {
	s.t.Helper()
	s.stop()
	if s.done {
		return
	}
	s.done = true
	if code := <-s.code; code != exitOK {
		s.t.Errorf("serve: exit code %d: %s", code, s.log)
	}
}

// serveIn runs a daemon with testConfig and returns it and its address.
func serveIn(t *testing.T, dir string) (*serving, string) {
	t.Helper()
	s := serve(t, "--config", write(t, testConfig(t, dir)))
	return s, "unix:" + filepath.Join(dir, "rawblockd.sock")
}

func TestUsage(t *testing.T) {
	tests := []struct {
		args []string
		want string
	}{
		{[]string{"bogus"}, `unknown command "bogus"`},
		{[]string{"get"}, "accepts 1 arg(s), received 0"},
		{[]string{"ls", "--bogus"}, "unknown flag: --bogus"},
		{[]string{"get", "k", "--addr", "ftp://x"}, `address "ftp://x": want unix:/path/of/socket or http://host:port`},
		{[]string{"init", "x", "--slot-size", "2Mb"}, `"2Mb" has the unknown unit "Mb"`},
		{[]string{"init", "x", "--serial", "s"}, "--serial says which device --wipe may wipe"},
		{[]string{"serve", "--config", "a", "--dev", "b"}, "--config and --dev exclude each other"},
		{[]string{"serve", "--config", "a", "--size", "1GiB"}, "--size is for --dev DIR"},
		{[]string{"config", "check", "--config", "/nonexistent.yaml"}, "/nonexistent.yaml: no such file"},
	}
	for _, tt := range tests {
		r := command(t, tt.args...)
		if r.code != exitUsage || !strings.HasPrefix(r.errors, "rawblockd: ") || !strings.Contains(r.errors, tt.want) {
			t.Errorf("%v: got code %d and %q, want 2 and %q", tt.args, r.code, r.errors, tt.want)
		}
	}
}

func TestHelpAndVersion(t *testing.T) {
	help := ok(t, "--help")
	for _, verb := range []string{"init", "inspect", "serve", "demo", "status", "get", "put", "rm", "lookup", "pin", "unpin", "ls", "leases", "version", "config"} {
		if !strings.Contains(help, "\n  "+verb+" ") {
			t.Errorf("help does not list %s", verb)
		}
	}
	if v := ok(t, "version"); !strings.HasPrefix(v, "rawblockd ") {
		t.Errorf("version: got %q", v)
	}
	if v := ok(t, "version", "--json"); !strings.Contains(v, `"arch": "`) {
		t.Errorf("version --json: got %q", v)
	}
}

func TestConfigVerbs(t *testing.T) {
	path := write(t, testConfig(t, shortDir(t)))
	if got := ok(t, "config", "check", "--config", path); !strings.HasSuffix(got, "ok: 1 slabs, 1 namespaces\n") {
		t.Errorf("check: got %q", got)
	}
	printed := ok(t, "config", "print", "--config", path)
	again := filepath.Join(t.TempDir(), "again.yaml")
	if err := os.WriteFile(again, []byte(printed), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := ok(t, "config", "print", "--config", again); got != printed {
		t.Errorf("print of what print gave:\n%s\nwant\n%s", got, printed)
	}
}

func TestSignals(t *testing.T) {
	exited := make(chan int, 1)
	ctx, stop := untilSignal(t.Context(), func(code int) { exited <- code })
	defer stop()
	if err := unix.Kill(os.Getpid(), unix.SIGTERM); err != nil {
		t.Fatal(err)
	}
	<-ctx.Done()
	if got, want := context.Cause(ctx).Error(), "received terminated"; got != want {
		t.Errorf("cause: got %q, want %q", got, want)
	}
	if err := unix.Kill(os.Getpid(), unix.SIGINT); err != nil {
		t.Fatal(err)
	}
	if code := <-exited; code != exitFailed {
		t.Errorf("second signal: got code %d, want 1", code)
	}
}

func TestInterruptedIsOneWord(t *testing.T) {
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errors.New("received interrupt"))
	_, addr := serveIn(t, shortDir(t))
	r := commandWith(ctx, "", "ls", "--addr", addr)
	if r.code != exitFailed || r.errors != "rawblockd: interrupted\n" {
		t.Errorf("got %+v", r)
	}
}

func TestNoSignal(t *testing.T) {
	ctx, stop := untilSignal(t.Context(), func(int) { t.Error("exit was called") })
	if ctx.Err() != nil {
		t.Errorf("ended before a signal: %v", ctx.Err())
	}
	stop()
	if ctx.Err() == nil {
		t.Error("not ended by stop")
	}
}

func TestHangup(t *testing.T) {
	called := make(chan struct{})
	stop := onHangup(func() { called <- struct{}{} })
	for range 2 {
		if err := unix.Kill(os.Getpid(), unix.SIGHUP); err != nil {
			t.Fatal(err)
		}
		<-called
	}
	stop()
}
