// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"net"
	"net/http"
	"net/netip"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rawblockd/rawblockd/api"
)

func (r *rig) leaseListener(from string, allow ...string) *http.Client {
	r.t.Helper()
	o := LeaseOptions{Namespaces: []string{"default"}}
	for _, a := range allow {
		o.Allow = append(o.Allow, netip.MustParsePrefix(a))
	}
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(r.t, err)
	r.run(r.srv.Listener(l), r.srv.LeaseHandler(o))
	d := net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(from)}}
	tr := &http.Transport{DialContext: func(ctx context.Context, _, _ string) (net.Conn, error) {
		return d.DialContext(ctx, "tcp", l.Addr().String())
	}}
	r.t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: checked(r.t, "lease", tr)}
}

// The lease listener has three routes, beside the contract, and the namespaces it was given, and asks
// for no token where all others do.
func TestLeaseListener(t *testing.T) {
	r := newAuthRig(t)
	c, unix := r.leaseListener("127.0.0.1", "127.0.0.0/8"), r.unix()
	do(t, c, "PUT", "/v1/kv/default/k", strings.NewReader("bytes")).ok(t)
	do(t, c, "PUT", "/v1/kv/default/k", strings.NewReader("bytes"), "Authorization", "Bearer of nothing").want(t, 409, "exists", "")
	do(t, c, "POST", "/v1/kv/default/none/leases?timeout_ms=1000&ttl_s=30.0", nil).want(t, 504, "missing", "")
	do(t, c, "POST", "/v1/kv/default/k/leases?timeout_ms=1000&ttl_s=30.0", nil).want(t, 503, "no_segment", "namespace")
	do(t, c, "POST", "/v1/leases/none/release", nil).ok(t)
	do(t, c, "GET", "/openapi.json", nil).ok(t)
	if a := do(t, unix, "GET", "/v1/kv/default/k", nil).ok(t); string(a.body) != "bytes" {
		t.Errorf("got %q", a.body)
	}

	for _, rt := range append(r.srv.dataRoutes(Unix).routes, r.srv.adminRoutes().routes...) {
		for method := range rt.methods {
			path := strings.NewReplacer("{namespace}", "default", "{key}", "k", "{id}", "x", "{name}", "fast0", "{profile}", "heap").Replace(rt.pattern)
			switch method + " " + rt.pattern {
			case "PUT /v1/kv/{namespace}/{key}", "POST /v1/kv/{namespace}/{key}/leases", "POST /v1/leases/{id}/release", "GET /openapi.json":
				continue
			}
			if a := do(t, c, method, path, nil); a.code != 404 || method != "HEAD" && a.problem().Code != "not_found" || a.header.Get("Allow") != "" {
				t.Errorf("%s %s: got %d %s, want 404", method, path, a.code, a.body)
			}
		}
	}
	do(t, c, "PUT", "/v1/kv/default/k", strings.NewReader("x"), "Host", "evil.example").want(t, 403, "foreign_host", "Host")
	do(t, c, "PUT", "/v1/kv/default/k", strings.NewReader("x"), "Origin", "http://evil.example").want(t, 403, "foreign_origin", "Origin")
}

// Without a token nobody changes what others stored, or says what it belongs to.
func TestLeaseListenerTakesNewKeysOnly(t *testing.T) {
	r := newAuthRig(t)
	c, unix := r.leaseListener("127.0.0.1", "127.0.0.0/8"), r.unix()
	mustStore(t, unix, 10, "k")
	for query, field := range map[string]string{
		"overwrite=true": "overwrite", "overwrite=true&force=true": "overwrite", "force=1": "force", "after=k": "after", "family=k": "family", "overwrite=": "overwrite",
	} {
		do(t, c, "PUT", "/v1/kv/default/k?"+query, strings.NewReader("theirs")).want(t, 400, "unsupported_field", field)
	}
	do(t, c, "PUT", "/v1/kv/default/new?ttl_ms=60000&deadline_ms=4000", strings.NewReader("mine")).ok(t)
	if a := do(t, unix, "GET", "/v1/kv/default/k", nil).ok(t); string(a.body) != string(data("k", 10)) {
		t.Errorf("got %q", a.body)
	}
}

// A key that is there is answered so, without memory and however slowly its bytes
// come: its sender takes that for success.
func TestLeaseListenerSlowPutOfStoredKey(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *rigOptions) { o.pace = testPace })
		h := r.srv.LeaseHandler(LeaseOptions{Namespaces: []string{"default"}, Allow: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")}})
		l, own := newPipe(), newPipe()
		r.serve(own, r.srv.DataHandler(Unix))
		r.run(r.srv.Listener(l), http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			req.RemoteAddr = "192.0.2.1:5" // a pipe has none
			h.ServeHTTP(w, req)
		}))
		mustStore(t, dialing(t, own.dial), 10, "k")
		held(t, r, 0, time.Minute) // there is no memory at all
		for name, sent := range map[string]string{"nothing": "", "a part": "abc"} {
			c := newRaw(t, l.dial())
			began := time.Now()
			c.write("PUT /v1/kv/default/k HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\n" + sent)
			a := c.answer()
			a.want(t, 409, "exists", "")
			if took := time.Since(began); took != leasePatience || !a.closes {
				t.Errorf("%s sent: took %v, want %v; connection closed: %v", name, took, leasePatience, a.closes)
			}
			c.conn.Close()
		}
		time.Sleep(time.Minute)
	})
}

// A namespace that is not listed is as one that does not exist, and so is a
// lease in it.
func TestLeaseListenerIsBlind(t *testing.T) {
	r := newAuthRig(t)
	c, unix := r.leaseListener("127.0.0.1", "127.0.0.0/8"), r.unix()
	storeFrames(t, unix, "namespace=other", frames("k", []byte("theirs"))).ok(t)
	for _, path := range []string{"PUT /v1/kv/NS/k", "POST /v1/kv/NS/k/leases"} {
		method, path, _ := strings.Cut(path, " ")
		ask := func(ns string) answer {
			return do(t, c, method, strings.ReplaceAll(path, "NS", ns), nil, "Content-Length", "0")
		}
		theirs, none := ask("other"), ask("nowhr")
		if got := strings.ReplaceAll(string(theirs.body), "other", "nowhr"); theirs.code != none.code || got != string(none.body) {
			t.Errorf("%s: got %s, and of none %s", path, theirs.body, none.body)
		}
	}
	var pinned api.PinResponse
	post(t, unix, "/v1/batch/pin", `{"namespace":"other","keys":["k"]}`, &pinned)
	a := do(t, c, "POST", "/v1/leases/"+pinned.Lease.ID+"/release", nil).ok(t)
	if b := do(t, c, "POST", "/v1/leases/none/release", nil); string(a.body) != string(b.body) {
		t.Errorf("got %s, and of none %s", a.body, b.body)
	}
	do(t, unix, "GET", "/v1/leases/"+pinned.Lease.ID, nil).ok(t)
}

func TestLeaseListenerByAddress(t *testing.T) {
	r := newRig(t)
	do(t, r.leaseListener("127.0.0.2", "10.0.0.0/8", "127.0.0.2/32"), "PUT", "/v1/kv/default/k", strings.NewReader("x")).ok(t)
	for _, path := range []string{"/v1/kv/default/k2", "/v1/nothing"} {
		a := do(t, r.leaseListener("127.0.0.1", "10.0.0.0/8", "127.0.0.2/32"), "PUT", path, strings.NewReader("x"))
		a.want(t, 403, "foreign_address", "")
		if !a.closes {
			t.Error("the connection of a stranger stays open")
		}
	}
	do(t, r.leaseListener("127.0.0.1"), "PUT", "/v1/kv/default/k2", strings.NewReader("x")).want(t, 403, "foreign_address", "")
	do(t, r.unix(), "GET", "/v1/kv/default/k2", nil).want(t, 404, "missing", "")
}

func TestAdmit(t *testing.T) {
	o := LeaseOptions{Allow: []netip.Prefix{netip.MustParsePrefix("10.0.0.0/8"), netip.MustParsePrefix("fe80::/10"), netip.MustParsePrefix("::1/128")}}
	for from, ok := range map[string]bool{
		"10.1.2.3:5": true, "[::ffff:10.1.2.3]:5": true, "[fe80::1%eth0]:5": true, "[::1]:5": true,
		"11.0.0.1:5": false, "127.0.0.1:5": false, "[::2]:5": false, "pipe": false, "": false, "@": false,
	} {
		if err := o.admit(&http.Request{RemoteAddr: from}); (err == nil) != ok {
			t.Errorf("%q: got %v, want admitted: %v", from, err, ok)
		}
	}
}

// Whatever hangs, a request there is answered before its sender gives up.
func TestLeaseListenerIsInTime(t *testing.T) {
	const put = "PUT /v1/kv/default/k HTTP/1.1\r\nHost: localhost\r\nContent-Length: 3\r\n\r\n"
	for name, tt := range map[string]struct {
		hang func(t *testing.T, r *rig)
		body string
		code int
		word string
		took time.Duration
	}{
		"device": {func(_ *testing.T, r *rig) { time.AfterFunc(time.Minute, r.dev.Hang(0, r.o.size)) }, "abc", 504, "deadline", leasePatience},
		"body":   {func(*testing.T, *rig) {}, "ab", 504, "deadline", leasePatience},
		"memory": {func(t *testing.T, r *rig) { held(t, r, 0, time.Minute) }, "abc", 503, "busy", leasePatience / 2},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, func(o *rigOptions) { o.pace = testPace })
				h := r.srv.LeaseHandler(LeaseOptions{Namespaces: []string{"default"}, Allow: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")}})
				l := newPipe()
				r.run(r.srv.Listener(l), http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
					req.RemoteAddr = "192.0.2.1:5" // a pipe has none
					h.ServeHTTP(w, req)
				}))
				tt.hang(t, r)
				c := l.dial()
				began := time.Now()
				exchangeRaw(t, c, put+tt.body).want(t, tt.code, tt.word, "")
				if took := time.Since(began); took != tt.took {
					t.Errorf("took %v, want %v", took, tt.took)
				}
				c.Close()
				time.Sleep(time.Minute)
			})
		})
	}
}

// Of a stranger nothing is read but the header: the answer does not wait for a body,
// and the connection ends with it.
func TestLeaseListenerDoesNotReadStrangers(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t, func(o *rigOptions) { o.pace = testPace })
		h := r.srv.LeaseHandler(LeaseOptions{Namespaces: []string{"default"}, Allow: []netip.Prefix{netip.MustParsePrefix("192.0.2.1/32")}})
		l := newPipe()
		r.run(r.srv.Listener(l), http.HandlerFunc(func(w http.ResponseWriter, req *http.Request) {
			req.RemoteAddr = "192.0.2.2:5" // a pipe has none
			h.ServeHTTP(w, req)
		}))
		c := l.dial()
		defer c.Close()
		began := time.Now()
		a := exchangeRaw(t, c, "PUT /v1/kv/default/k HTTP/1.1\r\nHost: localhost\r\nContent-Length: 1000000\r\n\r\nabc")
		a.want(t, 403, "foreign_address", "")
		if took := time.Since(began); took != 0 || !a.closes {
			t.Errorf("answered after %v, closed: %v", took, a.closes)
		}
	})
}
