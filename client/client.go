// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"fmt"
	"net"
	"net/http"
	"net/url"
	"path/filepath"
	"strings"
	"time"
)

// Client talks to one daemon about one namespace.
type Client struct {
	addr string // as given, for errors
	base string // scheme and host of every URL
	ns   string
	auth string // the Authorization header; empty: none
	http *http.Client
}

// Buffers of a connection. Bodies are written in larger parts, which pass the
// write buffer by.
const (
	readBuffer  = 256 << 10
	writeBuffer = 64 << 10
	idleConns   = 64
)

// New returns a client of the daemon at addr, which is unix:/path/of/socket,
// http://host:port or https://host:port, for namespace. It does not connect yet.
func New(addr, namespace string, with ...Option) (*Client, error) {
	var o options
	for _, w := range with {
		if err := w(&o); err != nil {
			return nil, err
		}
	}
	t := &http.Transport{
		MaxIdleConns:          idleConns,
		MaxIdleConnsPerHost:   idleConns, // a batch client uses many at once; the default of 2 would close the rest
		IdleConnTimeout:       90 * time.Second,
		ExpectContinueTimeout: time.Second,
		DisableCompression:    true, // payloads are opaque, and an ETag must stay the bytes'
		ReadBufferSize:        readBuffer,
		WriteBufferSize:       writeBuffer,
	}
	dialer := &net.Dialer{Timeout: 10 * time.Second}
	base, secure := strings.TrimSuffix(addr, "/"), false
	if path, ok := strings.CutPrefix(addr, "unix:"); ok {
		if !filepath.IsAbs(path) {
			return nil, fmt.Errorf("address %q: want unix: and an absolute path", addr)
		}
		base = "http://localhost"
		t.DialContext = func(ctx context.Context, _, _ string) (net.Conn, error) {
			return dialer.DialContext(ctx, "unix", path)
		}
	} else {
		if masked, ok := withoutUser(addr); !ok {
			return nil, fmt.Errorf("address %q: a name and a password in it are not used: leave them out; what the daemon takes is a token", masked)
		}
		u, err := url.Parse(base)
		if err != nil || u.Scheme != "http" && u.Scheme != "https" || u.Host == "" || u.Path != "" || u.RawQuery != "" {
			return nil, fmt.Errorf("address %q: want unix:/path/of/socket, http://host:port or https://host:port", addr)
		}
		secure = u.Scheme == "https"
		t.DialContext = dialer.DialContext
		t.TLSHandshakeTimeout = dialer.Timeout
		t.TLSClientConfig = o.tls()
	}
	if o.roots != nil && !secure {
		return nil, fmt.Errorf("address %q: a CA file is for https://host:port", addr)
	}
	c := &Client{addr: addr, base: base, ns: namespace, http: &http.Client{
		Transport:     t,
		CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse }, // so a token goes nowhere else
	}}
	if o.token != "" {
		c.auth = "Bearer " + o.token
	}
	return c, nil
}

// withoutUser returns an address with what stands before an @, which may be a password,
// taken out; ok is true if nothing does.
func withoutUser(addr string) (masked string, ok bool) {
	at := strings.LastIndexByte(addr, '@')
	if at < 0 {
		return addr, true
	}
	scheme, _, found := strings.Cut(addr[:at], "://")
	if !found {
		return "…" + addr[at:], false
	}
	return scheme + "://…" + addr[at:], false
}

// In returns a client for another namespace that shares c's connections.
func (c *Client) In(namespace string) *Client {
	d := *c
	d.ns = namespace
	return &d
}

// Addr returns the address given to New.
func (c *Client) Addr() string { return c.addr }

// Namespace returns the namespace of c.
func (c *Client) Namespace() string { return c.ns }

// Close closes idle connections. Requests under way go on.
func (c *Client) Close() { c.http.CloseIdleConnections() }
