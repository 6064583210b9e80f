// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bufio"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"syscall"
	"testing"

	"github.com/rawblockd/rawblockd/api"
)

// get asks on a connection of its own, and leaves it open.
func (r *raw) get(path string) (int, error) {
	if _, err := fmt.Fprintf(r.conn, "GET %s HTTP/1.1\r\nHost: localhost\r\n\r\n", path); err != nil {
		return 0, err
	}
	resp, err := http.ReadResponse(r.r, nil)
	if err != nil {
		return 0, err
	}
	defer resp.Body.Close()
	_, err = io.Copy(io.Discard, resp.Body)
	return resp.StatusCode, err
}

// idling returns how many connections have no request.
func (t *connTable) idling() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.idle.Len()
}

// Beyond the number of connections the longest idle one makes room for the next, of
// whatever listener; one with a request under way never does.
func TestTooManyConnections(t *testing.T) {
	const most = 20
	log := &logLines{}
	r := newRig(t, func(o *rigOptions) {
		o.conns, o.log = most, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	})
	_, addr := r.tcp()
	client := r.unix()
	admin := r.admin()
	mustStore(t, client, 1000, "a", "b")
	do(t, admin, "GET", "/healthz", nil).ok(t)
	release := r.dev.Hang(0, r.o.size)
	busy := dialRaw(t, addr)
	busy.write("GET /v1/kv/default/a HTTP/1.1\r\nHost: localhost\r\n\r\n")
	r.dev.AwaitInFlight(1)
	var idle []*raw
	for i := range 3 * most {
		c := dialRaw(t, addr)
		if code, err := c.get("/v1/kv/default/nothing"); code != 404 {
			t.Fatalf("connection %d: %d, %v", i, code, err)
		}
		idle = append(idle, c)
		// A client has its answer before the server knows its connection as idle.
		r.until("all but the busy connection are idle", func() bool { return r.srv.conns.idling() == min(i+3, most-1) })
	}
	if n := r.srv.conns.count(); n != most {
		t.Errorf("%d connections, want %d", n, most)
	}
	closed := 0
	for i, c := range idle {
		code, err := c.get("/v1/kv/default/nothing")
		if err != nil {
			closed++
		}
		if oldest := i < 2*most+1; oldest == (err == nil) {
			t.Errorf("connection %d of %d, from the oldest: %d, %v", i, len(idle), code, err)
		}
	}
	if closed != 2*most+1 {
		t.Errorf("%d idle connections closed, want %d", closed, 2*most+1)
	}
	log.want(t, "too many connections", "connections=20", "RLIMIT_NOFILE")
	if got := counter(t, r.srv.metrics.connsClosed); got != 2*most+3 {
		t.Errorf("counted %v closed, want %d", got, 2*most+3)
	}
	release()
	busy.answer().ok(t)
	// The clients that kept connections have others in no time.
	do(t, client, "GET", "/v1/kv/default/b", nil).ok(t)
	do(t, admin, "GET", "/healthz", nil).ok(t)
}

// Where every connection has a request under way, a new one is closed at once, and
// those under way go on.
func TestNoIdleConnection(t *testing.T) {
	const most = 4
	r := newRig(t, func(o *rigOptions) { o.conns = most })
	_, addr := r.tcp()
	var uploads []*raw
	for i := range most {
		c := dialRaw(t, addr)
		c.write(fmt.Sprintf("PUT /v1/kv/default/k%d HTTP/1.1\r\nHost: localhost\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n", i))
		if line, err := c.r.ReadString('\n'); err != nil || !strings.Contains(line, "100") {
			t.Fatalf("got %q, %v", line, err)
		}
		uploads = append(uploads, c)
	}
	late, err := net.Dial("tcp", addr)
	must(t, err)
	defer late.Close()
	if _, err := bufio.NewReader(late).ReadByte(); err != io.EOF && !errors.Is(err, syscall.ECONNRESET) {
		t.Errorf("the one too many: %v, want it closed", err)
	}
	for _, c := range uploads {
		must(t, second(io.WriteString(c.conn, "hello")))
		must(t, second(c.r.ReadString('\n')))
		resp, err := http.ReadResponse(c.r, nil)
		must(t, err)
		must(t, second(io.Copy(io.Discard, resp.Body)))
		if resp.StatusCode != http.StatusOK || resp.Header.Get(api.HeaderInstance) == "" {
			t.Errorf("an upload: got %d", resp.StatusCode)
		}
	}
}

// That there are too many connections is said once each time that it comes to it.
func TestTooManyConnectionsIsSaidAgain(t *testing.T) {
	const most = 8
	log := &logLines{}
	r := newRig(t, func(o *rigOptions) {
		o.conns, o.log = most, slog.New(slog.NewTextHandler(log, &slog.HandlerOptions{Level: slog.LevelWarn}))
	})
	_, addr := r.tcp()
	for range 2 {
		var conns []*raw
		for range most + 3 {
			c := dialRaw(t, addr)
			if _, err := c.get("/v1/kv/default/nothing"); err != nil {
				t.Fatal(err)
			}
			conns = append(conns, c)
		}
		if n := strings.Count(log.String(), "too many connections"); n != 1 {
			t.Errorf("said %d times, want once: %s", n, log.String())
		}
		for _, c := range conns {
			must(t, c.conn.Close())
		}
		r.until("the connections are gone", func() bool { return r.srv.conns.count() == 0 })
		log.reset()
	}
}

// What a connection needs for a request alone it gives back with the answer: idle it
// costs little, however long the header was.
func TestIdleConnectionKeepsNothing(t *testing.T) {
	r := newRig(t)
	_, addr := r.tcp()
	c := dialRaw(t, addr)
	c.write("GET /v1/kv/default/nothing HTTP/1.1\r\nHost: localhost\r\nX-Long: " + strings.Repeat("x", headKept) + "\r\n\r\n")
	c.answer().want(t, 404, "missing", "")
	idle := func() (is *conn) {
		r.srv.conns.mu.Lock()
		defer r.srv.conns.mu.Unlock()
		if first := r.srv.conns.idle.Front(); first != nil {
			is = first.Value.(*conn)
		}
		return is
	}
	r.until("the connection is idle", func() bool { return idle() != nil && !idle().serving.Load() })
	if is := idle(); is.head != nil || is.r != nil || is.hold != nil {
		t.Errorf("it keeps %d bytes of its header, request %v, hold %v", len(is.head), is.r != nil, is.hold != nil)
	}
	// The server reads on behind what was looked at here.
	if code, err := c.get("/v1/kv/default/nothing"); code != 404 || err != nil {
		t.Errorf("the next request: %d, %v", code, err)
	}
}
