// SPDX-License-Identifier: Apache-2.0

package server

import (
	"crypto/tls"
	"errors"
	"io"
	"log/slog"
	"net"
	"net/http"
	"sync/atomic"
	"time"

	"github.com/rawblockd/rawblockd/api"
)

// SetCertificate is what TLS listeners show from the next connection on.
// Requests may name its names in their Host header. c is not to be changed any
// more; its Leaf is filled in, as tls.LoadX509KeyPair does.
func (s *Server) SetCertificate(c *tls.Certificate) { s.certificate.Store(c) }

// TLSListener wraps l as Listener does, with TLS underneath. There must be a
// certificate before the first connection.
//
// What watches connections sits on top of TLS, so net/http does not know of it:
// the handshake happens at the first read, within the time that a header has.
func (s *Server) TLSListener(l net.Listener) net.Listener {
	c := &tls.Config{
		MinVersion: tls.VersionTLS12,
		NextProtos: []string{"http/1.1"},
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return s.certificate.Load(), nil
		},
		// A session that is taken up again would go on with an old certificate.
		SessionTicketsDisabled: true,
	}
	return s.Listener(&tlsListener{l, c, s.o.Instance, s.o.Log})
}

type tlsListener struct {
	net.Listener
	config   *tls.Config
	instance string
	log      *slog.Logger
}

// Accept implements net.Listener. It does not wait for the handshake.
func (l *tlsListener) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &tlsConn{Conn: tls.Server(c, l.config), instance: l.instance, log: l.log}, nil
}

// tlsConn tells a client that speaks plain HTTP what is wrong. Without it the
// client would see bytes of TLS, or just the end.
type tlsConn struct {
	*tls.Conn
	instance string
	log      *slog.Logger
	failed   atomic.Bool // the handshake did, and that has been said
}

// errHandshake ends a connection about which nothing is left to be said: net/http
// answers nothing to an error of reading.
func errHandshake(err error) error { return &net.OpError{Op: "read", Net: "tcp", Err: err} }

// Read implements net.Conn.
func (c *tlsConn) Read(p []byte) (int, error) {
	n, err := c.Conn.Read(p)
	if err == nil || c.ConnectionState().HandshakeComplete {
		return n, err
	}
	if !c.failed.Swap(true) {
		c.log.Debug("TLS handshake failed", "remote", c.RemoteAddr().String(), "err", err)
		var not tls.RecordHeaderError
		if errors.As(err, &not) && not.Conn != nil && looksLikeHTTP(not.RecordHeader) {
			c.refusePlain(not.Conn)
		}
	}
	return n, errHandshake(err)
}

// looksLikeHTTP judges by the first byte: a method's letter is no type of a TLS
// record.
func looksLikeHTTP(head [5]byte) bool { return 'A' <= head[0] && head[0] <= 'Z' }

// Bounds of what is taken of a client that speaks plain HTTP after it has its
// answer, so that it sees that instead of a reset.
const (
	plainRest = 1 << 20
	plainWait = 500 * time.Millisecond
)

func (c *tlsConn) refusePlain(raw net.Conn) {
	text := rawAnswer(c.instance, api.NewProblem(http.StatusBadRequest, api.CodeMalformedRequest, "", "this port speaks TLS: use https://"))
	_ = raw.SetDeadline(time.Now().Add(plainWait))
	if _, err := raw.Write(text); err != nil {
		return // nobody reads it
	}
	if half, ok := raw.(interface{ CloseWrite() error }); ok && half.CloseWrite() == nil {
		_, _ = io.CopyN(io.Discard, raw, plainRest) // whatever comes
	}
}
