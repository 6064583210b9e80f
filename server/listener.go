// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strconv"
	"sync/atomic"

	"github.com/rawblockd/rawblockd/api"
)

// net/http answers a request whose header it cannot read (a negative
// Content-Length, a broken escape in the path, no Host) by itself, in plain
// text and past every handler. Listener turns those answers into problems like
// all others, so that a client has one kind of refusal to understand.

// Listener wraps l. Serve the wrapped one with HTTPServer's servers.
func (s *Server) Listener(l net.Listener) net.Listener { return &listener{l, s.o.Instance} }

type listener struct {
	net.Listener
	instance string
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &conn{Conn: c, instance: l.instance}, nil
}

// conn watches for net/http's own refusals, but only between requests: what a
// handler sends is payload and might look like anything.
type conn struct {
	net.Conn
	instance string
	serving  atomic.Bool
	head     []byte // of the request being read, its first headKept bytes; header phase only
}

const headKept = 8 << 10

type connKey struct{}

// connContext lets a handler find its conn. It is http.Server's ConnContext.
func connContext(ctx context.Context, c net.Conn) context.Context {
	if c, ok := c.(*conn); ok {
		return context.WithValue(ctx, connKey{}, c)
	}
	return ctx
}

// connState is http.Server's hook: an idle connection has sent its answer.
func connState(c net.Conn, state http.ConnState) {
	if c, ok := c.(*conn); ok && state == http.StateIdle {
		c.head = c.head[:0]
		c.serving.Store(false)
	}
}

// beginServing notes that net/http accepted the request's header.
func beginServing(r *http.Request) {
	if c, ok := r.Context().Value(connKey{}).(*conn); ok {
		c.serving.Store(true)
	}
}

// NetConn returns the connection underneath.
func (c *conn) NetConn() net.Conn { return c.Conn }

// CloseWrite lets net/http end an answer before it ends the connection.
func (c *conn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

// Read implements net.Conn.
func (c *conn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if !c.serving.Load() && len(c.head) < headKept {
		c.head = append(c.head, p[:min(n, headKept-len(c.head))]...)
	}
	return n, err
}

// Write implements net.Conn.
func (c *conn) Write(p []byte) (int, error) {
	if c.serving.Load() {
		return c.Conn.Write(p)
	}
	own, ok := c.translate(p)
	if !ok {
		return c.Conn.Write(p)
	}
	if _, err := c.Conn.Write(own); err != nil {
		return 0, err
	}
	return len(p), nil
}

// translate makes a problem of one of net/http's plain refusals.
func (c *conn) translate(p []byte) ([]byte, bool) {
	const plainHead = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
	first, detail, ok := bytes.Cut(p, []byte(plainHead))
	fields := bytes.SplitN(first, []byte(" "), 3)
	if !ok || len(fields) != 3 || string(fields[0]) != "HTTP/1.1" {
		return nil, false
	}
	code, err := strconv.Atoi(string(fields[1]))
	if err != nil {
		return nil, false
	}
	prob := api.NewProblem(code, api.CodeMalformedRequest, "", "%s", detail)
	if value, bad := badLength(c.head); bad {
		prob.Field = "Content-Length"
		prob.Detail = fmt.Sprintf("%q is no length: want a whole number from 1", value)
	}
	body, err := json.Marshal(prob)
	if err != nil {
		return nil, false
	}
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\n%s: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s\n",
		code, http.StatusText(code), api.MediaProblem, api.HeaderInstance, c.instance, len(body)+1, body), true
}

// badLength finds a Content-Length in a header that is no number.
func badLength(head []byte) (string, bool) {
	head, _, _ = bytes.Cut(head, []byte("\r\n\r\n"))
	for line := range bytes.SplitSeq(head, []byte("\r\n")) {
		name, value, ok := bytes.Cut(line, []byte(":"))
		if !ok || !bytes.EqualFold(name, []byte("Content-Length")) {
			continue
		}
		v := string(bytes.TrimSpace(value))
		if _, err := strconv.ParseUint(v, 10, 63); err != nil {
			return v, true
		}
	}
	return "", false
}
