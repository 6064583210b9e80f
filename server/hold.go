// SPDX-License-Identifier: Apache-2.0

package server

import (
	"sync"
	"time"
)

// hold is what a request has of what is scarce, and a watch on its client: one that
// moves nothing for Pace.Pressed while others wait for that is cut off, and sooner
// the more of them wait. While nobody waits the pace of pieces is all that counts.
//
// So a few clients that have stopped, holding memory or places, cost the others
// seconds and not the time that a slow client is allowed.
type hold struct {
	s *Server
	x *exchange

	mu sync.Mutex
	// +checklocks:mu
	has scarce
	// +checklocks:mu
	charged int64 // bytes of limits.json_bytes
	// +checklocks:mu
	turn turn // whose turn it is
	// +checklocks:mu
	since time.Time // when the turn began
	// +checklocks:mu
	limit time.Duration // how long it may be, while others want what the request has
	// +checklocks:mu
	cut turn // the direction in which the client was cut off
	// +checklocks:mu
	over bool
	// +checklocks:mu
	timer *time.Timer // nil until there is something to watch
}

// turn says what a request waits for its client to do.
type turn uint8

const (
	atWork turn = iota // it waits for the store, or is at work
	sends              // the client sends its body
	takes              // the client takes its answer
)

// take notes that the request has what is scarce, and begins to watch.
func (h *hold) take(what scarce) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.has |= what
	if h.timer == nil && h.x.pace.Pressed > 0 {
		h.timer = time.AfterFunc(h.x.pace.Pressed/leastPatience, h.watch)
	}
}

// give notes that the request has it no more.
func (h *hold) give(what scarce) {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.has &^= what
}

// charge takes n bytes of limits.json_bytes until the end; false if there are none.
func (h *hold) charge(n int64) bool {
	if !h.s.texts.take(n) {
		return false
	}
	h.take(text)
	h.mu.Lock()
	defer h.mu.Unlock()
	h.charged += n
	return true
}

// end gives back what only the hold knows of.
func (h *hold) end() {
	h.mu.Lock()
	defer h.mu.Unlock()
	h.s.texts.give(h.charged)
	if h.has&place != 0 {
		h.s.places.give(1)
	}
	h.has, h.charged, h.over = 0, 0, true
	if h.timer != nil {
		h.timer.Stop()
	}
}

// await says that it is the client's turn to send a byte, or to take n of them. For
// these it has as long as the pace of pieces gives at least.
func (h *hold) await(t turn, n int) {
	p := h.x.pace
	h.mu.Lock()
	defer h.mu.Unlock()
	h.turn, h.since, h.limit = t, time.Now(), p.Pressed
	if t == takes {
		h.limit = max(p.Pressed, p.allow(piece)*time.Duration(n)/piece)
	}
}

// moved says that the client's turn is over, with n bytes moved. It returns whether
// the client was cut off meanwhile.
func (h *hold) moved(n int) bool {
	h.mu.Lock()
	was, has := h.turn, h.has
	h.turn = atWork
	cut := was != atWork && h.cut == was
	h.mu.Unlock()
	if n > 0 && has&memory != 0 {
		h.s.stir()
	}
	return cut
}

// isCut tells whether the client was cut off in a direction.
func (h *hold) isCut(t turn) bool {
	h.mu.Lock()
	defer h.mu.Unlock()
	return h.cut == t
}

// watch looks at the client and winds itself up again.
func (h *hold) watch() {
	h.mu.Lock()
	defer h.mu.Unlock()
	if h.over || h.cut != atWork {
		return
	}
	least := h.x.pace.Pressed / leastPatience
	if h.turn != atWork && time.Since(h.since) >= least {
		divisor, wanted := h.s.patience(h.has)
		if limit := max(h.limit/time.Duration(divisor), least); wanted && time.Since(h.since) >= limit {
			h.cutLocked()
			return
		}
	}
	h.timer.Reset(least)
}

// leastPatience is the part of Pace.Pressed, one over it, that a client has at
// least, however many wait.
const leastPatience = 12

// cutLocked makes the client's read or write fail, and all that follow.
// +checklocks:h.mu
func (h *hold) cutLocked() {
	h.cut = h.turn
	if h.cut == sends {
		_ = h.x.rc.SetReadDeadline(longAgo())
	} else {
		_ = h.x.rc.SetWriteDeadline(longAgo())
	}
}

// longAgo is a deadline that has passed.
func longAgo() time.Time { return time.Unix(1, 0) }

// stir tells those who wait for memory that it moves.
func (s *Server) stir() {
	if st := s.store.Load(); st != nil {
		st.Stir()
	}
}
