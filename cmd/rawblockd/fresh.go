// SPDX-License-Identifier: Apache-2.0

package main

import (
	"net"
	"net/http"
	"sync"
)

// fresh are the connections on which no request has come yet. http.Server's
// Shutdown gives each of them five seconds, for a request may be on its way; a
// client that has sent none loses nothing by a stop that does not wait.
type fresh struct {
	mu sync.Mutex
	// +checklocks:mu
	conns map[net.Conn]struct{}
	// +checklocks:mu
	closed bool
}

// watch learns from a server's hook, behind the one that is there.
func (f *fresh) watch(hs *http.Server) {
	inner := hs.ConnState
	hs.ConnState = func(c net.Conn, state http.ConnState) {
		if inner != nil {
			inner(c, state)
		}
		f.note(c, state)
	}
}

func (f *fresh) note(c net.Conn, state http.ConnState) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if state != http.StateNew {
		delete(f.conns, c)
		return
	}
	if f.closed {
		_ = c.Close() // its server meets the error, and ends it
		return
	}
	if f.conns == nil {
		f.conns = map[net.Conn]struct{}{}
	}
	f.conns[c] = struct{}{}
}

// close ends those there are and all that still come.
func (f *fresh) close() {
	f.mu.Lock()
	defer f.mu.Unlock()
	f.closed = true
	for c := range f.conns {
		_ = c.Close() // its server meets the error, and ends it
	}
}
