// SPDX-License-Identifier: Apache-2.0

package server

import (
	"container/list"
	"log/slog"
	"net"
	"net/http"
	"sync"

	"github.com/prometheus/client_golang/prometheus"
)

// connTable keeps the connections of all listeners within a number, so that they
// never take the descriptors that the metadata needs: it fails for good if it cannot
// open a file. Beyond it the connection that has been idle for longest is closed,
// which costs its client a new one, if it ever wants it; if none is idle, the newest.
type connTable struct {
	most   int // 0: any number
	log    *slog.Logger
	closed prometheus.Counter

	mu sync.Mutex
	// +checklocks:mu
	n int
	// +checklocks:mu
	idle list.List // of *conn: those without a request, longest first
	// +checklocks:mu
	full bool // it has been said
}

// admit takes a new connection in; false if it is one too many.
func (t *connTable) admit(c *conn) bool {
	t.mu.Lock()
	defer t.mu.Unlock()
	if t.most > 0 && t.n >= t.most && !t.evictLocked() {
		return false
	}
	t.n++
	c.place = t.idle.PushBack(c) // until its request comes
	return true
}

// evictLocked closes the connection that has been idle for longest, if any is.
// +checklocks:t.mu
func (t *connTable) evictLocked() bool {
	t.closed.Inc()
	if !t.full {
		t.full = true
		t.log.Warn("too many connections: from now on the longest idle is closed for each new one", "connections", t.n, "why", "RLIMIT_NOFILE leaves room for no more")
	}
	first := t.idle.Front()
	if first == nil {
		return false
	}
	c := first.Value.(*conn)
	t.leaveLocked(c)
	_ = undermost(c).Close() // its server meets the error, and ends it
	return true
}

// leaveLocked takes a connection out.
// +checklocks:t.mu
func (t *connTable) leaveLocked(c *conn) {
	if c.gone {
		return
	}
	c.gone = true
	t.n--
	if t.n < t.most/2 {
		t.full = false
	}
	if c.place != nil {
		t.idle.Remove(c.place)
		c.place = nil
	}
}

func (t *connTable) leave(c *conn) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.leaveLocked(c)
}

// note hears of a connection's state from http.Server.
func (t *connTable) note(c *conn, state http.ConnState) {
	t.mu.Lock()
	defer t.mu.Unlock()
	switch {
	case c.gone:
	case state == http.StateActive && c.place != nil:
		t.idle.Remove(c.place)
		c.place = nil
	case state == http.StateIdle && c.place == nil:
		c.place = t.idle.PushBack(c)
	}
}

func (t *connTable) count() int {
	t.mu.Lock()
	defer t.mu.Unlock()
	return t.n
}

// undermost is the connection under all that wraps it: to close that one says nothing
// to the other side, and so never waits for it.
func undermost(c net.Conn) net.Conn {
	for {
		w, ok := c.(interface{ NetConn() net.Conn })
		if !ok {
			return c
		}
		c = w.NetConn()
	}
}
