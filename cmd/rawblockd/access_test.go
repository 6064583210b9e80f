// SPDX-License-Identifier: Apache-2.0

package main

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strings"
	"testing"
	"time"

	"github.com/rawblockd/rawblockd/config"
	"github.com/rawblockd/rawblockd/internal/testcert"
	"github.com/rawblockd/rawblockd/tokens"
)

const (
	tenantToken   = "the-token-of-a-tenant"
	operatorToken = "the-token-of-the-operator"
)

// inFile writes a file that nobody else may read, and returns its path.
func inFile(t *testing.T, dir, name, text string) string {
	t.Helper()
	path := filepath.Join(dir, name)
	if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// secured is a configuration with tokens and a certificate, TCP listeners on
// loopback, and the lease listener.
func secured(t *testing.T, dir string, ca *testcert.Authority) *config.Config {
	t.Helper()
	c := testConfig(t, dir)
	c.Listen.HTTP, c.Listen.Admin = "127.0.0.1:0", "127.0.0.1:0"
	c.Listen.Lease.Addr, c.Listen.Lease.Namespaces = "127.0.0.1:0", []string{"default"}
	c.Auth.TokenFile = inFile(t, dir, "tokens.yaml", "- {name: tenant, token: "+tenantToken+", namespaces: [default]}\n- {name: ops, token: "+operatorToken+", namespaces: ['*'], admin: true}\n")
	c.TLS.CertFile, c.TLS.KeyFile = ca.Issue(t, time.Now().Add(90*24*time.Hour), "cache.example").Write(t, dir)
	return c
}

// address returns where the listener of this name listens, from the log.
func (s *serving) address(listener string) string {
	s.t.Helper()
	m := regexp.MustCompile(` ` + listener + `=(127\S+)`).FindStringSubmatch(s.log.String())
	if m == nil {
		s.t.Fatalf("the log does not say where %s listens: %s", listener, s.log)
	}
	return m[1]
}

// failed runs a command line that must fail and say why on one line.
func failed(t *testing.T, want string, args ...string) {
	t.Helper()
	r := command(t, args...)
	if r.code != exitFailed || !strings.Contains(r.errors, want) || strings.Count(r.errors, "\n") != 1 {
		t.Errorf("%v: got %+v, want %s", args, r, want)
	}
}

// TestSecured: tokens and TLS from the command line to the daemon, and what is
// said when one of them is wrong.
func TestSecured(t *testing.T) {
	dir := shortDir(t)
	ca := testcert.New(t)
	s := serve(t, "--config", write(t, secured(t, dir, ca)))
	http, admin, lease := s.address("http"), s.address("admin"), s.address("lease")
	tenant, operator := inFile(t, dir, "tenant", tenantToken+"\n"), inFile(t, dir, "operator", operatorToken)
	trusted, foreign := inFile(t, dir, "ca.pem", string(ca.PEM())), inFile(t, dir, "other.pem", string(testcert.New(t).PEM()))

	with := func(args ...string) []string {
		return append(args, "--addr", "https://"+http, "--token-file", tenant, "--ca-file", trusted)
	}
	if r := commandWith(t.Context(), "hello", with("put", "k")...); r.code != exitOK {
		t.Fatalf("put: %+v", r)
	}
	if got := ok(t, with("get", "k")...); got != "hello" {
		t.Errorf("got %q", got)
	}
	failed(t, "unknown namespace", with("get", "k", "-n", "elsewhere")...)
	ok(t, "status", "--addr", "https://"+admin, "--token-file", operator, "--ca-file", trusted)
	failed(t, "the token does not give this right", "status", "--addr", "https://"+admin, "--token-file", tenant, "--ca-file", trusted)
	ok(t, "status", "--addr", "unix:"+filepath.Join(dir, "rawblockd.sock"))

	failed(t, "name a file that holds yours with --token-file, or set $RAWBLOCKD_TOKEN", "get", "k", "--addr", "https://"+http, "--ca-file", trusted)
	failed(t, "name a file that holds yours with --token-file", "get", "k", "--addr", "https://"+http, "--ca-file", trusted, "--token-file", inFile(t, dir, "wrong", tenantToken+"x"))
	failed(t, "name the authority's certificate with --ca-file", "get", "k", "--addr", "https://"+http, "--token-file", tenant, "--ca-file", foreign)
	failed(t, "name the authority's certificate with --ca-file", "get", "k", "--addr", "https://"+http, "--token-file", tenant)
	failed(t, "this port speaks TLS: use https://", "get", "k", "--addr", "http://"+http, "--token-file", tenant)
	failed(t, "it speaks plain HTTP there: give --addr http://", "get", "k", "--addr", "https://"+lease, "--token-file", tenant, "--ca-file", trusted)
	failed(t, "no such route", "get", "k", "--addr", "http://"+lease)
	if r := commandWith(t.Context(), "hello", "put", "k2", "--addr", "http://"+lease); r.code != exitOK {
		t.Errorf("put through the lease listener: %+v", r)
	}

	t.Setenv("RAWBLOCKD_ADDR", "https://"+http)
	t.Setenv("RAWBLOCKD_CA_FILE", trusted)
	t.Setenv("RAWBLOCKD_TOKEN_FILE", tenant)
	if got := ok(t, "get", "k2"); got != "hello" {
		t.Errorf("by the environment: got %q", got)
	}
	t.Setenv("RAWBLOCKD_TOKEN", tenantToken+"x")
	failed(t, "a token is needed", "get", "k")
	ok(t, "get", "k", "--token-file", tenant)
	ok(t, "get", "k", "--addr", "unix:"+filepath.Join(dir, "rawblockd.sock"), "--token-file", tenant) // no TLS there, so the CA of the environment is of no interest
	s.end()
	if got := s.log.String(); strings.Contains(got, tenantToken) || strings.Contains(got, operatorToken) {
		t.Errorf("the log holds a token: %s", got)
	}
}

// TestExampleOfTokens: the file in docs/access.md is one that the daemon takes.
func TestExampleOfTokens(t *testing.T) {
	text, err := os.ReadFile("../../docs/access.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(text), "```yaml\n")
	example, _, _ := strings.Cut(rest, "```")
	set, err := tokens.Parse("docs/access.md", []byte(example))
	if err != nil || set.Len() != 4 || !set.Find("and-another-one-for-the-operator").Admin {
		t.Errorf("got %+v, %v", set, err)
	}
}

func TestWrongTokenFile(t *testing.T) {
	dir := t.TempDir()
	for name, tt := range map[string]struct{ path, want string }{
		"missing":      {filepath.Join(dir, "none"), "no such file or directory"},
		"empty":        {inFile(t, dir, "empty", "\n"), "want one token and nothing else in it"},
		"the daemon's": {inFile(t, dir, "yaml", "- {name: a, token: "+tenantToken+", namespaces: [n]}\n"), "the daemon's auth.token_file is another kind of file"},
	} {
		r := command(t, "get", "k", "--addr", "http://127.0.0.1:1", "--token-file", tt.path)
		if r.code != exitUsage || !strings.Contains(r.errors, tt.want) || !strings.Contains(r.errors, "--token-file "+tt.path) || strings.Contains(r.errors, tenantToken) {
			t.Errorf("%s: got %+v, want %s", name, r, tt.want)
		}
	}
}

// TestRefusedSecrets: a file of tokens or a certificate that is no good is
// refused with all that is wrong, and what to do.
func TestRefusedSecrets(t *testing.T) {
	ca := testcert.New(t)
	for name, tt := range map[string]struct {
		spoil func(t *testing.T, c *config.Config)
		want  []string
	}{
		"open to others": {
			func(t *testing.T, c *config.Config) {
				if err := os.Chmod(c.Auth.TokenFile, 0o644); err != nil {
					t.Fatal(err)
				}
			},
			[]string{"auth.token_file: ", "its mode 0644 gives others rights on it: chmod o-rwx "},
		},
		"missing": {
			func(_ *testing.T, c *config.Config) {
				c.Auth.TokenFile += ".none"
				c.TLS.CertFile += ".none"
				c.TLS.KeyFile += ".none"
			},
			[]string{"3 faults", "auth.token_file: ", "there is no such file: make it with mode 0640", "tls.cert_file: ", "cert.pem.none: no such file", "tls.key_file: ", "key.pem.none: no such file"},
		},
		"bad tokens and another key": {
			func(t *testing.T, c *config.Config) {
				inFile(t, filepath.Dir(c.Auth.TokenFile), "tokens.yaml", "- {name: a, token: short, namespaces: [n]}\n- {name: a, token: "+tenantToken+"}\n")
				inFile(t, filepath.Dir(c.TLS.KeyFile), "key.pem", string(ca.Issue(t, time.Now().Add(time.Hour)).Key))
			},
			[]string{"3 faults", "tokens.yaml: line 1: [0].token: has 5 bytes", "line 2: [1].name: \"a\" is also the name of [0]", "tls: ", "are no certificate with its key: private key does not match public key"},
		},
		"beside other faults": {
			func(_ *testing.T, c *config.Config) { c.Auth.TokenFile += ".none"; c.Log.Level = "loud" },
			[]string{"2 faults", "auth.token_file: ", "there is no such file", `log.level: "loud" is not allowed`},
		},
	} {
		t.Run(name, func(t *testing.T) {
			c := secured(t, shortDir(t), ca)
			tt.spoil(t, c)
			path := write(t, c)
			for _, verb := range [][]string{{"serve"}, {"config", "check"}} {
				r := command(t, append(verb, "--config", path)...)
				if r.code != exitUsage {
					t.Errorf("%v: got %+v", verb, r)
				}
				for _, want := range tt.want {
					if !strings.Contains(r.errors, want) {
						t.Errorf("%v: got %s, want %s", verb, r.errors, want)
					}
				}
				if strings.Contains(r.errors, tenantToken) || strings.Contains(r.errors, "short") {
					t.Errorf("%v: repeats a token: %s", verb, r.errors)
				}
			}
		})
	}
}

// TestDangerIsTold: what is allowed and dangerous is in the log at the start, and
// in config check.
func TestDangerIsTold(t *testing.T) {
	ca := testcert.New(t)
	dir := shortDir(t)
	c := secured(t, dir, ca)
	c.TLS = config.TLS{}
	c.Listen.HTTP = "0.0.0.0:0"
	path := write(t, c)
	want := "listen.http: 0.0.0.0:0 is reachable from beyond this host without TLS, so tokens and payloads travel in the clear"
	if got := ok(t, "config", "check", "--config", path); !strings.Contains(got, "warning: "+want) {
		t.Errorf("check: got %s", got)
	}
	s := serve(t, "--config", path)
	s.end()
	if !strings.Contains(s.log.String(), `level=WARN msg=configuration warning="`+want) {
		t.Errorf("log: %s", s.log)
	}

	c = secured(t, dir, ca)
	c.TLS.CertFile, c.TLS.KeyFile = ca.Issue(t, time.Now().Add(-time.Hour)).Write(t, dir)
	if err := os.Chmod(c.TLS.KeyFile, 0o604); err != nil {
		t.Fatal(err)
	}
	s = serve(t, "--config", write(t, c))
	failed(t, "renew the daemon's certificate (tls.cert_file) and send it SIGHUP", "get", "k", "--addr", "https://"+s.address("http"),
		"--ca-file", inFile(t, dir, "ca.pem", string(ca.PEM())))
	s.end()
	for _, want := range []string{"clients refuse " + c.TLS.CertFile + ", which expired at ", "its mode 0604 gives others rights on " + c.TLS.KeyFile} {
		if !strings.Contains(s.log.String(), want) {
			t.Errorf("the log does not say %s: %s", want, s.log)
		}
	}
}

func TestCertificateWarnings(t *testing.T) {
	ca := testcert.New(t)
	c := secured(t, t.TempDir(), ca)
	var s secrets
	if faults := s.read(c); len(faults) != 0 {
		t.Fatal(faults)
	}
	end := s.cert.Leaf.NotAfter
	for at, want := range map[time.Time]string{
		end.Add(-soonExpired - time.Minute):     "",
		end.Add(-soonExpired + time.Minute):     "expires at",
		end.Add(time.Minute):                    "which expired at",
		s.cert.Leaf.NotBefore.Add(-time.Minute): "which is valid only from",
		s.cert.Leaf.NotBefore.Add(time.Minute):  "",
	} {
		got := strings.Join(s.warnings(c, at), "; ")
		if want == "" && got != "" || !strings.Contains(got, want) {
			t.Errorf("%v: got %q, want %q", at, got, want)
		}
	}
}

// TestTokensWithoutServe: a daemon that was not given its secrets reads them
// itself: it never serves without the tokens that it was told of.
func TestTokensWithoutServe(t *testing.T) {
	c := secured(t, shortDir(t), testcert.New(t))
	c.Auth.TokenFile += ".none"
	d := newDaemon(c, nil, "")
	if err := d.run(t.Context(), nil, nil); err == nil || !strings.Contains(fmt.Sprint(err), "there is no such file") {
		t.Errorf("got %v", err)
	}
}

func TestHostNames(t *testing.T) {
	own, err := os.Hostname()
	if err != nil {
		t.Fatal(err)
	}
	l := config.Listen{HTTP: "cache.example:9200", Admin: "127.0.0.1:9201", Lease: config.Lease{Addr: ":9300"}}
	if got := strings.Join(hostNames(l), " "); got != own+" cache.example" {
		t.Errorf("got %s", got)
	}
}
