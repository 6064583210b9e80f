// SPDX-License-Identifier: Apache-2.0

package server

import (
	"errors"
	"net"
	"sync"
	"syscall"
)

// watcher counts the bytes that connections write, by the size of the write.
type watcher struct {
	mu sync.Mutex
	// +checklocks:mu
	small, large int64
}

const largeWrite = 256 << 10

func (w *watcher) reset() {
	w.mu.Lock()
	defer w.mu.Unlock()
	w.small, w.large = 0, 0
}

func (w *watcher) count() (small, large int64) {
	w.mu.Lock()
	defer w.mu.Unlock()
	return w.small, w.large
}

type watched struct {
	net.Listener
	w *watcher
}

func (l *watched) Accept() (net.Conn, error) {
	c, err := l.Listener.Accept()
	if err != nil {
		return nil, err
	}
	return &watchedConn{c, l.w}, nil
}

type watchedConn struct {
	net.Conn
	w *watcher
}

func (c *watchedConn) CloseWrite() error {
	if half, ok := c.Conn.(interface{ CloseWrite() error }); ok {
		return half.CloseWrite()
	}
	return nil
}

func (c *watchedConn) Write(p []byte) (int, error) {
	n, err := c.Conn.Write(p)
	c.w.mu.Lock()
	defer c.w.mu.Unlock()
	if n >= largeWrite {
		c.w.large += int64(n)
	} else {
		c.w.small += int64(n)
	}
	return n, err
}

func (c *watchedConn) SyscallConn() (syscall.RawConn, error) {
	if under, ok := c.Conn.(syscall.Conn); ok {
		return under.SyscallConn()
	}
	return nil, errors.ErrUnsupported
}
