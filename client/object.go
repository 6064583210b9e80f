// SPDX-License-Identifier: Apache-2.0

package client

import (
	"context"
	"fmt"
	"io"
	"iter"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"github.com/rawblockd/rawblockd/api"
)

// Object is one stored payload.
type Object struct {
	Body  io.ReadCloser // nil for Head; the caller closes it
	Bytes int64
	ETag  string
}

// PutOptions change what Put does.
type PutOptions struct {
	Overwrite bool
	TTL       time.Duration // 0: the namespace's
}

// expectAbove is the length from which Put asks before it sends: a refusal then
// costs a round trip instead of the payload.
const expectAbove = 1 << 20

// Put stores n bytes of body under key. Without Overwrite a key that exists is
// an *Error with the status exists. A negative TTL is ErrTTL.
func (c *Client) Put(ctx context.Context, key string, body io.Reader, n int64, o PutOptions) (api.PutResponse, error) {
	query := url.Values{}
	if o.Overwrite {
		query.Set("overwrite", "true")
	}
	if err := setTTL(query, o.TTL); err != nil {
		return api.PutResponse{}, fmt.Errorf("put %q: %w", key, err)
	}
	req, err := c.request(ctx, http.MethodPut, api.ObjectPath(c.ns, key), query, io.NopCloser(body))
	if err != nil {
		return api.PutResponse{}, err
	}
	req.ContentLength = n
	if n == 0 {
		req.Body = http.NoBody
	}
	req.Header.Set("Content-Type", api.MediaOctets)
	if n > expectAbove {
		req.Header.Set("Expect", "100-continue")
	}
	resp, err := c.do(req)
	if err != nil {
		return api.PutResponse{}, err
	}
	var out api.PutResponse
	return out, c.decode(resp, &out)
}

// Get returns the payload of key. A body that ends early ends with
// io.ErrUnexpectedEOF.
func (c *Client) Get(ctx context.Context, key string) (Object, error) {
	return c.object(ctx, http.MethodGet, key)
}

// Head returns the length of key without its payload.
func (c *Client) Head(ctx context.Context, key string) (Object, error) {
	o, err := c.object(ctx, http.MethodHead, key)
	if err != nil {
		return Object{}, err
	}
	_ = o.Body.Close() // a HEAD has none
	o.Body = nil
	return o, nil
}

func (c *Client) object(ctx context.Context, method, key string) (Object, error) {
	req, err := c.request(ctx, method, api.ObjectPath(c.ns, key), nil, nil)
	if err != nil {
		return Object{}, err
	}
	resp, err := c.do(req)
	if err != nil {
		return Object{}, err
	}
	return Object{Body: resp.Body, Bytes: resp.ContentLength, ETag: resp.Header.Get("ETag")}, nil
}

// Delete removes key; force removes it though a lease pins it.
func (c *Client) Delete(ctx context.Context, key string, force bool) (api.DeleteResponse, error) {
	var out api.DeleteResponse
	query := url.Values{}
	if force {
		query.Set("force", "true")
	}
	return out, c.call(ctx, http.MethodDelete, api.ObjectPath(c.ns, key), query, nil, &out)
}

// List returns one page of entries in slot order, from cursor on ("": the
// first page). limit 0 lets the daemon choose.
func (c *Client) List(ctx context.Context, cursor string, limit int) (api.ListResponse, error) {
	var out api.ListResponse
	query := url.Values{}
	if cursor != "" {
		query.Set("cursor", cursor)
	}
	if limit > 0 {
		query.Set("limit", strconv.Itoa(limit))
	}
	return out, c.call(ctx, http.MethodGet, api.NamespacePath(c.ns), query, nil, &out)
}

// All yields every entry, page after page. An error is yielded last.
func (c *Client) All(ctx context.Context) iter.Seq2[api.ListEntry, error] {
	return func(yield func(api.ListEntry, error) bool) {
		cursor := ""
		for {
			page, err := c.List(ctx, cursor, 0)
			if err != nil {
				yield(api.ListEntry{}, err)
				return
			}
			for _, e := range page.Entries {
				if !yield(e, nil) {
					return
				}
			}
			if cursor = page.Cursor; cursor == "" {
				return
			}
		}
	}
}
