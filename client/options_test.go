// SPDX-License-Identifier: Apache-2.0

package client

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rawblockd/rawblockd/api"
	"github.com/rawblockd/rawblockd/internal/testcert"
)

const testToken = "the-token-of-a-test"

// Every request has the token, and no error has it.
func TestToken(t *testing.T) {
	seen := 0
	h := func(w http.ResponseWriter, r *http.Request) {
		if got := r.Header.Values("Authorization"); len(got) != 1 || got[0] != "Bearer "+testToken {
			t.Errorf("%s %s: Authorization is %q", r.Method, r.URL, got)
		}
		seen++
		problem(w, api.NewProblem(401, api.CodeUnauthorized, "Authorization", "no"))
	}
	srv := httptest.NewServer(http.HandlerFunc(h))
	defer srv.Close()
	c, err := New(srv.URL, "ns", WithToken(testToken))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	ctx := t.Context()
	_, get := c.In("other").Get(ctx, "k")
	_, put := c.Put(ctx, "k", strings.NewReader("x"), 1, PutOptions{})
	_, ready := c.Ready(ctx)
	_, lookup := c.Lookup(ctx, []string{"k"}, LookupOptions{})
	_, store := c.Store(ctx, func(yield func(Item) bool) { yield(Item{Key: "k", Bytes: 1, Body: strings.NewReader("x")}) }, StoreOptions{})
	var load error
	for _, err := range c.Load(ctx, []string{"k"}) {
		load = err
	}
	for i, err := range []error{get, put, ready, lookup, store, load} {
		var e *Error
		if !errors.As(err, &e) || e.Code() != api.CodeUnauthorized || strings.Contains(err.Error(), testToken) {
			t.Errorf("%d: got %v", i, err)
		}
	}
	if seen != 6 {
		t.Errorf("%d requests came, want 6", seen)
	}
}

// A token is for the daemon it was given for, not for where that points.
func TestTokenIsNotPassedOn(t *testing.T) {
	elsewhere := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		t.Errorf("a request went on to another host: %v", r.Header)
	}))
	defer elsewhere.Close()
	srv := httptest.NewServer(http.RedirectHandler(elsewhere.URL, http.StatusTemporaryRedirect))
	defer srv.Close()
	c, err := New(srv.URL, "ns", WithToken(testToken))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Get(t.Context(), "k"); err == nil {
		t.Error("got an object")
	}
}

func TestOptions(t *testing.T) {
	dir := t.TempDir()
	junk, ca := filepath.Join(dir, "junk"), filepath.Join(dir, "ca.pem")
	for path, text := range map[string][]byte{junk: []byte("no PEM"), ca: testcert.New(t).PEM()} {
		if err := os.WriteFile(path, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	for name, tt := range map[string]struct {
		addr string
		o    Option
		want string
	}{
		"no token":        {"http://h:1", WithToken(""), "the token is empty"},
		"a newline":       {"http://h:1", WithToken(testToken + "\n"), "characters that no header carries"},
		"missing CA file": {"https://h:1", WithCAFile(filepath.Join(dir, "none")), "no such file"},
		"no CA in it":     {"https://h:1", WithCAFile(junk), "holds no certificate: want PEM"},
		"CA without TLS":  {"http://h:1", WithCAFile(ca), "a CA file is for https://"},
		"CA on a socket":  {"unix:/s", WithCAFile(ca), "a CA file is for https://"},
	} {
		if _, err := New(tt.addr, "ns", tt.o); err == nil || !strings.Contains(err.Error(), tt.want) || strings.Contains(err.Error(), testToken) {
			t.Errorf("%s: got %v, want %s", name, err, tt.want)
		}
	}
	for _, addr := range []string{"https://h:1", "HTTPS://h:1"} {
		if _, err := New(addr, "ns", WithCAFile(ca), WithToken(testToken)); err != nil {
			t.Errorf("%s: %v", addr, err)
		}
	}
}

func TestTLS(t *testing.T) {
	ca, other := testcert.New(t), testcert.New(t)
	write := func(a *testcert.Authority) string {
		path := filepath.Join(t.TempDir(), "ca.pem")
		if err := os.WriteFile(path, a.PEM(), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	start := func(ends time.Time) string {
		srv := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { reply(w, api.Info{API: "v1"}) }))
		srv.TLS = &tls.Config{Certificates: []tls.Certificate{*ca.Issue(t, ends).TLS(t)}}
		srv.Config.ErrorLog = nil
		srv.StartTLS()
		t.Cleanup(srv.Close)
		return srv.URL
	}
	addr, expired := start(time.Now().Add(time.Hour)), start(time.Now().Add(-time.Hour))
	ask := func(addr string, with ...Option) error {
		c, err := New(addr, "ns", with...)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		_, err = c.Info(t.Context())
		return err
	}
	if err := ask(addr, WithCAFile(write(ca))); err != nil {
		t.Errorf("the right CA: %v", err)
	}
	var unknown x509.UnknownAuthorityError
	if err := ask(addr, WithCAFile(write(other))); !errors.As(err, &unknown) {
		t.Errorf("another CA: got %v", err)
	}
	if err := ask(addr); !errors.As(err, &unknown) {
		t.Errorf("the system's CAs: got %v", err)
	}
	var invalid x509.CertificateInvalidError
	if err := ask(expired, WithCAFile(write(ca))); !errors.As(err, &invalid) || invalid.Reason != x509.Expired {
		t.Errorf("expired: got %v", err)
	}
	plain := httptest.NewServer(http.NotFoundHandler())
	defer plain.Close()
	if err := ask(strings.Replace(plain.URL, "http:", "https:", 1)); !errors.Is(err, http.ErrSchemeMismatch) {
		t.Errorf("no TLS there: got %v", err)
	}
}
