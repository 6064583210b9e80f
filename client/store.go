// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"errors"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"sync"
	"time"

	"github.com/rawblockd/rawblockd/api"
)

// Item is one key of a store: Bytes bytes of Body.
type Item struct {
	Key   string
	Bytes int64
	Body  io.Reader // an io.WriterTo is written in the parts that it chooses
}

// StoreOptions change what Store does.
type StoreOptions struct {
	Overwrite bool
	Force     bool          // with Overwrite: pinned entries too
	TTL       time.Duration // 0: the namespace's
	After     string        // the key that this batch continues
	Family    string
}

// copyPart is how much of a body goes to the connection at once.
const copyPart = 1 << 20

// Store sends items as frames, each pulled when the one before has been sent.
// When an item's body fails or ends early, or ctx ends, the request is broken
// off and the daemon publishes nothing of it. Results are in the order of
// items. Store returns after its last use of items and their bodies.
func (c *Client) Store(ctx context.Context, items iter.Seq[Item], o StoreOptions) (api.StoreResponse, error) {
	query, err := c.storeQuery(ctx, o)
	if err != nil {
		return api.StoreResponse{}, fmt.Errorf("store: %w", err)
	}
	body := newStoreBody(items)
	req, err := c.request(ctx, http.MethodPost, "/v1/batch/store", query, body)
	if err != nil {
		return api.StoreResponse{}, err
	}
	req.Header.Set("Content-Type", api.MediaFrames)
	resp, err := c.do(req)
	var out api.StoreResponse
	if err == nil {
		err = c.decode(resp, &out)
	}
	sent, cause := body.wait()
	switch {
	case cause != nil: // the first cause; what the transport says is its consequence
		return api.StoreResponse{}, fmt.Errorf("store at %s: %w", c.addr, cause)
	case err != nil:
		return api.StoreResponse{}, err
	case len(out.Results) != sent:
		return api.StoreResponse{}, fmt.Errorf("store at %s: %d results for %d keys", c.addr, len(out.Results), sent)
	}
	return out, nil
}

func (c *Client) storeQuery(ctx context.Context, o StoreOptions) (url.Values, error) {
	q := url.Values{"namespace": {c.ns}}
	if o.Overwrite {
		q.Set("overwrite", "true")
	}
	if o.Force {
		q.Set("force", "true")
	}
	if err := setTTL(q, o.TTL); err != nil {
		return nil, err
	}
	if o.After != "" {
		q.Set("after", o.After)
	}
	if o.Family != "" {
		q.Set("family", o.Family)
	}
	if ms := deadlineMS(ctx); ms > 0 {
		q.Set("deadline_ms", strconv.FormatInt(ms, 10))
	}
	return q, nil
}

// storeBody is the request body. The transport finds WriteTo and calls it on
// its own goroutine, so bodies go to the connection in large parts and without
// the pipe that a plain Reader would need.
type storeBody struct {
	items iter.Seq[Item]

	mu sync.Mutex
	// +checklocks:mu
	running bool
	// +checklocks:mu
	closed bool
	// +checklocks:mu
	sent int
	// +checklocks:mu
	cause error // of the items' own making
	idle  chan struct{}
}

func newStoreBody(items iter.Seq[Item]) *storeBody {
	return &storeBody{items: items, idle: make(chan struct{})}
}

var errReadBody = errors.New("the transport reads a body that can only be written")

// Read is there for the io.Reader that http.Request wants.
func (b *storeBody) Read([]byte) (int, error) { return 0, errReadBody }

// WriteTo writes all frames to the connection.
func (b *storeBody) WriteTo(w io.Writer) (int64, error) {
	b.mu.Lock()
	if b.running || b.closed {
		b.mu.Unlock()
		return 0, errReadBody
	}
	b.running = true
	b.mu.Unlock()
	to := &tracked{w: w}
	sent, err := writeFrames(to, b.items)
	b.mu.Lock()
	defer b.mu.Unlock()
	b.running, b.sent = false, sent
	if err != nil && to.err == nil {
		b.cause = err
	}
	b.settleLocked()
	return to.n, err
}

// Close is called by the transport when it needs the body no more.
func (b *storeBody) Close() error {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.closed = true
	b.settleLocked()
	return nil
}

// +checklocks:b.mu
func (b *storeBody) settleLocked() {
	if !b.closed || b.running {
		return
	}
	select {
	case <-b.idle:
	default:
		close(b.idle)
	}
}

// wait returns when items is used no more: how many were sent whole, and what
// went wrong with one.
func (b *storeBody) wait() (int, error) {
	<-b.idle
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.sent, b.cause
}

func writeFrames(w io.Writer, items iter.Seq[Item]) (sent int, err error) {
	frames := api.NewFrameWriter(w)
	var buf []byte
	for it := range items {
		if err := frames.Begin(api.Frame{Key: it.Key, Bytes: it.Bytes}); err != nil {
			return sent, err
		}
		if buf == nil {
			buf = make([]byte, copyPart)
		}
		n, err := io.CopyBuffer(frames, it.Body, buf)
		if err == nil && n < it.Bytes {
			err = io.ErrUnexpectedEOF
		}
		if err != nil {
			return sent, fmt.Errorf("key %q: %d of %d bytes sent: %w", it.Key, n, it.Bytes, err)
		}
		sent++
	}
	return sent, frames.Close()
}

// tracked remembers the error of the connection, to tell it from an item's.
type tracked struct {
	w   io.Writer
	n   int64
	err error
}

func (t *tracked) Write(p []byte) (int, error) {
	n, err := t.w.Write(p)
	t.n += int64(n)
	if err != nil {
		t.err = err
	}
	return n, err
}
