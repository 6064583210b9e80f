// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"crypto/tls"
	"io"
	"net"
	"net/http"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"github.com/rawblockd/rawblockd/internal/testcert"
)

// secure listens for TLS and returns its address.
func (r *rig) secure(kind Kind, names ...string) (*testcert.Authority, string) {
	r.t.Helper()
	ca := testcert.New(r.t)
	r.srv.SetCertificate(ca.Issue(r.t, time.Now().Add(time.Hour), names...).TLS(r.t))
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(r.t, err)
	r.run(r.srv.TLSListener(l), r.srv.DataHandler(kind))
	return ca, l.Addr().String()
}

// over makes a client of TLS for addr, whatever name a URL has.
func over(t testing.TB, addr string, c *tls.Config) *http.Client {
	t.Helper()
	tr := &http.Transport{TLSClientConfig: c, ForceAttemptHTTP2: true}
	tr.DialContext = dialer(func() net.Conn {
		conn, err := net.Dial("tcp", addr)
		must(t, err)
		return conn
	})
	t.Cleanup(tr.CloseIdleConnections)
	return &http.Client{Transport: checked(t, "", tr)} // any listener
}

func doTLS(t testing.TB, c *http.Client, method, url string, body io.Reader) (answer, *http.Response) {
	t.Helper()
	req, err := http.NewRequest(method, url, body)
	must(t, err)
	resp, err := c.Do(req)
	must(t, err)
	defer resp.Body.Close()
	b, err := io.ReadAll(resp.Body)
	must(t, err)
	return answer{resp.StatusCode, resp.Header, b, resp.Close}, resp
}

func TestTLS(t *testing.T) {
	r := newRig(t)
	ca, addr := r.secure(TCP)
	c := over(t, addr, &tls.Config{RootCAs: ca.Pool()})
	want := data("k", 3<<20)
	a, resp := doTLS(t, c, "PUT", "https://127.0.0.1/v1/kv/default/k", bytes.NewReader(want))
	a.ok(t)
	if resp.ProtoMajor != 1 || resp.TLS.NegotiatedProtocol != "http/1.1" || resp.TLS.Version != tls.VersionTLS13 {
		t.Errorf("got %s, %q, TLS %x", resp.Proto, resp.TLS.NegotiatedProtocol, resp.TLS.Version)
	}
	if a, _ := doTLS(t, c, "GET", "https://127.0.0.1/v1/kv/default/k", nil); !bytes.Equal(a.body, want) {
		t.Errorf("got %d bytes, not those stored", len(a.body))
	}
	for version, ok := range map[uint16]bool{tls.VersionTLS11: false, tls.VersionTLS12: true} {
		conn, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: ca.Pool(), MinVersion: tls.VersionTLS10, MaxVersion: version})
		if (err == nil) != ok {
			t.Errorf("TLS %x: got %v", version, err)
		}
		if err == nil {
			must(t, conn.Close())
		}
	}
	if conn, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: ca.Pool(), NextProtos: []string{"h2"}}); err == nil {
		conn.Close()
		t.Error("HTTP/2 alone was agreed on")
	}
}

// What watches connections sits on top of TLS: net/http's own refusals come as
// problems there, too.
func TestMalformedOverTLS(t *testing.T) {
	r := newRig(t)
	ca, addr := r.secure(TCP)
	conn, err := tls.Dial("tcp", addr, &tls.Config{RootCAs: ca.Pool()})
	must(t, err)
	defer conn.Close()
	s := newRaw(t, conn)
	s.write("PUT /v1/kv/default/k HTTP/1.1\r\nHost: localhost\r\nContent-Length: -1\r\n\r\n")
	s.answer().want(t, 400, "malformed_request", "Content-Length")
}

// Plain HTTP on a port that speaks TLS is told so, in plain HTTP.
func TestPlainOnTLS(t *testing.T) {
	r := newRig(t)
	_, addr := r.secure(TCP)
	for name, request := range map[string]string{
		"short": "GET / HTTP/1.1\r\nHost: x\r\n\r\n",
		"long":  "PUT /v1/kv/default/k HTTP/1.1\r\nHost: x\r\nContent-Length: 900000\r\n\r\n" + strings.Repeat("x", 900_000),
	} {
		t.Run(name, func(t *testing.T) {
			conn := dialRaw(t, addr)
			conn.write(request)
			a := conn.answer()
			a.want(t, 400, "malformed_request", "")
			if p := a.problem(); p.Detail != "this port speaks TLS: use https://" {
				t.Errorf("got %s", a.body)
			}
			conn.closed()
		})
	}
	conn := dialRaw(t, addr)
	conn.write("\x00\x01\x02 no protocol at all")
	if b, err := io.ReadAll(conn.r); err != nil && !strings.Contains(err.Error(), "reset") || bytes.Contains(b, []byte("HTTP")) {
		t.Errorf("garbage: got %q, %v", b, err)
	}
}

// halfPipe is a pipe that takes the end of its writing for no more than that.
type halfPipe struct{ net.Conn }

func (halfPipe) CloseWrite() error { return nil }

// A client of plain HTTP that still sends when it is answered is let send on for
// a while: the end of the connection would cost it the answer.
func TestPlainOnTLSIsDrained(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		r := newRig(t)
		l := newPipe()
		r.run(r.srv.TLSListener(l), r.srv.DataHandler(TCP))
		client, server := net.Pipe()
		l.conns <- halfPipe{server}
		s := newRaw(t, client)
		s.write("PUT /v1/kv/default/k HTTP/1.1\r\n")
		s.answer().want(t, 400, "malformed_request", "")
		synctest.Wait()
		s.write("Host: x\r\nContent-Length: 100\r\n\r\n")
		time.Sleep(plainWait + time.Millisecond)
		synctest.Wait()
		if _, err := io.WriteString(client, "x"); err == nil {
			t.Error("the connection stays")
		}
	})
}

// A new certificate is what new connections see, those there are go on.
func TestCertificateChanges(t *testing.T) {
	r := newRig(t)
	ca, addr := r.secure(TCP)
	client := func(ca *testcert.Authority) *http.Client { return over(t, addr, &tls.Config{RootCAs: ca.Pool()}) }
	old := client(ca)
	_, before := doTLS(t, old, "GET", "https://127.0.0.1/healthz", nil)
	ca2 := testcert.New(t)
	issued := ca2.Issue(t, time.Now().Add(time.Hour))
	r.srv.SetCertificate(issued.TLS(t))
	_, kept := doTLS(t, old, "GET", "https://127.0.0.1/healthz", nil)
	if got, want := kept.TLS.PeerCertificates[0].SerialNumber, before.TLS.PeerCertificates[0].SerialNumber; got.Cmp(want) != 0 {
		t.Errorf("the connection there was: got certificate %v, want %v", got, want)
	}
	_, after := doTLS(t, client(ca2), "GET", "https://127.0.0.1/healthz", nil)
	if got := after.TLS.PeerCertificates[0].SerialNumber.String(); got != issued.Serial {
		t.Errorf("a new connection: got certificate %v, want %v", got, issued.Serial)
	}
	if _, err := client(ca).Get("https://127.0.0.1/healthz"); err == nil || !strings.Contains(err.Error(), "certificate signed by unknown authority") {
		t.Errorf("who trusts the old one alone: got %v", err)
	}
	sessions := tls.NewLRUClientSessionCache(4)
	for range 2 {
		c := over(t, addr, &tls.Config{RootCAs: ca2.Pool(), ClientSessionCache: sessions})
		if _, resp := doTLS(t, c, "GET", "https://127.0.0.1/healthz", nil); resp.TLS.DidResume {
			t.Error("a session was taken up again, and would be so with an old certificate")
		}
	}
}

// Whoever watches the daemon learns when the certificate ends.
func TestCertificateMetric(t *testing.T) {
	const name = "rawblockd_tls_certificate_expiry_timestamp_seconds"
	r := newRig(t)
	admin := r.admin()
	if got := string(do(t, admin, "GET", "/metrics", nil).ok(t).body); strings.Contains(got, name) {
		t.Error("there is no certificate, and the metric is there")
	}
	c := testcert.New(t).Issue(t, time.Unix(4102444800, 0)).TLS(t) // 2100
	r.srv.SetCertificate(c)
	if got := string(do(t, admin, "GET", "/metrics", nil).ok(t).body); !strings.Contains(got, "\n"+name+" 4.1024448e+09\n") {
		t.Errorf("got %s", got)
	}
}

// The certificate's names are names of this host.
func TestHostsOfTheCertificate(t *testing.T) {
	r := newRig(t)
	_, addr := r.secure(TCP, "cache.example", "*.pods.example")
	c := over(t, addr, &tls.Config{InsecureSkipVerify: true})
	for host, ok := range map[string]bool{"cache.example": true, "CACHE.example.": true, "a.pods.example": true, "a.b.pods.example": false, "evil.example": false, "localhost": true} {
		a, _ := doTLS(t, c, "GET", "https://"+host+"/v1/info", nil)
		if ok {
			a.ok(t)
		} else {
			a.want(t, 403, "foreign_host", "Host")
		}
	}
}

// A client that begins no handshake, or never ends it, has the time of a header.
func TestSlowHandshake(t *testing.T) {
	ca := testcert.New(t)
	cert := ca.Issue(t, time.Now().Add(time.Hour)).TLS(t)
	for name, hello := range map[string]string{"silent": "", "begun": "\x16\x03\x01\x02\x00\x01"} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				r := newRig(t, func(o *rigOptions) { o.pace = testPace })
				r.srv.SetCertificate(cert)
				l := newPipe()
				r.run(r.srv.TLSListener(l), r.srv.DataHandler(TCP))
				c := l.dial()
				began := time.Now()
				must(t, second(io.WriteString(c, hello)))
				if b, err := io.ReadAll(c); len(b) > 0 || err != nil {
					t.Errorf("got %q, %v", b, err)
				}
				if took := time.Since(began); took != testPace.Grace {
					t.Errorf("cut off after %v, want %v", took, testPace.Grace)
				}
			})
		})
	}
}
