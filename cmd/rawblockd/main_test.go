// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"github.com/rawblockd/rawblockd/config"
	"github.com/rawblockd/rawblockd/internal/testdev"
	"github.com/rawblockd/rawblockd/server"
	"github.com/rawblockd/rawblockd/slab"
)

// beDaemon makes the test binary the real one, for tests that kill it.
const beDaemon = "TEST_BINARY_IS_RAWBLOCKD"

func TestMain(m *testing.M) {
	if how := os.Getenv(beRestricted); how != "" {
		os.Exit(restrict(how))
	}
	if os.Getenv(beDaemon) != "" {
		os.Exit(start())
	}
	if addr := os.Getenv(beLeaseholder); addr != "" {
		os.Exit(holdLease(addr))
	}
	testdev.Main(m)
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
	seen <-chan struct{} // the word given at first

	mu sync.Mutex
	// +checklocks:mu
	text bytes.Buffer
	// +checklocks:mu
	waits map[string]chan struct{}
}

func newSignalWriter(word string) *signalWriter {
	w := &signalWriter{waits: map[string]chan struct{}{}}
	w.seen = w.await(word)
	return w
}

// await returns a channel that is closed when word has come by.
func (w *signalWriter) await(word string) <-chan struct{} {
	w.mu.Lock()
	defer w.mu.Unlock()
	seen := make(chan struct{})
	if bytes.Contains(w.text.Bytes(), []byte(word)) {
		close(seen)
	} else {
		w.waits[word] = seen
	}
	return seen
}

// forget drops what has come by.
func (w *signalWriter) forget() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Reset()
}

// Write implements io.Writer.
func (w *signalWriter) Write(p []byte) (int, error) {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.text.Write(p)
	for word, seen := range w.waits {
		if bytes.Contains(w.text.Bytes(), []byte(word)) {
			close(seen)
			delete(w.waits, word)
		}
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
		{nil, "a verb is missing: want one of bench, clear, completion, config, demo, doctor, drain, events, explain, get"},
		{[]string{"bogus"}, `unknown verb "bogus": want one of `},
		{[]string{"lokup"}, `did you mean lookup?`},
		{[]string{"bench"}, "bench: a verb is missing: want one of engine"},
		{[]string{"bench", "engine"}, "bench engine: --device is missing"},
		{[]string{"bench", "engine", "--device", "x", "--sizes", "5x"}, "bench engine: --sizes: size "},
		{[]string{"bench", "engine", "--device", "x", "--sizes", "81MiB"}, "size 81MiB: want 4KiB to 80MiB"},
		{[]string{"bench", "engine", "--device", "x", "--depths", "300"}, "depth 300: want 1 to 256"},
		{[]string{"bench", "engine", "--device", "x", "--ops", "erase"}, `--ops: "erase": want read or write`},
		{[]string{"bench", "engine", "--device", "x", "--engines", "aio"}, `engine "aio": want one of pread, uring`},
		{[]string{"bench", "engine", "--device", "x", "--engines", "fio-fixedbufs"}, "give --fio too"},
		{[]string{"bench", "engine", "--device", "x", "--layouts", "8"}, `layout "8": want BATCHESxKEYS`},
		{[]string{"bench", "engine", "--device", "x", "--preset", "x"}, "want mooncake or lmcache"},
		{[]string{"bench", "engine", "--device", "x", "--json", "/nonexistent/x.json"}, "/nonexistent/x.json"},
		{[]string{"config"}, "config: a verb is missing: want one of check, print"},
		{[]string{"config", "--config", "x"}, "config: a verb is missing"},
		{[]string{"config", "chekc", "--config", "x"}, `config: unknown verb "chekc": want one of check, print; did you mean check?`},
		{[]string{"config", "check", "more"}, `config check: the argument "more" is one too many; usage: rawblockd config check`},
		{[]string{"completion"}, "completion: a verb is missing: want one of bash"},
		{[]string{"completion", "cmd"}, `completion: unknown verb "cmd"`},
		{[]string{"help", "bogus"}, `unknown verb "bogus"`},
		{[]string{"help", "config", "chekc"}, `config: unknown verb "chekc"`},
		{[]string{"help", "get", "k"}, "get has no verbs of its own"},
		{[]string{"version", "1"}, `version: the argument "1" is one too many`},
		{[]string{"serve", "x"}, `serve: the argument "x" is one too many; usage: rawblockd serve [flags]`},
		{[]string{"get"}, "get: an argument is missing; usage: rawblockd get KEY [flags]"},
		{[]string{"put", "a", "b", "c"}, "put: 3 arguments are too many; usage: rawblockd put KEY [FILE] [flags]"},
		{[]string{"ls", "--bogus"}, "ls: unknown flag: --bogus"},
		{[]string{"put", "k", "--ttl", "-5s"}, `invalid argument "-5s" for "--ttl" flag: want more than 0`},
		{[]string{"put", "k", "--ttl", "0"}, `"--ttl" flag: want more than 0`},
		{[]string{"put", "k", "--ttl", "5"}, `"--ttl" flag: want a number with one of the units`},
		{[]string{"pin", "k", "--ttl", "0s"}, `"--ttl" flag: want more than 0`},
		{[]string{"pin", "k", "--ttl=-5s"}, `"--ttl" flag: want more than 0`},
		{[]string{"lookup", "k", "--lease", "--ttl", "-1ms"}, `"--ttl" flag: want more than 0`},
		{[]string{"lookup", "k", "--ttl", "5s"}, "--ttl and --owner are for --lease"},
		{[]string{"get", "k", "--addr", "ftp://x"}, `address "ftp://x": want unix:/path/of/socket, http://host:port or https://host:port`},
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
		if strings.Count(r.errors, "\n") != 1 || !strings.HasSuffix(r.errors, "\n") || r.out != "" {
			t.Errorf("%v: want one line, got %q and on stdout %q", tt.args, r.errors, r.out)
		}
	}
}

func TestHelpAndVersion(t *testing.T) {
	help := ok(t, "--help")
	for _, verb := range []string{
		"init", "inspect", "serve", "demo", "doctor", "status", "get", "put", "rm", "lookup", "pin", "unpin", "ls", "leases", "version", "config",
		"clear", "drain", "events", "explain", "namespace", "requests", "resume", "scrub", "top", "touch", "bench",
	} {
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

func TestHelpOfVerbs(t *testing.T) {
	for _, args := range [][]string{{"help", "config", "check"}, {"config", "check", "--help"}} {
		if got := ok(t, args...); !strings.Contains(got, "rawblockd config check [flags]") || !strings.Contains(got, "Report every fault") {
			t.Errorf("%v: got %q", args, got)
		}
	}
	for _, args := range [][]string{{"help"}, {"help", "config"}, {"config", "--help"}} {
		if got := ok(t, args...); !strings.Contains(got, "Usage:") {
			t.Errorf("%v: got %q", args, got)
		}
	}
}

func TestConfigVerbs(t *testing.T) {
	path := write(t, testConfig(t, shortDir(t)))
	if got := ok(t, "config", "check", "--config", path); !strings.HasSuffix(got, "ok: 1 slabs, 1 namespaces\n") {
		t.Errorf("check: got %q", got)
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

// Whoever turns the log down keeps the audit; debug shows all, also to handlers made of
// the first.
func TestAuditIsLoggedAtEveryLevel(t *testing.T) {
	for level, want := range map[string]int{"debug": 4, "info": 3, "warn": 2, "error": 1} {
		var out bytes.Buffer
		log, _ := newLogger(&out, config.Log{Level: level, Format: "text"})
		for _, l := range []*slog.Logger{log, log.With("a", 1), log.WithGroup("g")} {
			out.Reset()
			l.Info(server.AuditMessage, "audit", true)
			l.Debug("d")
			l.Info("i")
			l.Warn("w")
			if got := out.String(); strings.Count(got, "\n") != want || !strings.Contains(got, "msg=audit") {
				t.Errorf("%s: got %q, want %d lines", level, got, want)
			}
		}
	}
}

func TestJoinedErrorsAreOneLine(t *testing.T) {
	joined := fmt.Errorf("stop: %w", errors.Join(errors.New("first"), errors.Join(errors.New("second"), errors.New("third"))))
	var out bytes.Buffer
	for _, format := range []string{"text", "json"} {
		out.Reset()
		log, _ := newLogger(&out, config.Log{Level: "info", Format: format})
		log.Error("x", "err", joined)
		if got := out.String(); !strings.Contains(got, "stop: first; second; third") || strings.Count(got, "\n") != 1 {
			t.Errorf("%s: got %q", format, got)
		}
	}
}
