// SPDX-License-Identifier: Apache-2.0

package main

import (
	"bufio"
	"context"
	"io"
	"log/slog"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

func dial(t *testing.T, path string) net.Conn {
	t.Helper()
	conn, err := net.Dial("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = conn.Close() })
	return conn
}

func send(t *testing.T, conn net.Conn, text string) {
	t.Helper()
	if _, err := io.WriteString(conn, text); err != nil {
		t.Fatal(err)
	}
}

// TestStopWaitsForRequestsOnly: connections on which no request has come are
// closed while a request under way is still waited for, and that one is done in
// full.
func TestStopWaitsForRequestsOnly(t *testing.T) {
	c := testConfig(t, shortDir(t))
	log := newSignalWriter("stopping")
	d := newDaemon(c, slog.New(slog.NewTextHandler(log, nil)), "")
	d.requestsWithin = 4 * time.Second // less than the five that http.Server would wait for the silent ones
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	up, ended := background(ctx, d, func() error { return nil })
	<-up
	silent, begun, busy := dial(t, c.Listen.Unix), dial(t, c.Listen.Unix), dial(t, c.Listen.Unix)
	send(t, begun, "GET /v1/kv/default/k HTTP/1.1\r\nHo")
	send(t, busy, "PUT /v1/kv/default/k HTTP/1.1\r\nHost: x\r\nConnection: close\r\nExpect: 100-continue\r\nContent-Length: 5\r\n\r\n")
	from := bufio.NewReader(busy)
	if line, err := from.ReadString('\n'); err != nil || !strings.HasPrefix(line, "HTTP/1.1 100 ") {
		t.Fatalf("got %q, %v, want to be told to go on", line, err)
	}
	if _, err := from.ReadString('\n'); err != nil {
		t.Fatal(err)
	}
	cancel()
	for name, conn := range map[string]net.Conn{"silent": silent, "begun": begun} {
		if n, err := conn.Read(make([]byte, 1)); n != 0 || err == nil {
			t.Errorf("%s connection: got %d bytes and %v, want its end", name, n, err)
		}
	}
	select {
	case err := <-ended:
		t.Fatalf("stopped without waiting for the request: %v", err)
	default:
	}
	send(t, busy, "hello")
	resp, err := http.ReadResponse(from, nil)
	if err != nil {
		t.Fatal(err)
	}
	_ = resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		t.Errorf("the request under way: got %s", resp.Status)
	}
	if err := <-ended; err != nil {
		t.Error(err)
	}
	if strings.Contains(log.String(), "cut off") {
		t.Errorf("log: %s", log)
	}
}

type closable struct {
	net.Conn
	closed bool
}

func (c *closable) Close() error {
	c.closed = true
	return nil
}

// TestFreshConnections: the hook knows exactly those without a request, keeps
// the hook before it, and closes late ones at once.
func TestFreshConnections(t *testing.T) {
	var f fresh
	inner := 0
	hs := &http.Server{ConnState: func(net.Conn, http.ConnState) { inner++ }}
	f.watch(hs)
	idle, active, gone, late := &closable{}, &closable{}, &closable{}, &closable{}
	for _, c := range []net.Conn{idle, active, gone} {
		hs.ConnState(c, http.StateNew)
	}
	hs.ConnState(active, http.StateActive)
	hs.ConnState(gone, http.StateClosed)
	f.close()
	hs.ConnState(late, http.StateNew)
	if !idle.closed || active.closed || gone.closed || !late.closed {
		t.Errorf("closed: idle %v, active %v, gone %v, late %v", idle.closed, active.closed, gone.closed, late.closed)
	}
	if inner != 6 {
		t.Errorf("the hook before was called %d times, want 6", inner)
	}
}
