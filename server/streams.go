// SPDX-License-Identifier: Apache-2.0

package server

import (
	"context"
	"sync"
	"time"
)

// streams are the answers that last as long as their client likes. A stop must
// not wait for them: end ends them all, and no other begins until begin.
type streams struct {
	mu sync.Mutex
	// +checklocks:mu
	ended bool
	// +checklocks:mu
	open map[*exchange]stream
	// +checklocks:mu
	owned map[string]int // streams by owner
}

// stream is one of them.
type stream struct {
	cancel context.CancelFunc
	owner  string // "": it has an end of its own, and is not counted
}

// streamEnd is how long a stream that is ended still has for what is on its way
// to the client.
const streamEnd = time.Second

// add returns a context that ends with ctx and with the streams. It is nil if they
// have ended, and if they are too many: there may be most of them, and of one owner
// as many as there are places free. So one who opens them and forgets them has half
// of the places at most, and there is one for whoever has none. The caller calls
// remove.
func (t *streams) add(ctx context.Context, x *exchange, owner string, most int64) (in context.Context, mine int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	mine = t.owned[owner]
	if t.ended {
		return nil, mine
	}
	if owner != "" && most > 0 && int64(mine) >= most-t.countedLocked() {
		return nil, mine
	}
	if t.open == nil {
		t.open, t.owned = map[*exchange]stream{}, map[string]int{}
	}
	in, cancel := context.WithCancel(ctx)
	t.open[x] = stream{cancel, owner}
	t.owned[owner]++
	return in, mine
}

// countedLocked is how many streams have an owner.
// +checklocks:t.mu
func (t *streams) countedLocked() int64 { return int64(len(t.open) - t.owned[""]) }

func (t *streams) remove(x *exchange) {
	t.mu.Lock()
	defer t.mu.Unlock()
	s := t.open[x]
	s.cancel()
	delete(t.open, x)
	if t.owned[s.owner]--; t.owned[s.owner] == 0 {
		delete(t.owned, s.owner)
	}
}

func (t *streams) begin() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = false
}

func (t *streams) end() {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.ended = true
	for x, s := range t.open {
		s.cancel()
		x.hurry(streamEnd)
	}
}
