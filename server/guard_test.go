// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"io"
	"net/http"
	"strings"
	"testing"

	"github.com/rawblockd/rawblockd/api"
)

// A page of another origin, or one whose name points here, gets nothing.
func TestForeignHostAndOrigin(t *testing.T) {
	r := newRig(t)
	tcp, addr := r.tcp()
	unix, admin := r.unix(), r.admin()
	for host, ok := range map[string]bool{
		addr: true, "localhost": true, "LOCALHOST:9200": true, "localhost.": true, "127.0.0.1": true, "[::1]:9200": true, "[::1]": true,
		"10.1.2.3:9200": true, "kv.example": true, "KV.example:80": true,
		"evil.example": false, "evil.example:9200": false, "localhost.evil.example": false, "127.0.0.1.nip.example": false, "kv.example.evil": false,
	} {
		for name, c := range map[string]string{"/v1/info": "data", "/healthz": "admin"} {
			client := tcp
			if c == "admin" {
				client = admin
			}
			a := do(t, client, "GET", name, nil, "Host", host)
			if ok {
				a.ok(t)
			} else {
				a.want(t, 403, "foreign_host", "Host")
			}
		}
		do(t, unix, "GET", "/v1/info", nil, "Host", host).ok(t) // no browser gets there
	}
	for origin, ok := range map[string]bool{
		"http://localhost": true, "http://evil.example": false, "https://localhost:1": false, "null": false, "": false, "localhost": false,
	} {
		a := do(t, tcp, "GET", "/v1/info", nil, "Origin", origin)
		if ok {
			a.ok(t)
		} else {
			a.want(t, 403, "foreign_origin", "Origin")
		}
		// No page changes anything, not one of this host either.
		do(t, tcp, "PUT", "/v1/kv/default/k?overwrite=true", strings.NewReader("x"), "Origin", origin).want(t, 403, "foreign_origin", "Origin")
		do(t, tcp, "DELETE", "/v1/kv/default/k", nil, "Origin", origin).want(t, 403, "foreign_origin", "Origin")
		do(t, tcp, "POST", "/v1/batch/remove", strings.NewReader(`{"namespace":"default","keys":["k"]}`), "Content-Type", api.MediaJSON, "Origin", origin).
			want(t, 403, "foreign_origin", "Origin")
		do(t, unix, "PUT", "/v1/kv/default/k?overwrite=true", strings.NewReader("x"), "Origin", origin).ok(t)
		// Nor does one read what is for administrators, or steer a slab.
		a = do(t, admin, "GET", "/healthz", nil, "Origin", origin)
		if ok {
			a.ok(t)
		} else {
			a.want(t, 403, "foreign_origin", "Origin")
		}
		do(t, admin, "POST", "/v1/slabs/fast0/drain", nil, "Origin", origin).want(t, 403, "foreign_origin", "Origin")
	}
}

// Of several origins none may be foreign, wherever it stands.
func TestSeveralOrigins(t *testing.T) {
	r := newRig(t)
	_, addr := r.tcp()
	for _, origins := range []string{"Origin: http://localhost\r\nOrigin: http://evil.example", "Origin: http://evil.example\r\nOrigin: http://localhost"} {
		conn := dialRaw(t, addr)
		conn.write("GET /v1/info HTTP/1.1\r\nHost: localhost\r\n" + origins + "\r\n\r\n")
		conn.answer().want(t, 403, "foreign_origin", "Origin")
	}
}

func TestMalformedRequests(t *testing.T) {
	r := newRig(t)
	_, addr := r.tcp()
	for request, want := range map[string]string{ // the field at fault and what is said about it
		"GET /v1/kv/default/a%25%zz?x=%yy HTTP/1.1\r\nHost: localhost\r\n\r\n":                      `path: "%zz" is no percent escape; write % itself as %25`,
		"GET /v1/kv/default/100% HTTP/1.1\r\nHost: localhost\r\n\r\n":                               `path: "%" is no percent escape; write % itself as %25`,
		"GET /v1/info?limit=%zz HTTP/1.1\r\nHost: localhost\r\n\r\n":                                `query: invalid URL escape "%zz"`,
		"PUT /v1/kv/default/k HTTP/1.1\r\nHost: a\r\nContent-Length: 1\r\nExpect: miracles\r\n\r\n": "Expect: 100-continue is all that can be expected",
	} {
		conn := dialRaw(t, addr)
		conn.write(strings.Replace(request, "Host: a", "Host: localhost", 1))
		a := conn.answer()
		p := a.problem()
		if got := p.Field + ": " + p.Detail; got != want || a.code < 400 || p.Status != a.code {
			t.Errorf("%q: got %d %s, want %s", request, a.code, a.body, want)
		}
		a.want(t, a.code, p.Code, p.Field)
	}
	for request, code := range map[string]int{
		"GET /v1/info HTTP/1.1\r\n\r\n":                                                          400,
		"GET /v1/info HTTP/1.1\r\nHost: a\r\nHost: b\r\n\r\n":                                    400,
		"PUT /v1/kv/default/k HTTP/1.1\r\nHost: a\r\nTransfer-Encoding: gzip\r\n\r\n":            501,
		"GET /v1/info HTTP/1.1\r\nHost: a\r\nX: " + strings.Repeat("x", 64<<10) + "\r\n\r\n\r\n": 431,
		"nonsense\r\n\r\n": 400,
	} {
		conn := dialRaw(t, addr)
		conn.write(request)
		conn.answer().want(t, code, "malformed_request", "")
	}
	for request, word := range map[string]string{
		"OPTIONS * HTTP/1.1\r\nHost: localhost\r\n\r\n":                       "unclean_path",
		"GET http://evil.example/v1/info HTTP/1.1\r\nHost: localhost\r\n\r\n": "foreign_host",
		"GET /v1/nothing HTTP/1.1\r\nHost: localhost\r\n\r\n":                 "not_found",
		"CONNECT /v1/info HTTP/1.1\r\nHost: localhost\r\n\r\n":                "method_not_allowed",
	} {
		conn := dialRaw(t, addr)
		conn.write(request)
		if a := conn.answer(); a.problem().Code != word {
			t.Errorf("%q: got %d %s, want %s", request, a.code, a.body, word)
		}
	}
}

// Payload that looks like a refusal of net/http is payload.
func TestListenerLeavesPayloadAlone(t *testing.T) {
	r := newRig(t)
	c := r.unix()
	fake := "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n400 Bad Request"
	for _, pad := range []int{0, 1 << 20, 2 << 20} {
		want := append(data("pad", pad), fake...)
		do(t, c, "PUT", "/v1/kv/default/k?overwrite=1", bytes.NewReader(want)).ok(t)
		if got := do(t, c, "GET", "/v1/kv/default/k", nil).ok(t); !bytes.Equal(got.body, want) {
			t.Errorf("pad %d: other bytes than stored", pad)
		}
		if _, bodies := load(t, c, "k"); !bytes.Equal(bodies[0], want) {
			t.Errorf("pad %d: other bytes than stored in a frame", pad)
		}
	}
}

// A handler around this server's may answer by itself.
func TestListenerLeavesOtherAnswersAlone(t *testing.T) {
	r := newRig(t)
	c := r.serveAs("", listen(t), http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusServiceUnavailable)
		_, _ = io.WriteString(w, "not now")
	}))
	if a := do(t, c, "GET", "/", nil); a.code != http.StatusServiceUnavailable || string(a.body) != "not now" {
		t.Errorf("got %d %q", a.code, a.body)
	}
}
