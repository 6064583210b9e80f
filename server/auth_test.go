// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/rawblockd/rawblockd/tokens"
)

// Tokens of these tests: a may use "default", and "ghost", which there is not, b
// "other", the operator all.
const (
	tokenA   = "the-token-of-tenant-a"
	tokenB   = "the-token-of-tenant-b"
	tokenAdm = "the-token-of-the-operator"
)

func testTokens(t testing.TB) *tokens.Set {
	t.Helper()
	s, err := tokens.Parse("tokens", []byte(`
- {name: tenant-a, token: `+tokenA+`, namespaces: [default, ghost]}
- {name: tenant-b, token: `+tokenB+`, namespaces: [other]}
- {name: operator, token: `+tokenAdm+`, namespaces: ["*"], admin: true}
`))
	must(t, err)
	return s
}

func newAuthRig(t testing.TB, change ...func(*rigOptions)) *rig {
	t.Helper()
	r := newRig(t, change...)
	r.srv.SetTokens(testTokens(t))
	return r
}

// as makes a client that presents a token. It leaves alone what a request says
// by itself.
func as(c *http.Client, token string) *http.Client {
	d := *c
	d.Transport = bearerTransport{c.Transport, token}
	return &d
}

type bearerTransport struct {
	http.RoundTripper
	token string
}

// RoundTrip implements http.RoundTripper.
func (b bearerTransport) RoundTrip(r *http.Request) (*http.Response, error) {
	r = r.Clone(r.Context())
	r.Header.Set("Authorization", "Bearer "+b.token)
	return b.RoundTripper.RoundTrip(r)
}

// What is no valid token is answered the same, whatever it is.
func TestUnauthorized(t *testing.T) {
	log := &bytes.Buffer{}
	r := newAuthRig(t, func(o *rigOptions) {
		o.log = slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelDebug}))
	})
	tcp, _ := r.tcp()
	for name, c := range map[string]*http.Client{"tcp": tcp, "admin": r.admin()} {
		first := do(t, c, "GET", "/v1/info", nil)
		first.want(t, 401, "unauthorized", "Authorization")
		if got := first.header.Get("WWW-Authenticate"); got != "Bearer" {
			t.Errorf("%s: WWW-Authenticate: got %q", name, got)
		}
		for _, given := range []string{
			"", "Bearer", "Bearer ", "Bearer x", "Bearer " + tokenA[1:], "Bearer " + tokenA + "x", "Bearer " + strings.ToUpper(tokenA),
			"Bearer " + strings.Repeat("x", 20<<10), "Basic " + tokenA, "bearer" + tokenA, tokenA, "Bearer " + tokenA + " " + tokenA, "Bearer\t" + tokenA,
		} {
			if a := do(t, c, "GET", "/v1/info", nil, "Authorization", given); a.code != 401 || !bytes.Equal(a.body, first.body) || a.header.Get("WWW-Authenticate") != "Bearer" {
				t.Errorf("%s, %.40q: got %d %s, want %s", name, given, a.code, a.body, first.body)
			}
		}
		for _, given := range []string{"Bearer " + tokenAdm, "bearer " + tokenAdm, "BEARER  " + tokenAdm + " "} {
			do(t, c, "GET", "/v1/info", nil, "Authorization", given).ok(t)
		}
		// Whoever has none does not learn which routes there are, either.
		if a := do(t, c, "GET", "/v1/nothing", nil); !bytes.Equal(a.body, first.body) {
			t.Errorf("%s: unknown route: got %d %s", name, a.code, a.body)
		}
		for _, open := range []string{"/healthz", "/readyz"} {
			do(t, c, "GET", open, nil).ok(t)
			do(t, c, "HEAD", open, nil, "Authorization", "Bearer x").ok(t)
		}
	}
	two, err := http.NewRequest("GET", "http://localhost/v1/info", nil)
	must(t, err)
	two.Header["Authorization"] = []string{"Bearer " + tokenA, "Bearer " + tokenA}
	send(t, tcp, two).want(t, 401, "unauthorized", "Authorization")
	if s := log.String(); strings.Contains(s, "the-token") || !strings.Contains(s, "no valid token") {
		t.Errorf("the log holds a token, or nothing: %s", s)
	}
}

// A body is drained before the refusal, and changes nothing.
func TestUnauthorizedStoreLeavesNothing(t *testing.T) {
	r := newAuthRig(t)
	tcp, _ := r.tcp()
	do(t, tcp, "PUT", "/v1/kv/default/k", bytes.NewReader(data("k", 3<<20))).want(t, 401, "unauthorized", "Authorization")
	storeFrames(t, as(tcp, tokenB), "namespace=default", frames("k", data("k", 1000))).want(t, 404, "unknown_namespace", "namespace")
	do(t, as(tcp, tokenA), "GET", "/v1/kv/default/k", nil).want(t, 404, "missing", "")
}

// The mode of the socket is its guard; a token given there counts.
func TestTokensOnTheSocket(t *testing.T) {
	r := newAuthRig(t)
	c := r.unix()
	mustStore(t, c, 10, "k")
	do(t, c, "GET", "/v1/status", nil).ok(t)
	do(t, as(c, tokenA), "GET", "/v1/kv/default/k", nil).ok(t)
	do(t, as(c, tokenB), "GET", "/v1/kv/default/k", nil).want(t, 404, "unknown_namespace", "namespace")
	do(t, as(c, tokenB), "GET", "/v1/status", nil).want(t, 403, "forbidden", "Authorization")
	do(t, as(c, tokenAdm), "GET", "/v1/status", nil).ok(t)
	do(t, as(c, "no-token-of-the-file"), "GET", "/v1/kv/default/k", nil).want(t, 401, "unauthorized", "Authorization")
	do(t, c, "GET", "/v1/kv/default/k", nil, "Authorization", "Basic eDp5").want(t, 401, "unauthorized", "Authorization")
}

func TestAdminNeedsAnAdministrator(t *testing.T) {
	r := newAuthRig(t)
	admin := r.admin()
	for _, path := range []string{"/metrics", "/v1/status", "/v1/slabs", "/v1/info", "/debug/pprof", "/debug/pprof/cmdline"} {
		do(t, admin, "GET", path, nil).want(t, 401, "unauthorized", "Authorization")
		do(t, as(admin, tokenA), "GET", path, nil).want(t, 403, "forbidden", "Authorization")
		do(t, as(admin, tokenAdm), "GET", path, nil).ok(t)
	}
}

// Without a file nobody needs a token, and one that is sent is of no interest.
// What is set later counts from the next request on.
func TestTokensChange(t *testing.T) {
	r := newRig(t)
	tcp, _ := r.tcp()
	do(t, tcp, "GET", "/v1/info", nil).ok(t)
	do(t, tcp, "GET", "/v1/info", nil, "Authorization", "Basic eDp5").ok(t)
	r.srv.SetTokens(testTokens(t))
	do(t, tcp, "GET", "/v1/info", nil).want(t, 401, "unauthorized", "Authorization")
	do(t, as(tcp, tokenA), "GET", "/v1/info", nil).ok(t)
	only, err := tokens.Parse("tokens", []byte("- {name: b, token: "+tokenB+", namespaces: [default]}"))
	must(t, err)
	r.srv.SetTokens(only)
	do(t, as(tcp, tokenA), "GET", "/v1/info", nil).want(t, 401, "unauthorized", "Authorization")
	do(t, as(tcp, tokenB), "GET", "/v1/info", nil).ok(t)
	r.srv.SetTokens(nil)
	do(t, tcp, "GET", "/v1/info", nil).ok(t)
}

// A handler never sees the token, so nothing it logs or answers can hold it.
func TestTokenIsTakenOff(t *testing.T) {
	r := newAuthRig(t)
	h := r.srv.wrap(TCP, http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		fmt.Fprintf(w, "%v %s", r.Header, w.(*exchange).access.name)
	}))
	a := do(t, as(r.serveAs("", listen(t), h), tokenA), "GET", "/v1/info", nil)
	if got := string(a.body); strings.Contains(got, "Authorization") || !strings.HasSuffix(got, " tenant-a") {
		t.Errorf("got %s", got)
	}
}
