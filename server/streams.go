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
	cancel map[*exchange]context.CancelFunc
}

// streamEnd is how long a stream that is ended still has for what is on its way
// to the client.
const streamEnd = time.Second

// add returns a context that ends with ctx and with the streams, unless they have
// ended or most are open already: then it is nil. The caller calls remove.
func (t *streams) add(ctx context.Context, x *exchange, most int64) (in context.Context, open int) {
	t.mu.Lock()
	defer t.mu.Unlock()
	if open = len(t.cancel); t.ended || most > 0 && int64(open) >= most {
		return nil, open
	}
	if t.cancel == nil {
		t.cancel = map[*exchange]context.CancelFunc{}
	}
	in, t.cancel[x] = context.WithCancel(ctx)
	return in, open
}

func (t *streams) remove(x *exchange) {
	t.mu.Lock()
	defer t.mu.Unlock()
	t.cancel[x]()
	delete(t.cancel, x)
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
	for x, cancel := range t.cancel {
		cancel()
		x.hurry(streamEnd)
	}
}
