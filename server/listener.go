// SPDX-License-Identifier: Apache-2.0

package server

import (
	"bytes"
	"container/list"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"net/http"
	"os"
	"strconv"
	"sync/atomic"
	"time"

	"github.com/rawblockd/rawblockd/api"
)

// net/http answers a request whose header it cannot read (a negative
// Content-Length, a broken escape in the path, no Host) by itself, in plain
// text and past every handler. Listener turns those answers into problems like
// all others, so that a client has one kind of refusal to understand.

// Listener wraps l. Serve the wrapped one with HTTPServer's servers.
func (s *Server) Listener(l net.Listener) net.Listener {
	return &listener{l, &s.conns, s.o.Instance, s.o.Pace.Grace, s.o.Log}
}

type listener struct {
	net.Listener
	conns    *connTable
	instance string
	grace    time.Duration // for a refusal to be taken
	log      *slog.Logger
}

// Accept implements net.Listener.
func (l *listener) Accept() (net.Conn, error) {
	for {
		under, err := l.Listener.Accept()
		if err != nil {
			return nil, err
		}
		c := &conn{Conn: under, conns: l.conns, instance: l.instance, grace: l.grace, log: l.log}
		if l.conns.admit(c) {
			return c, nil
		}
		_ = undermost(under).Close()
	}
}

// conn watches for net/http's own refusals, but only between requests: what a
// handler sends is payload and might look like anything.
type conn struct {
	net.Conn
	conns    *connTable
	place    *list.Element // among the idle; nil: there is a request. Guarded by conns.mu
	gone     bool          // out of conns. Guarded by conns.mu
	instance string
	grace    time.Duration // for a refusal to be taken
	log      *slog.Logger
	serving  atomic.Bool
	head     []byte // of the request being read, its first headKept bytes; header phase only

	// Of the request being answered, by whose goroutine all is written.
	r     *http.Request
	hold  *hold
	began time.Time
	sent  int64
	cut   bool // for taking its answer too slowly
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
func connState(nc net.Conn, state http.ConnState) {
	c, ok := nc.(*conn)
	if !ok {
		return
	}
	if state == http.StateIdle {
		c.head, c.r, c.hold = nil, nil, nil // an idle connection costs little
		c.serving.Store(false)
	}
	c.conns.note(c, state)
}

// beginServing notes that net/http accepted the request's header.
func beginServing(r *http.Request, h *hold) {
	if c, ok := r.Context().Value(connKey{}).(*conn); ok {
		c.r, c.hold, c.began, c.sent = r, h, time.Now(), 0
		c.serving.Store(true)
	}
}

// Close implements net.Conn.
func (c *conn) Close() error {
	c.conns.leave(c)
	return c.Conn.Close()
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
		return c.send(p)
	}
	// net/http sets no deadline for what it says by itself.
	_ = c.SetWriteDeadline(time.Now().Add(c.grace))
	own, ok := c.translate(p)
	if !ok {
		return c.Conn.Write(p)
	}
	if _, err := c.Conn.Write(own); err != nil {
		return 0, err
	}
	return len(p), nil
}

// writeMost is how much is given to the system at once, in bytes: what it has taken
// of more could not be seen before all of it is, and who takes it at the slowest pace
// there may be would seem to stand still.
const writeMost = 352 << 10

// send writes a part of an answer, in equal steps.
func (c *conn) send(p []byte) (int, error) {
	steps := max((len(p)+writeMost-1)/writeMost, 1)
	step := (len(p) + steps - 1) / steps
	done := 0
	for {
		part := p[done:min(len(p), done+step)]
		c.hold.await(takes, len(part))
		n, err := c.Conn.Write(part)
		c.hold.moved(n)
		c.sent += int64(n)
		done += n
		if errors.Is(err, os.ErrDeadlineExceeded) {
			c.tooSlow()
		}
		if err != nil || done == len(p) {
			return done, err
		}
	}
}

// tooSlow notes a client that does not take its answer: it held memory that
// others waited for. Every write after the first that failed fails too.
func (c *conn) tooSlow() {
	if c.cut {
		return
	}
	c.cut = true
	why := "client cut off: it took its answer too slowly"
	if c.hold.isCut(takes) {
		why = "client cut off: it took nothing of its answer while others waited for what it held"
	}
	c.hold.s.metrics.cutOff(takes, c.hold.isCut(takes))
	c.log.Warn(why, "method", c.r.Method, "route", routeLabel(c.r), "remote", remote(c.r),
		"bytes_sent", c.sent, "after", time.Since(c.began))
}

// translate makes a problem of one of net/http's plain refusals, and of its 417,
// which has no body. Whatever else is written was not written by net/http.
func (c *conn) translate(p []byte) ([]byte, bool) {
	const plainHead = "\r\nContent-Type: text/plain; charset=utf-8\r\nConnection: close\r\n\r\n"
	first, detail, ok := bytes.Cut(p, []byte(plainHead))
	fields := bytes.SplitN(first, []byte(" "), 3)
	if len(fields) != 3 || string(fields[0]) != "HTTP/1.1" {
		return nil, false
	}
	code, err := strconv.Atoi(string(fields[1]))
	if err != nil || !ok && code != http.StatusExpectationFailed {
		return nil, false
	}
	return rawAnswer(c.instance, c.problem(code, string(detail))), true
}

// rawAnswer is a whole answer, for where there is no http.ResponseWriter.
func rawAnswer(instance string, p *api.Problem) []byte {
	body, _ := json.Marshal(p) // text and a number
	return fmt.Appendf(nil, "HTTP/1.1 %d %s\r\nContent-Type: %s\r\n%s: %s\r\nContent-Length: %d\r\nConnection: close\r\n\r\n%s\n",
		p.Status, http.StatusText(p.Status), api.MediaProblem, api.HeaderInstance, instance, len(body)+1, body)
}

// problem says what net/http refused, as far as the header tells.
func (c *conn) problem(code int, detail string) *api.Problem {
	p := api.NewProblem(code, api.CodeMalformedRequest, "", "%s", detail)
	value, bad := badLength(c.head)
	escape := api.BadEscape(target(c.head))
	switch {
	case code == http.StatusExpectationFailed:
		p.Field, p.Detail = "Expect", "100-continue is all that can be expected"
	case bad:
		p.Field, p.Detail = "Content-Length", fmt.Sprintf("%q is no length: want a whole number from 1", value)
	case code == http.StatusBadRequest && escape != "":
		p.Field, p.Detail = "path", fmt.Sprintf("%q is no percent escape; write %% itself as %%25", escape)
	}
	return p
}

// target is the path that a header asks for.
func target(head []byte) string {
	line, _, _ := bytes.Cut(bytes.TrimLeft(head, "\r\n"), []byte("\r\n"))
	_, rest, _ := bytes.Cut(line, []byte(" "))
	rest, _, _ = bytes.Cut(rest, []byte(" "))
	rest, _, _ = bytes.Cut(rest, []byte("?"))
	return string(rest)
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
