// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/cockroachdb/pebble/v2/vfs"
	"github.com/cockroachdb/pebble/v2/vfs/errorfs"

	"github.com/rawblockd/rawblockd/client"
	"github.com/rawblockd/rawblockd/config"
	"github.com/rawblockd/rawblockd/slab"
)

func TestServeDev(t *testing.T) {
	dir := shortDir(t)
	// A start that was killed while it made the slab is no obstacle.
	if err := os.WriteFile(filepath.Join(dir, "slab.img.new"), []byte("half"), 0o600); err != nil {
		t.Fatal(err)
	}
	tcp := []string{"--http", "127.0.0.1:0", "--admin", "127.0.0.1:0"}
	s := serve(t, append([]string{"--dev", dir, "--size", "64MiB"}, tcp...)...)
	addr := "unix:" + filepath.Join(dir, "rawblockd.sock")
	<-s.out.seen // the hints come after the log line
	m := regexp.MustCompile(`http    (http://\S+)\n  admin   (http://\S+) `).FindStringSubmatch(s.out.String())
	if m == nil || !strings.Contains(s.out.String(), "export RAWBLOCKD_ADDR="+addr) {
		t.Fatalf("the hints are incomplete: %s", s.out)
	}
	if r := commandWith(t.Context(), "hello", "put", "k", "--addr", m[1]); r.code != exitOK {
		t.Errorf("put over TCP: %+v", r)
	}
	if got := ok(t, "get", "k", "--addr", addr); got != "hello" {
		t.Errorf("get over the socket: got %q", got)
	}
	for _, path := range []string{"/healthz", "/readyz", "/metrics", "/v1/status"} {
		if code, body := fetch(t, m[2]+path); code != http.StatusOK {
			t.Errorf("admin %s: got %d %s", path, code, body)
		}
	}
	_, metrics := fetch(t, m[2]+"/metrics")
	for _, want := range []string{
		`rawblockd_engine_info{engine="pread",slab="dev",why="a regular file, where auto stays`, `rawblockd_device_bytes_total{engine="pread",op="write",slab="dev"}`,
		"go_goroutines", "process_open_fds", `rawblockd_slots{slab="dev",state="used"} 1`,
	} {
		if !strings.Contains(metrics, want) {
			t.Errorf("metrics lack %s", want)
		}
	}
	if r := command(t, "status", "--addr", m[1]); r.code != exitFailed || !strings.Contains(r.errors, "over TCP the status is on the daemon's admin listener (listen.admin of its configuration)") || strings.Contains(r.errors, "9201") {
		t.Errorf("status on the data listener: got %+v", r)
	}
	s.end()

	s = serve(t, append([]string{"--dev", dir}, tcp...)...)
	if got := ok(t, "get", "k", "--addr", addr); got != "hello" {
		t.Errorf("after a restart: got %q", got)
	}
	s.end()
	if r := command(t, append([]string{"serve", "--dev", dir, "--size", "128MiB"}, tcp...)...); r.code != exitFailed || !strings.Contains(r.errors, "--size 128MiB: ") || !strings.Contains(r.errors, "already with 64MiB") {
		t.Errorf("another size: got %+v", r)
	}
}

// TestDevHoldsTheMainJob: the slab that --dev makes unless told otherwise holds
// the README's batch within what leases may pin.
func TestDevHoldsTheMainJob(t *testing.T) {
	image := filepath.Join(t.TempDir(), "slab.img")
	c, plan := config.Dev(t.TempDir()), demoSizes()
	made, err := config.ParseSize((&cli{}).serveVerb().Flag("size").DefValue)
	if err != nil {
		t.Fatal(err)
	}
	f, err := os.Create(image)
	if err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(f.Truncate(int64(made)), f.Close()); err != nil { // sparse: only its size matters here
		t.Fatal(err)
	}
	l, err := slab.Init(image, slab.InitOptions{SlotSize: int64(c.Slabs[0].SlotSize)})
	if err != nil {
		t.Fatal(err)
	}
	need := float64(plan.keys) * float64((plan.big+l.SlotSize-1)/l.SlotSize)
	if may := c.Leases.MaxPinned * float64(l.SlotCount); may < need {
		t.Errorf("of %d slots leases may pin %.0f, the batch needs %.0f", l.SlotCount, may, need)
	}
}

func fetch(t *testing.T, url string) (int, string) {
	t.Helper()
	tr := &http.Transport{DisableKeepAlives: true}
	resp, err := (&http.Client{Transport: tr}).Get(url)
	if err != nil {
		t.Fatal(err)
	}
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	if err != nil {
		t.Fatal(err)
	}
	return resp.StatusCode, string(b)
}

func TestServiceManagerIsTold(t *testing.T) {
	for _, name := range []string{filepath.Join(shortDir(t), "n"), "@rawblockd-test-" + filepath.Base(t.TempDir())} {
		listen := strings.Replace(name, "@", "\x00", 1)
		conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: listen, Net: "unixgram"})
		if err != nil {
			t.Fatal(err)
		}
		t.Setenv("NOTIFY_SOCKET", name)
		s, _ := serveIn(t, shortDir(t))
		s.end()
		var got []string
		for range 2 {
			b := make([]byte, 64)
			n, err := conn.Read(b)
			if err != nil {
				t.Fatal(err)
			}
			got = append(got, string(b[:n]))
		}
		if want := "READY=1 STOPPING=1"; strings.Join(got, " ") != want {
			t.Errorf("%q: got %v, want %v", name, got, want)
		}
		_ = conn.Close()
	}
}

func TestLogFormats(t *testing.T) {
	dir := shortDir(t)
	c := testConfig(t, dir)
	c.Log.Format, c.Log.Level = "json", "warn"
	path := write(t, c)
	t.Setenv("RAWBLOCKD_LOG_LEVEL", "info")
	ctx, cancel := context.WithCancel(t.Context())
	w := newSignalWriter(`"msg":"serving"`)
	code := make(chan int)
	go func() { code <- run(ctx, []string{"serve", "--config", path}, strings.NewReader(""), io.Discard, w) }()
	<-w.seen // the environment's level won, and the format is JSON
	cancel()
	if got := <-code; got != exitOK {
		t.Errorf("exit code %d: %s", got, w)
	}
}

// failing is a metadata disk that can be broken and mended.
func failing() (vfs.FS, *atomic.Bool) {
	broken := &atomic.Bool{}
	return errorfs.Wrap(vfs.Default, errorfs.InjectorFunc(func(op errorfs.Op) error {
		if broken.Load() && op.Kind.ReadOrWrite() == errorfs.OpIsWrite {
			return errors.New("the disk is gone")
		}
		return nil
	})), broken
}

// TestMetadataFailure: changes are refused, loads go on, readiness is honest,
// and when the disk is back the daemon asks to be started again.
func TestMetadataFailure(t *testing.T) {
	dir := shortDir(t)
	c := testConfig(t, dir)
	log := newSignalWriter("stopped")
	d := newDaemon(c, slog.New(slog.NewTextHandler(log, nil)), "")
	fs, broken := failing()
	d.metaOpen.FS, d.probeEvery = fs, 5*time.Millisecond
	var probes atomic.Int64
	thrice := make(chan struct{})
	d.probe = func() error {
		if broken.Load() {
			if probes.Add(1) == 3 {
				close(thrice)
			}
			return errors.New("still gone")
		}
		return nil
	}
	var faulty atomic.Bool
	var loads atomic.Int64
	readThrice := make(chan struct{})
	faulty.Store(true)
	d.load = func() (setup, error) {
		if !faulty.Load() {
			return setup{cfg: c, secrets: &secrets{}}, nil
		}
		if loads.Add(1) == 3 {
			close(readThrice)
		}
		return setup{}, errors.New("log.level is wrong")
	}
	up, ended := background(context.Background(), d, func() error { return nil })
	<-up
	cl, err := client.New("unix:"+c.Listen.Unix, "default")
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	put := func(key string) error {
		_, err := cl.Put(t.Context(), key, strings.NewReader("bytes"), 5, client.PutOptions{})
		return err
	}
	if err := put("before"); err != nil {
		t.Fatal(err)
	}
	if r, err := cl.Ready(t.Context()); err != nil || !r.Ready {
		t.Errorf("before: got %+v, %v", r, err)
	}
	broken.Store(true)
	var refusal *client.Error
	if err := put("during"); !errors.As(err, &refusal) || refusal.StatusCode != http.StatusServiceUnavailable {
		t.Errorf("store during the failure: got %v, want 503", err)
	}
	<-d.metaFailed
	if r, err := cl.Ready(t.Context()); err != nil || r.Ready || r.Phase != "metadata_failed" {
		t.Errorf("during: got %+v, %v", r, err)
	}
	if st, err := cl.Status(t.Context()); err != nil || st.Ready || !strings.Contains(st.MetaFailed, "the disk is gone") {
		t.Errorf("status: got %+v, %v", st, err)
	}
	o, err := cl.Get(t.Context(), "before")
	if err != nil {
		t.Fatalf("load during the failure: %v", err)
	}
	if b, err := io.ReadAll(o.Body); err != nil || string(b) != "bytes" {
		t.Errorf("load during the failure: got %q, %v", b, err)
	}
	_ = o.Body.Close()
	select {
	case err := <-ended:
		t.Fatalf("ended while the disk was gone: %v", err)
	default:
	}
	<-thrice // and twice it has been logged, or not
	broken.Store(false)
	<-readThrice // a configuration that another process would not start with
	select {
	case err := <-ended:
		t.Fatalf("ended with a configuration that has a fault: %v", err)
	default:
	}
	faulty.Store(false)
	if err := <-ended; !errors.Is(err, errRestart) || oneLine(err) != errRestart.Error() {
		t.Errorf("got %v, want a restart and nothing that was said before", err)
	}
	if got := log.String(); strings.Count(got, "metadata failed") != 1 || strings.Contains(got, "until the next start") ||
		strings.Count(got, "still gone") != 1 || strings.Count(got, "log.level is wrong") != 1 || !strings.Contains(got, "free space on that file system") {
		t.Errorf("the log does not say it once: %s", got)
	}

	_, addr := serveIn(t, dir)
	if got := ok(t, "get", "before", "--addr", addr); got != "bytes" {
		t.Errorf("after the restart: got %q", got)
	}
	if r := command(t, "get", "during", "--addr", addr); r.code != exitFailed {
		t.Errorf("a refused store is there after the restart: %+v", r)
	}
}

func TestProbeWantsFreeSpace(t *testing.T) {
	m := config.Meta{Path: t.TempDir(), MinFree: config.MiB}
	if err := probeMeta(m); err != nil {
		t.Errorf("a good disk: %v", err)
	}
	if left, _ := filepath.Glob(m.Path + "/*"); len(left) != 0 {
		t.Errorf("left behind: %v", left)
	}
	m.MinFree = 1 << 60
	if err := probeMeta(m); err == nil || !strings.Contains(err.Error(), "meta.min_free is") {
		t.Errorf("a full disk: got %v", err)
	}
}

// background runs d and returns its end.
func background(ctx context.Context, d *daemon, prepare func() error) (up chan struct{}, ended chan error) {
	up, ended = make(chan struct{}), make(chan error, 1)
	go func() { ended <- d.run(ctx, prepare, func() { close(up) }) }()
	return up, ended
}

// TestAnswersBeforeItServes: health and readiness answer from the moment the
// listeners are open, and nothing else does.
func TestAnswersBeforeItServes(t *testing.T) {
	c := testConfig(t, shortDir(t))
	cl, err := client.New("unix:"+c.Listen.Unix, "default")
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	asked := make(chan error, 1)
	up, ended := background(ctx, newDaemon(c, slog.New(slog.DiscardHandler), ""), func() error {
		r, err := cl.Ready(t.Context())
		if err == nil && (r.Ready || r.Phase != "recovering") {
			err = errors.New("ready before the store is open")
		}
		_, getErr := cl.Get(t.Context(), "k")
		var e *client.Error
		if !errors.As(getErr, &e) || e.Code() != "not_ready" {
			err = errors.Join(err, fmt.Errorf("get: %w", getErr))
		}
		asked <- err
		return nil
	})
	if err := <-asked; err != nil {
		t.Error(err)
	}
	<-up
	if r, err := cl.Ready(t.Context()); err != nil || !r.Ready {
		t.Errorf("while serving: got %+v, %v", r, err)
	}
	cancel()
	if err := <-ended; err != nil {
		t.Error(err)
	}
}

// TestStopIsBounded: a client that never ends its request does not hold the
// daemon up, and its slots come back.
func TestStopIsBounded(t *testing.T) {
	dir := shortDir(t)
	c := testConfig(t, dir)
	d := newDaemon(c, slog.New(slog.DiscardHandler), "")
	d.stopWithin, d.requestsWithin = time.Minute, 50*time.Millisecond // what comes after may take its time
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	up, ended := background(ctx, d, func() error { return nil })
	<-up
	conn, err := net.Dial("unix", c.Listen.Unix)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	_, err = conn.Write([]byte("PUT /v1/kv/default/half HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 3000000\r\n\r\n"))
	if err != nil {
		t.Fatal(err)
	}
	b := make([]byte, 64)
	if n, err := conn.Read(b); err != nil || !strings.HasPrefix(string(b[:n]), "HTTP/1.1 100 ") {
		t.Fatalf("got %q, %v, want to be told to go on", b[:n], err)
	}
	cancel() // the daemon waits for the body now
	if err := <-ended; err != nil {
		t.Errorf("stop: %v", err)
	}
	_, addr := serveIn(t, dir)
	if got := ok(t, "ls", "--addr", addr); got != "" {
		t.Errorf("half a payload was published: %s", got)
	}
}
