// SPDX-License-Identifier: Apache-2.0

package main

import (
	"context"
	"crypto/tls"
	"errors"
	"fmt"
	"io"
	"net"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/client"
	"github.com/rawblockd/rawblockd/config"
	"github.com/rawblockd/rawblockd/internal/testcert"
)

const (
	readAnew = "SIGHUP: the configuration was read anew"
	refusal  = "SIGHUP: nothing was changed"
)

// hup sends SIGHUP and returns what the daemon logs of it; said is the end of it.
func (s *serving) hup(said string) string {
	s.t.Helper()
	s.log.forget()
	seen := s.log.await(said)
	if err := unix.Kill(os.Getpid(), unix.SIGHUP); err != nil {
		s.t.Fatal(err)
	}
	s.wait(seen)
	return s.log.String()
}

// wait fails when what must be said is not.
func (s *serving) wait(seen <-chan struct{}) {
	s.t.Helper()
	select {
	case <-seen:
	case <-time.After(time.Minute):
		s.t.Fatalf("it was not said: %s", s.log)
	}
}

// traffic stores and loads until it is stopped, and nothing of it may fail.
type traffic struct {
	stop  context.CancelFunc
	ended sync.WaitGroup
}

func begin(t *testing.T, clients ...*client.Client) *traffic {
	ctx, stop := context.WithCancel(t.Context())
	tr := &traffic{stop: stop}
	for i, cl := range clients {
		tr.ended.Go(func() {
			for n := 0; ctx.Err() == nil; n++ {
				if err := turn(t.Context(), cl, fmt.Sprintf("traffic-%d-%d", i, n%10)); err != nil {
					t.Errorf("traffic over %s: %v", cl.Addr(), err)
					return
				}
			}
		})
	}
	t.Cleanup(tr.end)
	return tr
}

// turn stores a key, loads it and removes it.
func turn(ctx context.Context, cl *client.Client, key string) error {
	if _, err := cl.Put(ctx, key, strings.NewReader(key), int64(len(key)), client.PutOptions{}); err != nil {
		return err
	}
	o, err := cl.Get(ctx, key)
	if err != nil {
		return err
	}
	defer o.Body.Close()
	if b, err := io.ReadAll(o.Body); err != nil || string(b) != key {
		return fmt.Errorf("got %q, %w", b, err)
	}
	_, err = cl.Delete(ctx, key, false)
	return err
}

func (tr *traffic) end() {
	tr.stop()
	tr.ended.Wait()
}

func connect(t *testing.T, addr string, with ...client.Option) *client.Client {
	t.Helper()
	cl, err := client.New(addr, "default", with...)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(cl.Close)
	return cl
}

// code is that of the problem that a request of cl meets; "": none.
func code(t *testing.T, cl *client.Client) string {
	t.Helper()
	_, err := cl.Info(t.Context())
	var e *client.Error
	switch {
	case err == nil:
		return ""
	case errors.As(err, &e):
		return e.Code()
	}
	t.Fatal(err)
	return ""
}

// serial is that of the certificate that a new connection is shown.
func serial(t *testing.T, addr string, ca *testcert.Authority) string {
	t.Helper()
	conn, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: ca.Pool()})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	return conn.ConnectionState().PeerCertificates[0].SerialNumber.String()
}

// TestReload changes each thing that SIGHUP applies while keys are stored and
// loaded over the socket and over TLS.
func TestReload(t *testing.T) {
	dir := shortDir(t)
	ca := testcert.New(t)
	c := secured(t, dir, ca)
	s := serve(t, "--config", write(t, c))
	socket, https := "unix:"+c.Listen.Unix, "https://"+s.address("http")
	http := s.address("http")
	roots := client.WithCAFile(inFile(t, dir, "ca.pem", string(ca.PEM())))
	keys := begin(t, connect(t, socket), connect(t, https, roots, client.WithToken(operatorToken)))

	t.Run("nothing", func(t *testing.T) {
		if got := s.hup(readAnew); !strings.Contains(got, "changed=[]") || strings.Contains(got, "restart") {
			t.Errorf("log: %s", got)
		}
	})
	t.Run("a namespace", func(t *testing.T) {
		failed(t, "unknown namespace", "get", "k", "-n", "more", "--addr", socket)
		n := config.DefaultNamespace()
		n.Name, n.Slabs, n.Quota, n.TTL = "more", []string{"dev"}, 2*config.MiB, 90*time.Minute
		c.Namespaces = append(c.Namespaces, n)
		write(t, c)
		if got := s.hup(readAnew); !strings.Contains(got, "changed=[namespaces]") {
			t.Errorf("log: %s", got)
		}
		set, err := connect(t, socket).In("more").Settings(t.Context())
		if err != nil || !slices.Equal(set.Slabs, []string{"dev"}) || set.Quota != int64(n.Quota) || set.TTLMS != n.TTL.Milliseconds() || !set.FromConfig {
			t.Errorf("got %+v, %v, want what the file says", set, err)
		}
		if r := commandWith(t.Context(), "x", "put", "k", "-n", "more", "--addr", socket); r.code != exitOK {
			t.Errorf("put: %+v", r)
		}
		if r := commandWith(t.Context(), "x", "put", "k2", "-n", "more", "--addr", socket); r.code != exitFailed || !strings.Contains(r.errors, "quota") {
			t.Errorf("beyond the quota: %+v", r)
		}
	})
	t.Run("a quota", func(t *testing.T) {
		c.Namespaces[1].Quota = 4 * config.MiB
		write(t, c)
		if got := s.hup(readAnew); !strings.Contains(got, "changed=[namespaces[1].quota]") {
			t.Errorf("log: %s", got)
		}
		if r := commandWith(t.Context(), "x", "put", "k2", "-n", "more", "--addr", socket); r.code != exitOK {
			t.Errorf("within the new quota: %+v", r)
		}
	})
	t.Run("tokens", func(t *testing.T) {
		tenant := connect(t, https, roots, client.WithToken(tenantToken))
		newcomer := connect(t, https, roots, client.WithToken("the-token-of-a-newcomer"))
		if code(t, tenant) != "" || code(t, newcomer) != api.CodeUnauthorized {
			t.Fatal("not the tokens of the start")
		}
		inFile(t, dir, "tokens.yaml", "- {name: newcomer, token: the-token-of-a-newcomer, namespaces: [default]}\n- {name: ops, token: "+operatorToken+", namespaces: ['*'], admin: true}\n")
		if got := s.hup(readAnew); !regexp.MustCompile(`changed="\[tokens: 2, 1 added, \d removed`).MatchString(got) {
			t.Errorf("log: %s", got)
		}
		if code(t, tenant) != api.CodeUnauthorized || code(t, newcomer) != "" {
			t.Error("the tokens are those of before")
		}
	})
	t.Run("the certificate", func(t *testing.T) {
		next := ca.Issue(t, time.Now().Add(90*24*time.Hour))
		before := serial(t, http, ca)
		next.Write(t, dir)
		if got := s.hup(readAnew); !strings.Contains(got, `changed="[certificate until `) {
			t.Errorf("log: %s", got)
		}
		if got := serial(t, http, ca); got != next.Serial || got == before {
			t.Errorf("got certificate %s, want %s", got, next.Serial)
		}
		expired := ca.Issue(t, time.Now().Add(-time.Hour))
		expired.Write(t, dir)
		if got := s.hup(readAnew); !strings.Contains(got, "which expired at") {
			t.Errorf("log: %s", got)
		}
		if _, err := connect(t, https, roots, client.WithToken(operatorToken)).Info(t.Context()); err == nil || !strings.Contains(err.Error(), "expired") {
			t.Errorf("got %v, want the expired certificate", err)
		}
		next.Write(t, dir)
		s.hup(readAnew)
	})
	t.Run("the log level", func(t *testing.T) {
		ask := func() { _ = code(t, connect(t, https, roots, client.WithToken("no-token-that-is-known"))) }
		s.log.forget()
		ask()
		if got := s.log.String(); strings.Contains(got, "level=DEBUG") {
			t.Errorf("log: %s", got)
		}
		c.Log.Level = "debug"
		write(t, c)
		if got := s.hup(readAnew); !strings.Contains(got, "changed=[log.level]") {
			t.Errorf("log: %s", got)
		}
		seen := s.log.await("level=DEBUG msg=\"request refused: no valid token\"")
		ask()
		s.wait(seen)
	})
	t.Run("what takes a restart", func(t *testing.T) {
		was := *c
		was.Slabs = append([]config.Slab(nil), c.Slabs...)
		c.Slabs[0].Workers, c.Listen.UnixMode, c.Limits.BatchKeys, c.Log.Format = 7, 0o600, 10, "json"
		write(t, c)
		got := s.hup(readAnew)
		for _, want := range []string{"setting=slabs[0].workers is=32 configured=7", "setting=listen.unix_mode is=0660 configured=0600", "setting=limits.batch_keys is=16384 configured=10", "setting=log.format is=text configured=json"} {
			if !strings.Contains(got, `level=WARN msg="SIGHUP: this setting takes a restart" `+want+"\n") {
				t.Errorf("the log does not say %s: %s", want, got)
			}
		}
		if n := strings.Count(got, "takes a restart"); n != 4 {
			t.Errorf("%d settings take a restart, want 4: %s", n, got)
		}
		*c = was
		write(t, c)
	})
	t.Run("faults", func(t *testing.T) { reloadFaults(t, s, c, https, roots) })
	t.Run("no tokens any more", func(t *testing.T) {
		was := c.Auth.TokenFile
		c.Auth.TokenFile = ""
		write(t, c)
		got := s.hup(readAnew)
		for _, want := range []string{"level=WARN", "auth.token_file is gone", "listen.http " + http, "changed=[auth.token_file]"} {
			if !strings.Contains(got, want) {
				t.Errorf("the log does not say %s: %s", want, got)
			}
		}
		c.Auth.TokenFile = was
		write(t, c)
		if got := s.hup(readAnew); strings.Contains(got, "is gone") || !strings.Contains(got, `changed="[auth.token_file tokens: 2, 2 added]"`) {
			t.Errorf("log: %s", got)
		}
	})
	keys.end()
	s.end()
}

// reloadFaults: whatever is wrong, each fault is a line of the log, and nothing
// at all is changed.
func reloadFaults(t *testing.T, s *serving, c *config.Config, https string, roots client.Option) {
	path := write(t, c)
	newcomer := connect(t, https, roots, client.WithToken("the-token-of-a-newcomer"))
	good := bytesOf(t, c.Auth.TokenFile)
	dir := filepath.Dir(c.Auth.TokenFile)
	for name, tt := range map[string]struct {
		spoil func()
		want  []string
	}{
		"no YAML": {func() { inFile(t, dir, filepath.Base(path), "slabs: [") }, []string{"line 1: it is no YAML"}},
		"two faults, a good quota and good tokens": {func() {
			bad := *c
			bad.Namespaces = append([]config.Namespace(nil), c.Namespaces...)
			bad.Namespaces[1].Quota = 0
			bad.Leases.MaxPinned, bad.Log.Level = 2, "loud"
			write(t, &bad)
			inFile(t, dir, "tokens.yaml", "- {name: other, token: the-token-of-another, namespaces: [default]}\n")
		}, []string{"leases.max_pinned: 2 is out of range", `log.level: \"loud\" is not allowed`}},
		"bad tokens, a good level": {func() {
			quiet := *c
			quiet.Log.Level = "error"
			write(t, &quiet)
			inFile(t, dir, "tokens.yaml", "- {name: a, token: short}\n- {nome: b}\n")
		}, []string{"[0].token: has 5 bytes", "[1]: an unknown key", "[1].name: is missing", "[1].token: is missing"}},
		"a namespace on a slab to come": {func() {
			more := *c
			slab := config.DefaultSlab()
			slab.Name, slab.Device = "next", filepath.Join(dir, "next.img")
			more.Slabs = append([]config.Slab{slab}, c.Slabs...)
			n := config.DefaultNamespace()
			n.Name, n.Slabs = "later", []string{"next"}
			more.Namespaces = append([]config.Namespace{n}, c.Namespaces...)
			write(t, &more)
			inFile(t, dir, "tokens.yaml", "- {name: other, token: the-token-of-another, namespaces: [default]}\n")
		}, []string{`namespaces[0].slabs[0]: \"next\" is not a slab`}},
	} {
		t.Run(name, func(t *testing.T) {
			tt.spoil()
			got := s.hup(refusal)
			for _, want := range tt.want {
				if !regexp.MustCompile(`(?m)^.*level=ERROR msg="SIGHUP: fault" fault=.*` + regexp.QuoteMeta(want)).MatchString(got) {
					t.Errorf("the log does not say %s: %s", want, got)
				}
			}
			if n := strings.Count(got, "SIGHUP: fault"); n != len(tt.want) {
				t.Errorf("%d faults, want %d: %s", n, len(tt.want), got)
			}
			write(t, c)
			inFile(t, dir, "tokens.yaml", good)
			if code(t, newcomer) != "" {
				t.Error("the tokens were changed")
			}
			if got := s.hup(readAnew); !strings.Contains(got, "changed=[]") {
				t.Errorf("something had been changed: %s", got)
			}
		})
	}
}

// TestReloadIsTold: a service manager hears of a reload since when it runs and
// when it is over, and of its end also when it was refused.
func TestReloadIsTold(t *testing.T) {
	name := filepath.Join(shortDir(t), "n")
	conn, err := net.ListenUnixgram("unixgram", &net.UnixAddr{Name: name, Net: "unixgram"})
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	hear := func() string {
		b := make([]byte, 100)
		_ = conn.SetReadDeadline(time.Now().Add(time.Minute))
		n, err := conn.Read(b)
		if err != nil {
			t.Fatal(err)
		}
		return string(b[:n])
	}
	t.Setenv("NOTIFY_SOCKET", name)
	dir := shortDir(t)
	s, _ := serveIn(t, dir)
	hear() // READY=1
	for _, spoilt := range []bool{false, true} {
		said := readAnew
		if spoilt {
			said = refusal
			inFile(t, dir, "meta.yaml", "slabs: [")
		}
		s.hup(said)
		if got := hear(); !regexp.MustCompile(`^RELOADING=1\nMONOTONIC_USEC=[1-9]\d+$`).MatchString(got) {
			t.Errorf("got %q", got)
		}
		if got := hear(); got != "READY=1" {
			t.Errorf("got %q", got)
		}
	}
	s.end()
	if got := hear(); got != "STOPPING=1" {
		t.Errorf("got %q", got)
	}
}

// TestReloadDuringTheStart: a SIGHUP that comes before the daemon serves is not
// lost.
func TestReloadDuringTheStart(t *testing.T) {
	c := testConfig(t, shortDir(t))
	log := newSignalWriter(readAnew)
	logger, level := newLogger(log, c.Log)
	d := newDaemon(c, logger, "")
	loads := 0
	d.level, d.load = level, func() (setup, error) {
		loads++
		return setup{c, &secrets{}}, nil
	}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	up, ended := background(ctx, d, func() error {
		d.hangup()
		d.hangup() // two that wait are one
		return nil
	})
	<-up
	<-log.seen
	cancel()
	if err := <-ended; err != nil || loads != 1 {
		t.Errorf("got %v and %d reloads, want 1", err, loads)
	}
}
