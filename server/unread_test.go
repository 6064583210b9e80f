// SPDX-License-Identifier: Apache-2.0

package server

import (
	"io"
	"net"
	"testing"
	"testing/synctest"
	"time"
)

// A request whose body nobody asked for, and that does not send it, is answered in
// the time that a body has, and holds nothing meanwhile. net/http would wait for it
// for good.
func TestBodyNobodyAskedFor(t *testing.T) {
	for name, c := range map[string]struct {
		request string
		sent    int
		took    time.Duration
		closes  bool
	}{
		"get":               {"GET /v1/kv/default/there HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n", 0, 11 * time.Second, true},
		"get, chunked":      {"GET /v1/kv/default/there HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n", 0, 11 * time.Second, true},
		"get, asks first":   {"GET /v1/kv/default/there HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 100\r\n\r\n", 0, 0, true},
		"get, whole":        {"GET /v1/kv/default/there HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n", 100, 0, false},
		"get, large":        {"GET /v1/kv/default/there HTTP/1.1\r\nHost: x\r\nContent-Length: 10000000\r\n\r\n", 0, 0, true},
		"delete":            {"DELETE /v1/kv/default/other HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n", 0, 11 * time.Second, true},
		"release":           {"POST /v1/leases/none/release HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n", 0, 11 * time.Second, true},
		"release, with one": {"POST /v1/leases/none/release HTTP/1.1\r\nHost: x\r\nContent-Length: 2\r\n\r\n", 2, 0, false},
		"health":            {"GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 100\r\n\r\n", 0, 11 * time.Second, true},
	} {
		t.Run(name, func(t *testing.T) {
			paced(t, time.Minute, func(r *rig, dial func() net.Conn) {
				client := dialing(t, dial)
				mustStore(t, client, 100_000, "there", "other")
				conn := newRaw(t, dial())
				defer conn.conn.Close()
				began := time.Now()
				conn.write(c.request)
				must(t, second(io.CopyN(conn.conn, zeros{}, int64(c.sent))))
				if c.took > 0 {
					synctest.Wait()
					if places, mem := r.srv.places.used.Load(), r.arena.InUse(); places != 0 || mem != 0 {
						t.Errorf("it holds %d places and %d bytes of memory", places, mem)
					}
				}
				a := conn.unjudged()
				if took := time.Since(began); took != c.took || a.closes != c.closes || a.code != 200 && a.code != 408 {
					t.Errorf("got %d after %v, connection closed: %v; want it after %v, %v", a.code, took, a.closes, c.took, c.closes)
				}
				if !c.closes {
					conn.write("GET /v1/kv/default/there HTTP/1.1\r\nHost: x\r\n\r\n")
					conn.unjudged().ok(t)
				}
			})
		})
	}
}

// A connection that ends with its answer ends in the time that a body has, though
// the body, which nobody asked for, does not come: it could be neither used nor closed
// for being idle, and every one of them is a descriptor less.
func TestConnectionOfBodyNobodyAskedForEnds(t *testing.T) {
	for name, request := range map[string]string{
		"get, asks first":     "GET /v1/kv/default/there HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 100\r\n\r\n",
		"get, middling":       "GET /v1/info HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n",
		"get, chunked":        "GET /v1/info HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nTransfer-Encoding: chunked\r\n\r\n",
		"health":              "GET /healthz HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n",
		"release":             "POST /v1/leases/none/release HTTP/1.1\r\nHost: x\r\nContent-Length: 200000\r\n\r\n",
		"release, asks first": "POST /v1/leases/none/release HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 100\r\n\r\n",
		"refused, asks first": "PUT /v1/kv/nowhere/k HTTP/1.1\r\nHost: x\r\nExpect: 100-continue\r\nContent-Length: 100\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			paced(t, time.Minute, func(r *rig, dial func() net.Conn) {
				conn := newRaw(t, dial())
				defer conn.conn.Close()
				must(t, conn.conn.SetReadDeadline(time.Now().Add(testPace.allow(piece)+time.Minute)))
				conn.write(request)
				if a := conn.unjudged(); !a.closes {
					t.Errorf("got %d, and the connection is to go on", a.code)
				}
				conn.closed()
			})
		})
	}
}
